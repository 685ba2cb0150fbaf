import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.config import InvalidConfig, load_config
from edge_runtime.config.secrets import MAX_SECRET_BYTES, resolve_references, without_secrets
from edge_runtime.config.source import RtspSource
from edge_runtime.telemetry import redact

Write = Callable[[Any], Path]


def _secret(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def _resolve(data: Any, base: Path, **environment: str) -> tuple[Any, list[str], list[str]]:
    resolved = resolve_references(data, base, environment)
    return resolved.data, [text for _, text in resolved.problems], [text for _, text in resolved.warnings]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:A}", "one"),
        ("x${env:A}y${env:B}", "xoneytwo"),
        ("$${env:A}", "${env:A}"),
        ("a$b $$ $", "a$b $$ $"),
        ("no reference {here}", "no reference {here}"),
    ],
)
def test_references_in_text(text: str, value: str, tmp_path: Path) -> None:
    assert _resolve({"url": [text]}, tmp_path, A="one", B="two") == ({"url": [value]}, [], [])


def test_only_text_is_looked_at(tmp_path: Path) -> None:
    data = {"a": 1, "b": None, "c": [True, 0.5], "${env:A}": "x"}
    assert _resolve(data, tmp_path, A="one") == (data, [], [])


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"pw", "pw"), (b"pw\n", "pw"), (b"pw\r\n", "pw"), (b" p w \n\n", " p w \n"), ("pä\n".encode(), "pä")],
)
def test_a_secret_file_loses_its_last_line_end_only(content: bytes, value: str, tmp_path: Path) -> None:
    _secret(tmp_path / "cam.secret", content)
    assert _resolve("${file:cam.secret}", tmp_path) == (value, [], [])
    assert _resolve(f"${{file:{tmp_path / 'cam.secret'}}}", Path("/")) == (value, [], [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${env:NONE}", "the environment variable NONE is not set"),
        ("${env:EMPTY}", "the environment variable EMPTY is empty"),
        ("${env:A B}", "${env:A B} is no reference; write ${env:NAME} or ${file:PATH}"),
        ("${HOME}", "${HOME} is no reference; write ${env:NAME} or ${file:PATH}"),
        ("${vault:x}", "${vault:x} is no reference; write ${env:NAME} or ${file:PATH}"),
        ("${}", "${} is no reference; write ${env:NAME} or ${file:PATH}"),
        ("${file:}", "${file:} is no reference; write ${env:NAME} or ${file:PATH}"),
        ("${env:A", "a ${ without its }; write $${ for a literal one"),
        ("${file:none}", "the secret file none cannot be read: No such file or directory"),
        ("${file:.}", "the secret file . cannot be read: Is a directory"),
        ("${file:binary}", "the secret file binary is not UTF-8 text"),
        ("${file:nothing}", "the secret file nothing is empty"),
        ("${file:newline}", "the secret file newline is empty"),
        ("${file:large}", f"the secret file large is larger than {MAX_SECRET_BYTES} bytes"),
        ("${file:fifo}", "the secret file fifo is a pipe; name a file"),
        ("${file:/dev/zero}", "the secret file /dev/zero is a character device; name a file"),
        ("${file:a\0b}", "the secret file a\\u0000b is not UTF-8 text"),
    ],
)
def test_references_that_lead_nowhere(text: str, problem: str, tmp_path: Path) -> None:
    for name, content in (
        ("binary", b"\xff"),
        ("nothing", b""),
        ("newline", b"\n"),
        ("large", b"x" * 70_000),
    ):
        _secret(tmp_path / name, content)
    os.mkfifo(tmp_path / "fifo")
    value, problems, _ = _resolve(text, tmp_path, EMPTY="")
    assert problems == [problem]
    assert value == text


def test_a_secret_file_that_everybody_can_read_is_named(tmp_path: Path) -> None:
    _secret(tmp_path / "cam.secret", b"hunter22", 0o644)
    value, problems, warnings = _resolve("${file:cam.secret}", tmp_path)
    assert (value, problems) == ("hunter22", [])
    assert warnings == ["the secret file cam.secret can be read by every user; chmod 600 cam.secret"]


def test_an_unresolved_reference_is_one_located_problem(valid: dict[str, Any], write: Write) -> None:
    valid["cameras"]["dock"]["source"]["url"] = "${env:NOT_SET_ANYWHERE}"
    with pytest.raises(InvalidConfig) as caught:
        load_config(write(json.dumps(valid, indent=1)), {})
    assert [problem.show("f") for problem in caught.value.problems] == [
        "f:12: cameras.dock.source.url: the environment variable NOT_SET_ANYWHERE is not set"
    ]


def test_the_value_behind_a_reference_is_never_repeated(valid: dict[str, Any], write: Write) -> None:
    valid["cameras"]["dock"]["source"] = {"kind": "rtsp", "url": "${env:A}", "transport": "${env:B}"}
    valid["models"]["yolox"]["threads"] = "${env:C}"
    valid["models"]["yolox"]["mode"] = "${env:D}"
    environment = dict.fromkeys("ABCD", "hunter-two-thousand")
    with pytest.raises(InvalidConfig) as caught:
        load_config(write(valid), environment)
    assert len(caught.value.problems) == 4
    assert "hunter" not in str(caught.value)


def test_numbers_may_come_from_the_environment(valid: dict[str, Any], write: Write) -> None:
    valid["models"]["yolox"] |= {
        "threads": "${env:THREADS}",
        "score": "${env:SCORE}",
        "spinning": "${env:SPIN}",
    }
    model = load_config(write(valid), {"THREADS": "4", "SCORE": "0.25", "SPIN": "true"}).config.models[
        "yolox"
    ]
    assert (model.threads, model.score, model.spinning) == (4, 0.25, True)


def test_no_secret_is_in_repr_dump_or_log_of_a_loaded_configuration(
    valid: dict[str, Any], write: Write, tmp_path: Path
) -> None:
    _secret(tmp_path / "pw.secret", b"hunter2000\n")
    valid["cameras"]["dock"]["source"] |= {"username": "viewer-7", "password": "${file:pw.secret}"}
    valid["cameras"]["yard"] = {
        "source": {"kind": "http", "url": "http://bob:tr0ub4dor@10.0.0.2/v?token=abcdef&x=1"},
        "model": "yolox",
    }
    valid["cameras"]["gate"] = {
        "source": {
            "kind": "gstreamer",
            "pipeline": "rtspsrc location=rtsp://x/1 user-pw=c0rrect ! decodebin",
        },
        "model": "yolox",
    }
    loaded = load_config(write(valid))
    texts = [
        repr(loaded),
        str(loaded),
        str(loaded.config.model_dump()),
        loaded.config.model_dump_json(),
        repr(loaded.config.cameras["dock"].source),
        "".join(problem.show("f") for problem in loaded.warnings),
    ]
    for text in texts:
        for secret in ("hunter2000", "viewer-7", "bob", "tr0ub4dor", "abcdef", "c0rrect"):
            assert secret not in text
    assert "rtsp://10.0.0.1/live" in texts[0]
    source = loaded.config.cameras["dock"].source
    assert isinstance(source, RtspSource)
    assert f"{source.password}" == "hunter2000"
    assert pickle.loads(pickle.dumps(source)).password == "hunter2000"
    assert redact("got hunter2000 and tr0ub4dor") == "got *** and ***"


def test_names_and_paths_from_the_environment_stay_readable_in_logs(
    valid: dict[str, Any], write: Write
) -> None:
    valid["device"] = {"name": "${env:HOST}"}
    valid["models"]["yolox"]["package"] = "${env:MODELS}/yolox"
    load_config(write(valid), {"HOST": "dock-seven", "MODELS": "/srv/models"})
    assert redact("dock-seven loads /srv/models/yolox") == "dock-seven loads /srv/models/yolox"


def test_of_a_whole_url_only_its_user_information_is_secret(
    valid: dict[str, Any], write: Write, tmp_path: Path
) -> None:
    _secret(tmp_path / "url.secret", b"rtsp://admin:p%40ssw0rd@10.0.0.9/live\n")
    valid["cameras"]["dock"]["source"]["url"] = "${file:url.secret}"
    load_config(write(valid))
    assert redact("rtsp://admin:p%40ssw0rd@10.0.0.9/live refuses") == "rtsp://***@10.0.0.9/live refuses"
    assert redact("password p@ssw0rd") == "password ***"


def test_what_a_digest_is_made_of_holds_no_secret() -> None:
    data = {
        "password": "pw",
        "a": [{"password": 5, "url": "rtsp://u:p@h"}],
        "b": {"password": "${env:X}"},
        "c": 1,
    }
    assert without_secrets(data) == {
        "password": "***",
        "a": [{"password": "***", "url": "rtsp://***@h"}],
        "b": {"password": "${env:X}"},
        "c": 1,
    }


def test_the_process_environment_is_the_default(
    valid: dict[str, Any], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "EDGE_TEST_HOST", "10.9.8.7")
    valid["cameras"]["dock"]["source"]["url"] = "rtsp://${env:EDGE_TEST_HOST}/live"
    source = load_config(write(valid)).config.cameras["dock"].source
    assert isinstance(source, RtspSource)
    assert source.url == "rtsp://10.9.8.7/live"
