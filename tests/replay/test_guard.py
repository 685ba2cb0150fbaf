"""The guard's state machine, over what its own flight ring said."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.config import load_config
from edge_runtime.guard import machine
from edge_runtime.guard.conditions import FROM_LATENESS, Condition
from edge_runtime.guard.flight import Flight
from edge_runtime.guard.memory import Acknowledgement, Inputs, Record, State
from edge_runtime.guard.profile import EVERYTHING, from_json
from edge_runtime.guard.ring import RingReader, RingWriter
from edge_runtime.guard.still import still_body
from edge_runtime.monitor.conditions import Judgement, Memory
from edge_runtime.monitor.entries import Stamp, records_of
from edge_runtime.monitor.flight import FlightRecord, FlightWriter, encode_record
from edge_runtime.protocol import DataClass
from edge_runtime.recording import (
    Head,
    RecordingWriter,
    RoundRecorder,
    Standing,
    Stream,
    WhenFull,
    open_recording,
)
from edge_runtime.recording.configuration import facts_of
from edge_runtime.recording.folder import MIB
from edge_runtime.replay.player import Component, Wish, replay
from sim.simulated.motion import cart_profile
from tests.cli.conftest import Cli
from tests.replay.test_health import readings
from tests.rigs.events import FakeClock
from tests.rigs.recordings import write_config

TURN_NS = 20 * NS_PER_MS
MONITOR = {"temperature": "none", "disk_free": 0, "disk_free_bytes": 0}


class Watched:
    """A guard's machine with its real flight ring, and the monitor's recorder behind it."""

    def __init__(self, folder: Path, body: dict[str, Any], *, arms_itself: bool) -> None:
        self.clock, self.profile = FakeClock(), from_json(body)
        self.loaded = load_config(write_config(folder, guard={"monitor": MONITOR}))
        self.folder = folder / "recording"
        part = self.folder / "monitor-000001"
        part.mkdir(parents=True)
        wall = self.clock.wall()
        head = Head(
            stream=Stream.MONITOR, runtime="test", device="d", boot_id=wall.boot_id,
            began_ns=self.clock.monotonic_ns(), began=wall.isoformat(), synced=True,
            data_class=DataClass.INTERNAL, bytes=8 * MIB, when_full=WhenFull.STOP,
            config=facts_of(self.loaded), body=body, arms_itself=arms_itself,
        )  # fmt: skip
        self.writer = RecordingWriter(part, head, self.clock, most_waiting=100_000)
        self.tap = RoundRecorder(self.writer)
        self.ring = RingWriter()
        self.flight, self.reader = Flight(self.ring), RingReader(os.dup(self.ring.fd))
        self.arms_itself, self.turns = arms_itself, 0
        self.memory, outputs = machine.start(
            self.clock.now_ns, boot_id=wall.boot_id, nonce=b"0123456789abcdef",
            found=Record(None, (), wall.boot_id), profile=self.profile,
        )  # fmt: skip
        self.flight.changed(outputs.changes)
        self.states = [self.memory.state]

    def go(self, seconds: float, *tripped: Condition, ask: str | None = None) -> None:
        """Time passes with these conditions; somebody asks for something at its beginning."""
        mask = sum(condition.mask for condition in tripped)
        for number in range(round(seconds * NS_PER_S / TURN_NS)):
            self.clock.pass_s(TURN_NS / NS_PER_S)
            self.turns += 1
            now_ns, asked = self.clock.now_ns, ask if number == 0 else None
            arms = self.arms_itself and self.memory.state is State.STANDBY and self.turns % 50 == 0
            ack = None
            if asked == "acknowledge" and self.memory.latch is not None:
                ack = Acknowledgement(self.memory.latch.id, now_ns)
            inputs = Inputs(
                EVERYTHING, mask, standstill=True, ack=ack,
                arm_ns=now_ns if arms or asked == "arm" else None, disarm=asked == "disarm",
                reset_ns=now_ns if asked == "reset" else None,
            )  # fmt: skip
            self.memory, outputs = machine.step(now_ns, self.memory, inputs, self.profile)
            self.flight.acts([{"ask": asked}] if asked else [], now_ns)
            self.flight.changed(outputs.changes)
            self.states += [change.after for change in outputs.changes]
            unknown = self.profile.counted & ~(EVERYTHING | FROM_LATENESS)
            self.flight.turn(now_ns, 0, {
                "state": self.memory.state.value, "mode": self.memory.mode.name, "permit": outputs.permit,
                "tripped": f"{mask:x}", "not_evaluated": f"{unknown:x}", "turns": self.turns,
            })  # fmt: skip
            if self.turns % 10 == 0:
                self.drain()

    def drain(self) -> None:
        stamp = Stamp.take(self.clock)
        records = records_of(self.reader.take(512), "ring", stamp, events=False)
        self.tap.round(
            self.clock.now_ns, readings(self.clock.now_ns, 50.0), Judgement(0, 0, {}, Memory()), records
        )

    def close(self) -> Path:
        self.drain()
        assert self.writer.close().why == "closed"
        self.reader.close()
        self.ring.close()
        return self.folder


def cart() -> dict[str, Any]:
    return cart_profile(battery=False, pose=False)


@pytest.mark.parametrize("kind", ["still", "cart"])
def test_the_same_states_follow(tmp_path: Path, kind: str) -> None:
    still = kind == "still"
    body = still_body(delivers=False) if still else cart()
    watched = Watched(tmp_path, body, arms_itself=still)
    watched.go(20)
    if not still:
        watched.go(3, ask="arm")
    watched.go(8, Condition.SOURCE_STALLED)
    watched.go(15)
    watched.go(6, Condition.EVENT_LATE)
    watched.go(12)
    watched.go(4, Condition.WORKER_HUNG)
    watched.go(4)
    if not still:
        watched.go(15, ask="acknowledge")
        watched.go(5, ask="arm")
        watched.go(5, ask="disarm")
    states = set(watched.states)
    assert {State.STANDBY, State.NOMINAL, State.DEGRADED} <= states
    assert still or {State.STOPPED, State.SAFE, State.RECOVERY} <= states
    found = replay(open_recording(watched.close()), Wish(Component.GUARD))
    assert found.differences() == []
    assert len(found.events) == len(found.recorded) == len(watched.states) - 1
    assert found.refused == 0


def test_another_profile_shows_what_it_would_have_done(tmp_path: Path) -> None:
    watched = Watched(tmp_path, still_body(delivers=False), arms_itself=True)
    watched.go(20)
    watched.go(8, Condition.SOURCE_DARK)
    watched.go(15)
    folder = watched.close()
    part = open_recording(folder)[0]
    body = still_body(delivers=False)
    body["conditions"]["source_dark"] = {"ignored": "it is dark here"}
    part.head.model_copy(update={"body": body}).write(part.folder)
    found = replay(open_recording(folder), Wish(Component.GUARD))
    told = [(one.kind.value, one.event.kind) for one in found.differences()]
    assert ("missing", "guard_degraded") in told


def test_a_recording_that_begins_in_the_middle_begins_in_that_state(tmp_path: Path) -> None:
    watched = Watched(tmp_path, cart(), arms_itself=False)
    watched.go(20)
    watched.go(6, ask="arm")
    part = watched.folder / "monitor-000001"
    watched.go(8, Condition.EVENT_LATE)
    watched.go(15)
    folder = watched.close()
    (file,) = part.glob("*.flight")
    lines = file.read_bytes().splitlines(keepends=True)
    armed = next(number for number, line in enumerate(lines) if b'"state":"NOMINAL"' in line)
    file.write_bytes(b"".join(lines[armed + 20 :]))
    found = replay(open_recording(folder), Wish(Component.GUARD))
    assert [event.kind for event in found.events] == ["guard_degraded", "guard_nominal"]
    assert found.differences() == []


def test_a_flight_recorder_is_replayed_with_the_devices_configuration(tmp_path: Path, cli: Cli) -> None:
    body = still_body(delivers=False)
    watched = Watched(tmp_path, body, arms_itself=True)
    watched.go(20)
    watched.go(8, Condition.SOURCE_STALLED)
    watched.go(15)
    parts = open_recording(watched.close())
    told = [record.fields["record"] for record in parts[0].records(Standing()) if record.kind == "flight"]
    began = {"config": watched.loaded.digest, "ring": "ring", "pid": 1}
    records = [_flight_record({**told[0], "kind": "start", **began}), *map(_flight_record, told)]
    flight = tmp_path / "state" / "guard" / "flight"
    flight.parent.mkdir(parents=True)
    FlightWriter(flight, MIB).append([encode_record(record) for record in records])
    done = cli("replay", flight, "--part", "guard", "--config", watched.loaded.path)
    assert (done.code, done.err) == (0, "")
    assert "of the flight recorder" in done.out
    assert "4 events, as expected" in done.out
    assert cli("replay", flight, "--part", "guard").code == 2
    other = write_config(tmp_path / "other", guard={"monitor": {"temperature": "none"}})
    assert cli("replay", flight, "--part", "guard", "--config", other).code == 2
    assert cli("replay", flight, "--part", "guard", "--config", other, "--anyway").code == 0


def _flight_record(told: Mapping[str, Any]) -> FlightRecord:
    fields = {
        name: value
        for name, value in told.items()
        if name not in ("kind", "at_ns", "wall_ms", "synced", "boot")
    }
    return FlightRecord(told["kind"], told["at_ns"], told["wall_ms"], told["synced"], told["boot"], fields)
