"""What was seen goes through tracker and rules once more, and the same events come of it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.config import load_config
from edge_runtime.errors import ConfigError
from edge_runtime.events import Unobserved
from edge_runtime.monitor.flight import LARGEST_LINE, FlightRecord, FlightWriter, encode_record
from edge_runtime.recording import OtherRecording, RecordingError, WhenFull, open_recording
from edge_runtime.recording.configuration import facts_of
from edge_runtime.recording.folder import MIB
from edge_runtime.replay.diff import Kind
from edge_runtime.replay.player import Component, Replayed, Wish, replay
from edge_runtime.replay.reference import encoded
from edge_runtime.sources import SourceState
from tests.conftest import REPOSITORY
from tests.rigs.recordings import RULES, Field, field_run, write_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Field:
    return field_run(tmp_path_factory.mktemp("field"))


def again(run: Field, **more: object) -> Replayed:
    return replay(open_recording(run.folder.parent), Wish(**more))  # type: ignore[arg-type]


def test_the_story_has_all_kinds_of_events(run: Field) -> None:
    kinds = {event.kind for event in run.events}
    assert {rule["kind"] for rule in RULES} <= kinds
    assert {Unobserved.DARK.value, Unobserved.LOST.value, Unobserved.INFERENCE_FAILED.value} <= kinds
    assert {event.state.value for event in run.events} == {"started", "updated", "ended", "interrupted"}
    assert len({event.model for event in run.events}) == 2
    assert any("no evidence" in (event.reason or "") for event in run.events)


def test_the_same_events_come_of_it(run: Field) -> None:
    found = again(run)
    assert found.differences() == []
    assert len(found.events) == len(run.events) > 40
    assert [event.model_dump() for event in found.recorded] == [event.model_dump() for event in run.events]
    assert found.refused == 0
    ((_, standing),) = found.standings
    assert (standing.whole, standing.why) == (True, "closed")


def test_two_replays_give_the_same_bytes_in_whatever_process_and_time_zone(
    run: Field, tmp_path: Path
) -> None:
    first, second = encoded(again(run).events), encoded(again(run).events)
    assert first == second
    code = (
        "import sys; from pathlib import Path\n"
        "from edge_runtime.recording import open_recording\n"
        "from edge_runtime.replay.player import Wish, replay\n"
        "from edge_runtime.replay.reference import encoded\n"
        "sys.stdout.buffer.write(encoded(replay(open_recording(Path(sys.argv[1])), Wish()).events))\n"
    )
    environment = {**os.environ, "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "5"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.folder)],
        capture_output=True,
        cwd=REPOSITORY,
        env=environment,
        check=True,
    )
    assert done.stdout == first


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Changes local time of this process."""

    def be_in(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield be_in
    monkeypatch.undo()
    time.tzset()


def test_local_time_is_that_of_the_recording(tmp_path: Path, zone: Callable[[str], None]) -> None:
    zone("THERE-3")  # POSIX: three hours ahead
    rules = [{**RULES[2], "schedule": {"start": "18:00", "end": "19:00"}}]
    run = Field(load_config(write_config(tmp_path, rules)), tmp_path / "r")
    run.clock.pass_s(46 * 60 + 30)  # from 17:13:20 there to ten seconds before
    with run.recorded() as desk:
        run.look(desk, 300)
    assert {event.rule for event in run.events} == {"queue"}
    assert run.events[0].at.media_s > 9
    head = open_recording(run.folder)[0].head.model_copy(update={"utc_offset_s": 3 * 3600})
    head.write(run.folder)
    zone("UTC")
    assert replay(open_recording(run.folder), Wish()).differences() == []
    head.model_copy(update={"utc_offset_s": 0}).write(run.folder)
    assert replay(open_recording(run.folder), Wish()).events == []
    assert os.environ["TZ"] == "UTC"


def test_other_rules_are_refused_and_anyway_show_what_they_would_have_made(
    run: Field, tmp_path: Path
) -> None:
    rules = [{**RULES[0], "direction": "left_to_right"}, *RULES[1:]]
    other = facts_of(load_config(write_config(tmp_path, rules)))
    with pytest.raises(OtherRecording, match=r"was recorded with configuration sha256:.* add --anyway"):
        again(run, config=other)
    found = again(run, config=other, anyway=True)
    lost = [one for one in found.differences() if one.kind is Kind.MISSING]
    assert {(one.event.rule, one.event.direction) for one in lost} == {("gate", "right_to_left")}
    assert {event.config for event in found.events} == {other.digest}
    gone = sum(event.direction == "right_to_left" for event in run.events)
    assert len(lost) == gone > 0


def test_the_same_configuration_from_a_file_is_taken(run: Field, tmp_path: Path) -> None:
    same = facts_of(load_config(write_config(tmp_path)))
    assert again(run, config=same).differences() == []


def test_a_configuration_that_was_changed_in_the_recording_is_refused(tmp_path: Path) -> None:
    run = field_run(tmp_path)
    head = open_recording(run.folder)[0].head
    content = {**head.config.content, "events": {"max_bytes": 3000}}
    head.model_copy(update={"config": head.config.model_copy(update={"content": content})}).write(run.folder)
    with pytest.raises(RecordingError, match="was changed after it was recorded"):
        again(run)
    assert again(run, anyway=True).events


def test_rules_for_labels_that_the_recorded_model_does_not_have_are_refused(
    run: Field, tmp_path: Path
) -> None:
    other = facts_of(load_config(write_config(tmp_path, [{**RULES[0], "labels": ["zebra"]}])))
    with pytest.raises(ConfigError, match="zebra"):
        again(run, config=other, anyway=True)


def test_a_camera_that_the_configuration_does_not_have_is_one_sentence(run: Field, tmp_path: Path) -> None:
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace("yard:", "door:"))
    with pytest.raises(RecordingError, match="camera yard is in the recording"):
        again(run, config=facts_of(load_config(path)), anyway=True)


def test_a_recording_without_its_beginning_is_compared_from_where_it_begins(tmp_path: Path) -> None:
    run = Field(
        load_config(write_config(tmp_path)),
        tmp_path / "recording" / "cameras-000001",
        bytes=MIB // 4,
        when_full=WhenFull.OLDEST,
    )
    with run.recorded() as desk:
        run.look(desk, 1100)
        run.events += desk.finish(interrupted=True)
    found = again(run)
    ((_, standing),) = found.standings
    assert standing.begins > 50
    played = found.by[Component.RULES]
    assert played.first_ns is not None
    assert played.first_ns == standing.first_ns
    settled = played.first_ns + 25 * 10**9
    late = [one for one in found.differences() if one.event.started.monotonic_ns > settled]
    assert late == []
    assert any(event.started.monotonic_ns > settled for event in found.events)


def test_a_part_of_it_is_cut_out_by_seconds(run: Field) -> None:
    found = again(run, from_s=3.0, until_s=9.0)
    ((_, standing),) = found.standings
    assert standing.seconds == pytest.approx(6.0, abs=0.2)
    assert 0 < len(found.events) < len(run.events)
    assert all(event.at.monotonic_ns - found.base_ns <= 9_000_000_000 for event in found.events)


def test_a_silence_that_is_told_again_and_again_is_one(tmp_path: Path) -> None:
    run = Field(load_config(write_config(tmp_path)), tmp_path / "r")
    with run.recorded() as desk:
        run.look(desk, 20)
        run.silent(desk, 60, SourceState.STALLED)
        run.look(desk, 20)
    found = replay(open_recording(run.folder), Wish())
    assert found.differences() == []
    assert found.standings[0][1].records < 40 + len(run.events) + 10


def test_a_recording_ends_where_another_configuration_took_over(tmp_path: Path) -> None:
    run = Field(load_config(write_config(tmp_path)), tmp_path / "r")
    with run.recorded() as desk:
        run.look(desk, 30)
        camera = run.loaded.config.cameras["yard"]
        desk.go_by(camera, run.desk().events)
        run.look(desk, 30)
    found = replay(open_recording(run.folder), Wish())
    ((_, standing),) = found.standings
    assert standing.why == "exchanged"
    assert found.frames == {"yard": 30}
    assert run.ending is not None
    assert run.ending.text == "another configuration was put in use"


def test_records_that_are_not_what_they_should_be_are_passed_over_and_counted(tmp_path: Path) -> None:
    run = Field(load_config(write_config(tmp_path)), tmp_path / "r")
    with run.recorded() as desk:
        run.look(desk, 5)
    bad: list[tuple[str, dict[str, Any]]] = [
        ("frame", {}),
        ("frame", {"camera": "yard", "size": [0, 5]}),
        ("frame", {"camera": "nobody"}),
        ("source", {"camera": "yard", "state": "asleep"}),
        ("event", {"event": {"v": 1}}),
        ("lineup", {"camera": "yard", "lineup": 2, "sight": None}),
        ("news", {"of": "a newer version"}),
    ]
    lines = [
        encode_record(FlightRecord(kind, 1, 1, True, "b", {"n": 1000 + number, **fields}), LARGEST_LINE)
        for number, (kind, fields) in enumerate(bad)
    ]
    assert FlightWriter(run.folder, MIB).append(lines) == len(lines)
    found = replay(open_recording(run.folder), Wish())
    assert found.refused == len(bad) - 1
    assert found.frames == {"yard": 5}
