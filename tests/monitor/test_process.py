"""The monitor's real process: beats, the recorder through every kind of end, adapters, full disks, clocks."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge_runtime.config.monitor import MonitorConfig
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.ring import Kind
from edge_runtime.monitor.conditions import evaluated_by
from edge_runtime.monitor.flight import Damage
from edge_runtime.node.monitor_process import main
from edge_runtime.state import StateDirectory
from tests.rigs.guard_bodies import PATIENT
from tests.rigs.guarded import GuardProcess, guarded, worker_row
from tests.rigs.monitors import MonitorRig, command_of, flight_of, monitored, write_configuration
from tests.rigs.small_disk import fill_up, small_disk
from tests.rigs.stepped_clock import SteppedClock

C = Condition


def rig(tmp_path: Path, **monitor: Any) -> MonitorRig:
    return MonitorRig(tmp_path, tmp_path / "state", monitor)


def sequences(found: Any) -> list[int]:
    return [record.fields["sequence"] for record in found if "sequence" in record.fields]


def test_it_beats_with_what_it_looked_at_and_keeps_what_the_guard_wrote(tmp_path: Path) -> None:
    with monitored(rig(tmp_path)) as monitor:
        beat = monitor.wait_beat(lambda found: found.sequence > 3)
        assert beat.evaluated == evaluated_by(MonitorConfig())
        assert beat.stage == "round"
        assert 0 < beat.deadline_ns - beat.beat_ns <= 1_000_000_000
        monitor.change("NOMINAL", "SAFE", "worker_dead")
        monitor.ring.append(
            Kind.WORKER, time.monotonic_ns(), b'{"name":"x","phase":"killed","pid":1,"exit":-9}'
        )
        monitor.ring.append(Kind.TURN, time.monotonic_ns(), b'{"state":"SAFE","permit":false}')
        monitor.ring.append(77, time.monotonic_ns(), b"\xff\x00")
        monitor.ring.append(Kind.CHANGE, time.monotonic_ns(), b"no JSON")
        records = monitor.wait_flight(lambda found: len(sequences(found)) == 5)
        kinds = [record.kind for record in records if "sequence" in record.fields]
        assert kinds == ["change", "worker", "turn", "other", "other"]
        assert {"start", "conditions", "measured"} <= {record.kind for record in records}
        change = next(record for record in records if record.kind == "change")
        assert change.fields["causes"] == ["worker_dead"]
        assert "event" not in change.fields  # nothing leaves this device
        assert abs(change.wall_ms / 1000 - time.time()) < 60  # noqa: TID251 - the label against the wall clock
        measured = next(record for record in records if record.kind == "measured")
        assert measured.fields["memory_mib"] > 0
        assert measured.fields["disk_mib"]["state"] > 0
        assert monitor.signal(signal.SIGTERM) == 0
        records, damage = monitor.flight()
        assert (records[-1].kind, damage) == ("end", Damage())


def test_kill_9_of_the_monitor_loses_and_doubles_nothing_of_the_ring(tmp_path: Path) -> None:
    with monitored(rig(tmp_path)) as monitor:
        written = 0
        for run in range(4):
            for _ in range(50):
                written += 1
                monitor.ring.append(Kind.TURN, time.monotonic_ns(), b'{"state":"NOMINAL"}')
                time.sleep(0.002)
            monitor.signal(signal.SIGKILL)
            written += 1
            monitor.change("NOMINAL", "STOPPED", f"source_dark{run}")
            monitor.start()
        records = monitor.wait_flight(lambda found: len(sequences(found)) >= written)
        assert sequences(records) == list(range(1, written + 1))
        assert monitor.flight()[1] == Damage()
        assert not [record for record in records if record.kind == "lost"]


def test_what_the_ring_could_not_hold_is_counted(tmp_path: Path) -> None:
    monitor = MonitorRig(tmp_path, tmp_path / "state", {}, ring_slots=16)
    with monitored(monitor):
        monitor.ring.append(Kind.TURN, 1, b"{}")
        monitor.wait_flight(lambda found: sequences(found) == [1])
        assert monitor.process is not None
        monitor.process.send_signal(signal.SIGSTOP)
        for _ in range(100):
            monitor.ring.append(Kind.TURN, 1, b"{}")
        monitor.process.send_signal(signal.SIGCONT)
        records = monitor.wait_flight(lambda found: any(record.kind == "lost" for record in found))
        lost = next(record for record in records if record.kind == "lost")
        assert lost.fields["ring"] == 84
        assert sequences(records) == [1, *range(86, 102)]


def test_adapters_are_heard_and_what_they_report_grows_old(tmp_path: Path) -> None:
    settings = {
        "pose": {"max_age": 0.5},
        "map": {"max_age": 3600},
        "batteries": {"main": {}, "arm": {"max_age": 0.5}},
    }
    with monitored(rig(tmp_path, **settings)) as monitor:
        mine = C.POSE_STALE.mask | C.MAP_STALE.mask | C.BATTERY_MISSING.mask | C.BATTERY_LOW.mask
        monitor.wait_beat(
            lambda beat: beat.tripped & mine == C.POSE_STALE.mask | C.MAP_STALE.mask | C.BATTERY_MISSING.mask
        )
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as robot:
            robot.bind("")
            robot.settimeout(10)
            robot.connect(str(monitor.state.adapters_socket))

            def report(arm: float) -> bool:
                now_ns = time.monotonic_ns()
                for one in (
                    {"pose": {"captured_ns": now_ns, "spread_m": 0.1}, "map": {"built_ns": now_ns}},
                    {"battery": {"name": "main", "charge": 0.8}},
                    {"battery": {"name": "arm", "charge": arm}},
                ):
                    robot.send(json.dumps(one).encode())
                return True

            monitor.wait_beat(lambda beat: report(0.8) and beat.tripped & mine == 0)
            monitor.wait_beat(lambda beat: report(0.15) and beat.tripped & mine == C.BATTERY_LOW.mask)
            monitor.wait_beat(
                lambda beat: (
                    beat.tripped & mine == C.POSE_STALE.mask | C.BATTERY_MISSING.mask | C.BATTERY_LOW.mask
                )
            )
            robot.send(b"?")
            assert json.loads(robot.recv(1000)) == {"refused": "not JSON"}
        records = monitor.wait_flight(
            lambda found: any("arm" in str(record.fields.get("why")) for record in found)
        )
        told = [record.fields["tripped"] for record in records if record.kind == "conditions"]
        assert told[0] == ["battery_missing", "pose_stale", "map_stale"]


def test_a_flood_of_datagrams_keeps_it_from_no_round(tmp_path: Path) -> None:
    flood = (
        "import socket, sys\n"
        "end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "end.connect(sys.argv[1])\n"
        "while True: end.send(b'?')\n"
    )
    with monitored(rig(tmp_path)) as monitor:
        command = [sys.executable, "-c", flood, str(monitor.state.adapters_socket)]
        process = subprocess.Popen(command)
        try:
            assert monitor.longest_gap_s(3) < 1.0
        finally:
            process.kill()
            process.wait()


def test_a_full_disk_is_a_condition_and_stops_nothing(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk", 2))
        monitor = stack.enter_context(monitored(MonitorRig(tmp_path, disk / "state", {})))
        monitor.wait_beat(lambda beat: beat.tripped == 0)
        filler = fill_up(disk)
        monitor.wait_beat(lambda beat: beat.tripped == C.DISK_NEARLY_FULL.mask)
        for _ in range(60):
            monitor.ring.append(Kind.TURN, time.monotonic_ns(), json.dumps({"x": "y" * 180}).encode())
        assert monitor.longest_gap_s(2) < 1.0
        filler.unlink()
        records = monitor.wait_flight(lambda found: any(record.kind == "lost" for record in found))
        assert sum(record.fields.get("recorder", 0) for record in records if record.kind == "lost") > 0
        monitor.wait_beat(lambda beat: beat.tripped == 0)


def test_a_step_of_the_wall_clock_is_seen_and_ages_nothing(tmp_path: Path) -> None:
    clock = SteppedClock(tmp_path / "clock")
    variables = {**clock.variables, "STEPPED_BOOT_ID": "/proc/sys/kernel/random/boot_id"}  # the page's own
    monitor = MonitorRig(tmp_path, tmp_path / "state", {"map": {"max_age": 3600}}, environment=variables)
    with monitored(monitor):
        mine = C.CLOCK_STEPPED.mask | C.MAP_STALE.mask
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as robot:
            robot.sendto(
                b'{"map": {"built_ns": %d}}' % time.monotonic_ns(), str(monitor.state.adapters_socket)
            )
        for ahead_s in (7200.0, -7200.0):
            monitor.wait_beat(lambda beat: beat.tripped & mine == 0)
            clock.step(ahead_s)
            stepped = monitor.wait_beat(lambda beat: beat.tripped & C.CLOCK_STEPPED.mask != 0)
            assert not stepped.tripped & C.MAP_STALE.mask


def test_the_guards_death_is_written_down_and_the_next_guard_goes_on(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, {})
    state = StateDirectory(tmp_path / "state").ensure()
    row = worker_row("monitor") | {
        "command": command_of(configuration, state.path),
        "longest_ms": 5000,
        "ring": True,
    }
    for _ in range(2):
        guard = GuardProcess(state.guard, PATIENT, [row])
        with guarded(guard):
            guard.wait(lambda status: status["workers"][0]["phase"] == "working")
            monitor = psutil.Process(guard.pid("monitor"))
            assert guard.process is not None
            guard.process.kill()
            guard.process.wait()
            with contextlib.suppress(psutil.NoSuchProcess):
                monitor.wait(20)
    records, damage = flight_of(state)
    assert damage == Damage()
    kinds = [record.kind for record in records]
    assert (kinds.count("start"), kinds.count("end")) == (2, 2)
    assert kinds[-1] == "end"
    assert {"turn", "worker"} <= set(kinds)
    rings = {
        record.fields["ring"] for record in records if "ring" in record.fields and record.kind != "start"
    }
    assert len(rings) == 2


def test_kill_9_of_everything_leaves_a_recording_that_can_be_read(tmp_path: Path) -> None:
    with monitored(rig(tmp_path)) as monitor:
        monitor.change("NOMINAL", "SAFE", "worker_hung")
        monitor.wait_flight(lambda found: any(record.kind == "change" for record in found))
        monitor.signal(signal.SIGKILL)
    records, damage = flight_of(StateDirectory(tmp_path / "state"))
    assert damage.lines <= 1
    assert [record.fields["state"] for record in records if record.kind == "change"] == ["SAFE"]


def test_without_a_guard_it_runs_and_says_so(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    process = subprocess.Popen(command_of(write_configuration(tmp_path, {}), state.path))
    try:
        until = time.monotonic() + 30
        while not any(record.kind == "measured" for record in flight_of(state)[0]):
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert [record.fields["ring"] for record in flight_of(state)[0] if record.kind == "start"] == [None]


@pytest.mark.parametrize(
    ("variable", "value"), [("EDGE_GUARD_RING", "77"), ("EDGE_GUARD_RING", "x"), ("EDGE_GUARD_PAGE", "0:0")]
)
def test_what_is_handed_over_and_cannot_be_used_ends_it_with_a_sentence(
    variable: str, value: str, tmp_path: Path
) -> None:
    command = command_of(write_configuration(tmp_path, {}), tmp_path / "state")
    done = subprocess.run(
        command,
        env={**os.environ, variable: value},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_configuration_that_cannot_be_used_ends_it_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_configuration(tmp_path, {"pose": {"max_age": 0}})
    assert main(["--config", str(path), "--state", str(tmp_path / "state")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_successor_waits_for_one_that_still_writes_its_last_lines(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    command = command_of(write_configuration(tmp_path, {}), state.path)

    def starts() -> list[int]:
        return [record.fields["pid"] for record in flight_of(state)[0] if record.kind == "start"]

    def wait(number: int) -> None:
        until = time.monotonic() + 30
        while len(starts()) < number:
            assert time.monotonic() < until
            time.sleep(0.05)

    with subprocess.Popen(command) as first:
        wait(1)
        with subprocess.Popen(command) as second:
            try:
                time.sleep(2)  # it waits for six seconds at most
                assert second.poll() is None
                first.terminate()
                assert first.wait(20) == 0
                wait(2)
                second.terminate()
                assert second.wait(20) == 0
            finally:
                first.kill()
                second.kill()
    assert starts() == [first.pid, second.pid]
    assert flight_of(state)[1] == Damage()
