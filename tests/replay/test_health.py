"""Readings of a monitor, recorded round by round, are judged the same again, and otherwise under other bounds."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.config import load_config
from edge_runtime.config.monitor import MonitorConfig
from edge_runtime.guard.conditions import Condition
from edge_runtime.health.linux import Disk, MemoryState, Zone
from edge_runtime.health.reading import Reading, unknown
from edge_runtime.monitor.conditions import Memory, evaluate
from edge_runtime.monitor.readings import BatteryReading, Pose, Readings
from edge_runtime.protocol import DataClass
from edge_runtime.recording import (
    Head,
    RecordingError,
    RecordingWriter,
    RoundRecorder,
    Standing,
    Stream,
    WhenFull,
    open_recording,
)
from edge_runtime.recording.configuration import facts_of
from edge_runtime.recording.folder import MIB
from edge_runtime.recording.readings import changed, laid_over
from edge_runtime.replay.health import MONITOR_RULE, Round, replay_health
from edge_runtime.replay.player import Component, Wish, replay
from tests.rigs.events import FakeClock
from tests.rigs.recordings import write_config

GUARD = {
    "monitor": {
        "hot": 80,
        "batteries": {"main": {}},
        "pose": {"max_age": 0.5},
        "map": {"max_age": 30},
        "disk_free": 0.1,
        "disk_free_bytes": 0,
    }
}


def readings(
    now_ns: int, celsius: float | None, *, charge: float = 0.8, free: int = 50, offset: int = 0
) -> Readings:
    heat = unknown("gone") if celsius is None else Reading(celsius)
    return Readings(
        disks={"state": Disk(Reading(100), Reading(free), Reading(99_999), Reading(False))},
        memory=MemoryState(Reading(1000), Reading(500), Reading(0), unknown("no swap")),
        memory_full_percent=Reading(0.1),
        temperatures={"cpu": Zone(heat, Reading(95.0), Reading(105.0))},
        throttled=Reading(False),
        batteries={
            "main": None
            if charge < 0
            else BatteryReading(now_ns, Reading(charge), unknown("no volts"), True, (str(now_ns),))
        },
        pose=Pose(now_ns - 10_000_000, 0.1),
        map_built_ns=now_ns,
        wall_offset_ns=offset,
    )


def day(clock: FakeClock) -> Iterator[Readings]:
    """A minute in which everything happens once."""
    for number in range(300):
        clock.pass_s(0.2)
        now_ns = clock.monotonic_ns()
        celsius: float | None = 90.0 if 50 <= number < 90 else 60.0
        if 70 <= number < 80:
            celsius = None  # it vanishes while it is hot
        found = readings(
            now_ns,
            celsius,
            charge=-1 if 100 <= number < 130 else 0.8 - number / 400,
            free=5 if 150 <= number < 170 else 50,
            offset=10**10 if number >= 200 else number * 1000,
        )
        yield replace(found, pose=None) if 240 <= number < 260 else found


def record(folder: Path) -> Path:
    loaded = load_config(write_config(folder, guard=GUARD))
    clock = FakeClock()
    part = folder / "recording" / "monitor-000001"
    part.mkdir(parents=True)
    wall = clock.wall()
    head = Head(
        stream=Stream.MONITOR, runtime="test", device="d", boot_id=wall.boot_id, began_ns=clock.monotonic_ns(),
        began=wall.isoformat(), synced=True, data_class=DataClass.INTERNAL, bytes=8 * MIB, when_full=WhenFull.STOP,
        config=facts_of(loaded),
    )  # fmt: skip
    writer = RecordingWriter(part, head, clock, most_waiting=100_000)
    tap, memory = RoundRecorder(writer), Memory()
    for found in day(clock):
        judged = evaluate(clock.monotonic_ns(), found, loaded.config.guarding.monitor, memory)
        memory = judged.memory
        tap.round(clock.monotonic_ns(), found, judged, ())
    assert writer.close().why == "closed"
    return folder / "recording"


def test_readings_come_back_as_they_were() -> None:
    clock, before, after = FakeClock(), None, None
    for found in day(clock):
        after = laid_over(after, changed(before, found))
        assert after == found
        before = found


def test_a_round_is_written_as_what_has_changed() -> None:
    first = readings(1, 60.0)
    assert set(changed(first, replace(first, wall_offset_ns=7))) == {"wall_offset_ns"}
    with pytest.raises(ValueError, match="no readings"):
        laid_over(None, {"disks": {}})


def test_the_same_conditions_come_of_it(tmp_path: Path) -> None:
    found = replay(open_recording(record(tmp_path)), Wish(Component.HEALTH))
    assert found.differences() == []
    kinds = {event.kind for event in found.events}
    names = (
        Condition.SOC_HOT, Condition.TEMPERATURE_UNKNOWN, Condition.BATTERY_MISSING, Condition.BATTERY_LOW,
        Condition.DISK_NEARLY_FULL, Condition.CLOCK_STEPPED, Condition.POSE_STALE,
    )  # fmt: skip
    assert {name.value for name in names} <= kinds
    hot = [event for event in found.events if event.kind == "soc_hot"]
    assert [(event.state.value, event.rule) for event in hot] == [
        ("started", MONITOR_RULE),
        ("ended", MONITOR_RULE),
    ]
    assert hot[1].duration_s == pytest.approx(8.0, abs=0.01)
    assert hot[0].reason == "cpu: 90.0 C"


def test_other_bounds_show_what_they_would_have_found(tmp_path: Path) -> None:
    recording = record(tmp_path)
    monitor = {**GUARD["monitor"], "hot": 95}
    other = facts_of(load_config(write_config(tmp_path / "other", guard={"monitor": monitor})))
    found = replay(open_recording(recording), Wish(Component.HEALTH, other, anyway=True))
    assert {(one.kind.value, one.event.kind) for one in found.differences()} == {("missing", "soc_hot")}


def test_a_recording_that_begins_in_between_is_judged_from_its_first_whole_round(tmp_path: Path) -> None:
    recording = record(tmp_path)
    part = recording / "monitor-000001"
    (file,) = part.glob("*.flight")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[7:]))
    found = replay(open_recording(recording), Wish(Component.HEALTH))
    assert found.standings[0][1].begins == 7
    assert found.refused == 0
    assert found.differences() == []


def test_after_a_round_that_is_lost_nothing_is_said_until_the_next_whole_one(tmp_path: Path) -> None:
    recording = record(tmp_path)
    (file,) = (recording / "monitor-000001").glob("*.flight")
    lines = file.read_bytes().splitlines(keepends=True)

    def rounds() -> set[Round]:
        (part,) = open_recording(recording)
        records = list(part.records(Standing()))
        return set(
            replay_health(
                records, MonitorConfig.model_validate(GUARD["monitor"]), "sha256:" + "0" * 64
            ).rounds
        )

    whole = rounds()
    for lost in range(1, len(lines) - 1, 7):
        file.write_bytes(b"".join([*lines[:lost], *lines[lost + 1 :]]))
        assert rounds() < whole


def test_a_recording_of_a_monitor_alone_has_nothing_for_rules(tmp_path: Path) -> None:
    parts = open_recording(record(tmp_path))
    with pytest.raises(RecordingError, match="is one of monitor: there is nothing in it for --part rules"):
        replay(parts, Wish(Component.RULES))
    with pytest.raises(RecordingError, match="does not say what the guard's body allows"):
        replay(parts, Wish(Component.GUARD))
