import copy
import json
import os
import socket
from collections.abc import Callable
from datetime import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_runtime.config import InvalidConfig, NodeConfig, load_config
from edge_runtime.config.rules import LineRule, ZoneRule
from edge_runtime.config.source import RtspSource
from edge_runtime.protocol import DataClass

Write = Callable[[Any], Path]

_MISSING = object()


def _problems(path: Path) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        load_config(path)
    return [problem.show("f") for problem in caught.value.problems]


def _with(data: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """`data` with `value` at a place such as `cameras/dock/rules/0/on`; removed where it is _MISSING."""
    *way, last = [int(step) if step.isdigit() else step for step in place.split("/")]
    at: Any = data
    for step in way:
        at = at[step]
    if value is _MISSING:
        del at[last]
    else:
        at[last] = value
    return data


def test_a_file_as_people_write_it(write: Write) -> None:
    path = write(
        """\
# The dock.
version: 1
device: {name: dock-1}
models:
  yolox: {package: models/yolox, score: 0.4}
cameras:
  dock:
    source: {kind: rtsp, url: rtsp://10.0.0.1/live}
    model: yolox
    data_class: internal
    rules:
      - name: no-entry
        kind: zone
        on: [enter, leave]
        labels: [no, person]
        polygon: [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]]
        schedule: {days: [mon], start: 22:30, end: 6:00}
      - {name: over, kind: line, line: [[5, 0], [5, 1]], units: pixels}
"""
    )
    loaded = load_config(path)
    camera = loaded.config.cameras["dock"]
    zone, line = camera.rules
    assert isinstance(zone, ZoneRule)
    assert zone.on == ("enter", "leave")
    assert zone.labels == ("no", "person")
    assert zone.schedule is not None
    assert (zone.schedule.start, zone.schedule.end) == (time(22, 30), time(6, 0))
    assert isinstance(line, LineRule)
    assert line.units == "pixels"
    assert isinstance(camera.source, RtspSource)
    assert loaded.base == path.parent
    assert loaded.path == path
    assert loaded.resolve("models/yolox") == path.parent / "models/yolox"
    assert loaded.resolve("/models") == Path("/models")
    assert loaded.warnings == ()
    assert loaded.digest.startswith("sha256:")


RULE = "cameras/dock/rules/0"

# One JSON object a line: where the valid configuration is changed, to what (nothing: removed), and the sentence
# that must be said; an empty one means that the change is fine.
BAD = [
    json.loads(line) for line in Path(__file__).with_name("bad_configurations.jsonl").read_text().splitlines()
]


_JARGON = ("Input should", "pydantic", "validation error", "Extra inputs")


@pytest.mark.parametrize("row", BAD, ids=[f"{row['at']}={row.get('value', 'nothing')}"[:60] for row in BAD])
def test_bad_configurations_say_what_is_wrong_and_where(
    row: dict[str, Any], valid: dict[str, Any], write: Write
) -> None:
    path = write(_with(valid, row["at"], row.get("value", _MISSING)))
    if not row["says"]:
        load_config(path)
        return
    found = [problem.removeprefix("f:1: ") for problem in _problems(path)]
    assert row["says"] in found
    assert not any("hunter" in problem for problem in found)
    assert not any(word in " ".join(found) for word in _JARGON)


def test_every_problem_is_listed_at_once_in_the_order_of_the_file(write: Write) -> None:
    path = write(
        """\
version: 2
models:
  yolox: {packge: models/yolox}
cameras:
  dock:
    source: {kind: rtsp, url: http://10.0.0.1/live}
    model: yolo
    rules:
      - name: in
        kind: zone
        polygon: [[0, 0], [1, 0]]
        min_confidence: 50
      - {name: in, kind: line, line: [[0, 0]]}
  dock: {}
"""
    )
    assert _problems(path) == [
        "f:1: version: must be 1, not 2",
        "f:3: models.yolox.package: is missing",
        "f:3: models.yolox.packge: is not a known key; did you mean package?",
        "f:6: cameras.dock.source.url: must begin with rtsp:// or rtsps://, not http://; for http write kind: http",
        "f:7: cameras.dock.model: there is no model named yolo; models are yolox",
        "f:11: cameras.dock.rules[0].polygon: needs at least 3 points",
        "f:12: cameras.dock.rules[0].min_confidence: must be at most 1, not 50; fractions run from 0 to 1",
        "f:13: cameras.dock.rules[1].line: needs exactly 2 points, not 1",
        "f:13: cameras.dock.rules[1].name: in is the name of rules[0] already; rule names must differ",
        "f:14: cameras.dock: is given twice; the first is on line 5",
    ]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "f: is empty; edge-runtime config init writes a working file"),
        (b"# only a comment\n", "f: is empty; edge-runtime config init writes a working file"),
        (b"- a\n- b\n", "f:1: must be a section with keys such as models and cameras, not a list"),
        (b"hello", "f:1: must be a section with keys such as models and cameras, not text"),
        (b"42", "f:1: must be a section with keys such as models and cameras, not a number"),
        (b"a: 1\nb: \xff\xfe", "f:2: is not UTF-8 text; save it as UTF-8"),
        ("\ufeffa: ü".encode("utf-16"), "f:1: is not UTF-8 text; save it as UTF-8"),
        (b"a: 1\x00", "f:1: holds the control character U+0000: this is not a text file, or it is damaged"),
        (b"a: b\n" * 300_000, "f: is larger than 1024 KiB: this is no configuration file"),
        (b"a:\n\tb: 1", "f:2: holds a tab where YAML wants spaces: indent with spaces"),
    ],
)  # fmt: skip
def test_files_that_are_no_configuration(content: bytes, line: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    assert _problems(path) == [line]


def test_a_byte_order_mark_and_windows_line_ends_are_fine(valid: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(valid, indent=1).replace("\n", "\r\n").encode())
    assert "dock" in load_config(path).config.cameras


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert _problems(tmp_path / "none.yaml") == [
        "f: there is no such file; edge-runtime config init writes one"
    ]
    assert _problems(tmp_path) == ["f: is a folder; name the configuration file in it"]
    assert _problems(tmp_path / "none" / "none.yaml") == [
        "f: there is no such file; edge-runtime config init writes one"
    ]
    assert _problems(Path("a\0b")) == ["f: cannot be read: embedded null byte"]
    assert _problems(Path("/dev/zero")) == ["f: is a character device; name a configuration file"]
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (1024 * 1024 + 1))
    assert _problems(large) == ["f: is larger than 1024 KiB: this is no configuration file"]
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert _problems(loop) == ["f: cannot be read: Too many levels of symbolic links"]


def test_a_pipe_or_a_socket_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    assert _problems(tmp_path / "fifo.yaml") == ["f: is a pipe; name a configuration file"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert _problems(tmp_path / "s") == ["f: is a socket; name a configuration file"]
    reading, writing = os.pipe()  # never closed by its writer
    try:
        assert _problems(Path(f"/dev/fd/{reading}")) == ["f: is a pipe; name a configuration file"]
    finally:
        os.close(reading)
        os.close(writing)


def test_the_digest_is_of_the_content_not_of_its_form(valid: dict[str, Any], write: Write) -> None:
    first = load_config(write(valid)).digest
    reordered = dict(reversed(valid.items()))
    assert load_config(write("# a comment\n" + json.dumps(reordered, indent=7))).digest == first
    valid["cameras"]["dock"]["rules"][0]["min_confidence"] = 0.5
    assert load_config(write(valid)).digest != first


def test_secrets_neither_enter_nor_change_the_digest(
    valid: dict[str, Any], write: Write, tmp_path: Path
) -> None:
    source = valid["cameras"]["dock"]["source"]
    source |= {"username": "viewer", "password": "${env:PASSWORD}"}
    path = write(valid)
    first = load_config(path, {"PASSWORD": "one"}).digest
    assert load_config(path, {"PASSWORD": "two"}).digest == first
    source["password"] = "literal-1"
    literal = load_config(write(valid)).digest
    source["password"] = "literal-2"
    assert load_config(write(valid)).digest == literal
    del source["username"], source["password"]
    source["url"] = "rtsp://a:b@10.0.0.1/live"
    inline = load_config(write(valid)).digest
    source["url"] = "rtsp://a:c@10.0.0.1/live"
    assert load_config(write(valid)).digest == inline


def test_the_models_themselves_refuse_contradictions(valid: dict[str, Any]) -> None:
    valid["cameras"]["dock"]["model"] = "other"
    with pytest.raises(ValueError, match=r"cameras\.dock\.model: there is no model named other"):
        NodeConfig.model_validate(valid)
    valid["cameras"]["dock"]["model"] = "yolox"
    assert NodeConfig.model_validate(valid).cameras["dock"].data_class is DataClass.INTERNAL


def test_findings_of_later_checks_get_their_lines(valid: dict[str, Any], write: Write) -> None:
    loaded = load_config(write(json.dumps(valid, indent=1)))
    loaded.refuse([])
    with pytest.raises(InvalidConfig, match=r"site\.yaml:\d+: cameras\.dock\.model: is odd") as caught:
        loaded.refuse([(("cameras", "dock", "model"), "is odd")])
    assert caught.value.problems[0].line == 14


@pytest.mark.parametrize("name", ["a", "b", "d", "e"])
def test_configurations_of_another_program_are_recognised(name: str, shared_data: Path) -> None:
    problems = _problems(shared_data / "frigate" / f"config_home_{name}.yml")
    assert (
        problems[0]
        == "f: this is a Frigate configuration, which has another format; edge-runtime config init writes ours"
    )
    assert any(problem.endswith(": models: is missing") for problem in problems)


def test_no_file_that_lies_beside_real_configurations_crashes_the_loader(shared_data: Path) -> None:
    files = [path for path in sorted((shared_data / "frigate").iterdir()) if path.is_file()]
    assert len(files) >= 8
    for path in files:
        assert _problems(path)


_SIMPLE = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
_KEYS = st.sampled_from(["kind", "url", "polygon", "name", "x", ""])
_ODD = st.one_of(
    _SIMPLE,
    st.lists(_SIMPLE, max_size=3),
    st.dictionaries(_KEYS, _SIMPLE, max_size=3),
    st.lists(st.lists(_SIMPLE)),
)
_PLACES = st.sampled_from(sorted({row["at"] for row in BAD}))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(place=_PLACES, value=_ODD)
def test_any_value_anywhere_is_accepted_or_refused_with_sentences(
    place: str, value: Any, valid: dict[str, Any], write: Write
) -> None:
    try:
        lines = [load_config(write(_with(copy.deepcopy(valid), place, value))).digest]
    except InvalidConfig as error:
        lines = error.lines()
    assert lines
    for line in lines:
        assert "\n" not in line
        assert "Input should" not in line


def test_a_list_of_invalid_items_is_not_called_too_short(valid: dict[str, Any], write: Write) -> None:
    valid["cameras"]["dock"]["source"] = {
        "kind": "playlist",
        "clips": ["a", "b"],
        "width": 320,
        "height": 240,
    }
    assert [problem.removeprefix("f:1: ") for problem in _problems(write(valid))] == [
        "cameras.dock.source.clips[0]: must be a section with keys, not text",
        "cameras.dock.source.clips[1]: must be a section with keys, not text",
    ]
