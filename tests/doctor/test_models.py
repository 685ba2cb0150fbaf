"""Models opened in processes of their own, whatever becomes of those."""

import json
import sys
import time
from pathlib import Path

import pytest

from edge_runtime.doctor.facts import ModelFacts
from edge_runtime.doctor.models import children_of, watch
from edge_runtime.doctor.opening import answer
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "models" / "centerface"
PROVIDERS = ("tensorrt", "cpu")


def site(tmp_path: Path, providers: str = "[cpu]", package: Path = PACKAGE, more: str = "") -> Path:
    config = tmp_path / "site.yaml"
    config.write_text(
        f"version: 1\nmodels:\n  faces: {{package: {package}, providers: {providers}{more}}}\n"
        "cameras:\n  a: {model: faces, source: {kind: synthetic}}\n"
    )
    return config


def ran(script: str, timeout_s: float = 30.0) -> ModelFacts:
    return watch([sys.executable, "-c", script], PROVIDERS, timeout_s)


def test_an_answer_is_the_last_line() -> None:
    told = {"model": {"effective": "cpu", "backend": "onnxruntime", "version": "1", "degraded": "why"}}
    facts = ran(f"print('a library speaks'); print({json.dumps(json.dumps(told))})")
    assert (facts.effective, facts.backend, facts.version) == ("cpu", "onnxruntime", "1")
    assert (facts.requested, facts.degraded, facts.error) == (PROVIDERS, "why", "")
    assert facts.seconds > 0


def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    for patience_s in (0.5, 5.0, 50.0):  # a slow machine needs longer to start it
        command = ["sh", "-c", f"sleep 600 & echo $! > {noted}.new; mv {noted}.new {noted}; wait"]
        facts = watch(command, PROVIDERS, patience_s)
        assert facts.error.startswith(f"it was not open within {patience_s:g} s and was given up")
        if noted.exists():
            break
    assert_gone(Path(f"/proc/{noted.read_text().strip()}/stat"))


def assert_gone(stat: Path) -> None:
    """A killed process is gone, or waits for its new parent, within a minute."""
    deadline = time.monotonic() + 60
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.05)


def test_one_that_crashes_is_told_by_its_signal() -> None:
    facts = ran("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert facts.error == "its process was ended by SIGSEGV while it opened"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("pass", "its process ended with 0 and no answer: it is silent"),
        ("print('[1]')", "no answer"),
        ("print('{}')", "no answer"),
        ("print('{\"model\": {\"seconds\": 1}}')", "no answer"),
        ("import sys; sys.exit('no module named x')", "ended with 1 and no answer: no module named x"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)))", "no answer"),
    ],
)  # fmt: skip
def test_one_that_gives_no_answer(script: str, words: str) -> None:
    facts = ran(script)
    assert words in facts.error
    assert facts.effective == ""


def test_a_command_that_does_not_start() -> None:
    assert "does not start" in watch(["/nowhere"], PROVIDERS, 1.0).error


def test_a_model_is_really_opened(tmp_path: Path) -> None:
    open_model = children_of(site(tmp_path), tmp_path / "state")
    facts = open_model("faces", ("cpu",), 100.0)
    assert facts.error == ""
    assert (facts.effective, facts.backend, facts.degraded) == ("cpu", "onnxruntime", "")


def test_tensorrt_where_there_is_none_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    told = answer(site(tmp_path, "[tensorrt, cpu]"), "faces", tmp_path)
    assert told["effective"] == "cpu"
    assert "tensorrt was asked for but cpu runs the model (tensorrt: " in told["degraded"]
    assert not list(tmp_path.glob("engines*"))


def test_what_does_not_open_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    told = answer(site(tmp_path, package=tmp_path / "gone"), "faces")
    assert list(told) == ["error"]
    assert "gone" in told["error"]
    told = answer(site(tmp_path, "[tensorrt]", more=", require_gpu: true"), "faces", tmp_path)
    assert "TensorRT is not installed here" in told["error"]
