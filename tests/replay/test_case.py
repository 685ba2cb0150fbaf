"""A recording made into a folder that a test can replay."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.recording import Part, RecordingError, Standing, open_recording
from edge_runtime.recording.folder import bytes_in
from edge_runtime.replay.case import check_case, component_of, kept_fields, write_case
from edge_runtime.replay.player import Component, Wish, replay
from tests.rigs.recordings import Field, field_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Field:
    return field_run(tmp_path_factory.mktemp("field"))


def made(run: Field, target: Path, **more: object) -> Path:
    wish = Wish(Component.RULES, **more)  # type: ignore[arg-type]
    write_case(target, replay(open_recording(run.folder.parent), wish), wish, "the gate counts twice")
    return target


def expected_file(case: Path) -> Path:
    return case / "expected.rules.ndjson"


def test_a_case_expects_what_came_of_the_recording(run: Field, tmp_path: Path) -> None:
    case = made(run, tmp_path / "case")
    found = check_case(case)
    assert found.same
    assert found.differences == ()
    assert len(found.replayed.events) == len(run.events)
    assert component_of(case) is Component.RULES
    assert (case / "README.md").read_text() == "the gate counts twice\n"
    assert bytes_in(case) < 300_000


def test_it_tells_nothing_of_where_the_camera_is(run: Field, tmp_path: Path) -> None:
    case = made(run, tmp_path / "case")
    text = b"".join(path.read_bytes() for path in case.rglob("*") if path.is_file())
    for word in (b"hunter2", b"rtsp", b"camera.invalid", b"absent"):
        assert word not in text
    assert not list(case.rglob("*.png"))
    standing = Standing()
    kinds = {record.kind for record in Part.read(case / run.folder.name).records(standing)}
    assert kinds == {"frame", "source", "lineup", "finish"}


def record(kind: str, fields: dict[str, Any]) -> FlightRecord:
    return FlightRecord(kind, 5, 0, False, "boot", fields)


@pytest.mark.parametrize(
    ("kind", "fields", "kept"),
    [
        (
            "source",
            {"state": "lost", "error": "rtsp://***@10.1.2.3/stream refuses the connection"},
            {"state": "lost", "error": ""},
        ),
        (
            "frame",
            {"unseen": "undecodable", "text": "/srv/clips/yard.mp4 ends"},
            {"unseen": "undecodable", "text": ""},
        ),
        (
            "flight",
            {
                "record": {
                    "kind": "act",
                    "ask": "acknowledge",
                    "by": "ada",
                    "note": "looked at it",
                    "latch": "1f",
                }
            },
            {"record": {"kind": "act", "ask": "acknowledge", "latch": "1f"}},
        ),
        (
            "flight",
            {"record": {"kind": "fault", "by": "ada", "unit": "camera"}},
            {"record": {"kind": "fault", "unit": "camera"}},
        ),
        (
            "end",
            {"why": "full", "text": "the bytes are used up"},
            {"why": "full", "text": "the bytes are used up"},
        ),
        ("frame", {"boxes": [], "picture": "1.png"}, {"boxes": []}),
    ],
)
def test_neither_addresses_nor_people_are_kept(
    kind: str, fields: dict[str, Any], kept: dict[str, Any]
) -> None:
    assert kept_fields(record(kind, fields)) == kept


def test_it_can_be_cut_out_of_a_longer_one(run: Field, tmp_path: Path) -> None:
    case = made(run, tmp_path / "case", from_s=3.0, until_s=12.0)
    found = check_case(case)
    assert found.same
    assert 0 < len(found.replayed.events) < len(run.events)
    assert bytes_in(case) < bytes_in(made(run, tmp_path / "all"))


def test_an_event_that_is_no_longer_made_is_told(run: Field, tmp_path: Path) -> None:
    case = made(run, tmp_path / "case")
    lines = expected_file(case).read_bytes().splitlines(keepends=True)
    changed = json.loads(lines[3]) | {"severity": "critical"}
    expected_file(case).write_bytes(b"".join([*lines[:3], json.dumps(changed).encode() + b"\n", *lines[5:]]))
    found = check_case(case)
    assert not found.same
    assert sorted(one.kind.value for one in found.differences) == ["changed", "extra"]
    (severity,) = [one for one in found.differences if one.kind.value == "changed"]
    assert severity.fields == (("severity", "critical", "notice"),)


def test_rules_that_behave_otherwise_fail_it(
    run: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = made(run, tmp_path / "case")
    monkeypatch.setattr("edge_runtime.events.lifecycle.UPDATE_EVERY_NS", 3 * NS_PER_S)
    found = check_case(case)
    assert not found.same
    assert {(one.kind.value, one.event.state.value) for one in found.differences} >= {("missing", "updated")}


def test_the_last_bit_counts(run: Field, tmp_path: Path) -> None:
    case = made(run, tmp_path / "case")
    lines = expected_file(case).read_bytes().splitlines(keepends=True)
    expected_file(case).write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    found = check_case(case)
    assert (found.same, found.differences) == (False, ())


def test_a_folder_that_is_there_is_not_overwritten(run: Field, tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "mine").write_text("x")
    with pytest.raises(RecordingError, match="is not empty"):
        made(run, tmp_path / "case")
    assert (tmp_path / "case" / "mine").read_text() == "x"


def test_what_is_no_case_is_one_sentence(run: Field, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="says nothing of what is expected"):
        check_case(run.folder)
    case = made(run, tmp_path / "case")
    expected_file(case).write_text('{"v": 1}\n')
    with pytest.raises(RecordingError, match="line 1 is no event"):
        check_case(case)
    shutil.rmtree(case / run.folder.name)
    with pytest.raises(RecordingError, match="holds no recording"):
        check_case(case)
