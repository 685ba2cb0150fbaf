"""The motion gate as a process: real sockets, a real lease, real signals."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.lease import LeaseWriter
from edge_runtime.guard.motion_gate.judge import EVALUATED
from edge_runtime.guard.motion_gate.proposals import encode_approval
from edge_runtime.guard.page import Page
from tests.rigs.motion_gate import (
    MS,
    STRANGER,
    WAITS_S,
    Cell,
    approval,
    axis,
    cell,
    profile,
    settings,
    start,
)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Cell]:
    with cell(tmp_path) as found:
        yield found


def run(
    reading: int, fds: tuple[int, ...] = (), environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """A gate that should not start, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime.guard.motion_gate", "--settings-fd", str(reading)],
        pass_fds=(reading, *fds),
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def wall_ms() -> int:
    return SystemClock().wall().unix_ns // NS_PER_MS


def present(gate: Cell, what: Callable[[dict[str, Any]], bool], **given: Any) -> None:
    """Present an approval until the status is as wanted; again where the permission was lost meanwhile."""
    lost, number = -1, 0

    def again() -> None:
        nonlocal lost, number
        refused = gate.status()["refused"]
        now_lost = refused.get("before_epoch", 0) + refused.get("no_lease", 0) + refused.get("tripped", 0)
        gate.permit()
        if now_lost != lost:
            lost, number = now_lost, number + 1
            gate.send(encode_approval(approval(wall_ms(), approval=f"approval-{number:07d}", **given)))
        time.sleep(0.01)

    gate.until(what, again)


def approved(gate: Cell) -> None:
    """An approval of tipping by 30 degrees waits for its action."""
    present(gate, lambda status: status["approvals"] > 0)


def tripped(gate: Cell, condition: Condition) -> None:
    """Wait until the gate's own slot says that a condition holds."""
    until = time.monotonic() + WAITS_S
    while time.monotonic() < until:
        beat = gate.slot.read().beat
        if beat is not None and beat.tripped & condition.mask:
            assert beat.evaluated == EVALUATED
            return
        time.sleep(0.005)
    raise AssertionError(f"{condition.value} is not shown")


def test_it_starts_closed_sets_the_safe_value_and_passes_nothing(gate: Cell) -> None:
    assert gate.ready == {"ready": True, "pid": gate.gate.pid, "facts": {}}
    assert gate.drive.frames[0][1] == {"safe": True, "values": {"v_m_s": 0.0, "w_rad_s": 0.0, "tip_deg": 0.0}}
    for _ in range(20):
        gate.propose()
    status = gate.refused("no_lease", 20)
    assert (status["open"], status["why"], status["passed"]) == (False, "no_lease", 0)
    assert gate.drive.quiet()
    beat = gate.slot.read().beat
    assert beat is not None
    assert (beat.stage, beat.tripped, beat.evaluated) == ("closed", 0, EVALUATED)


def test_it_passes_while_it_may_and_sets_the_safe_value_once(gate: Cell) -> None:
    gate.opened()
    for at in range(10):
        values = {"v_m_s": at / 10, "w_rad_s": -0.5}
        frame = gate.passes("drive", values)
        assert 0 <= frame.pop("ttl_us") <= 200_000
        assert frame == {"seq": gate.sequence, "action": "drive", "values": values}
    assert gate.status()["passed"] >= 11
    beat = gate.slot.read().beat
    assert beat is not None
    assert beat.newest_capture_ns is not None
    gate.drive.frames.clear()
    gate.lease.revoke("STOPPED")
    assert "safe" in gate.drive.next()
    for _ in range(5):
        gate.propose()
    gate.refused("no_lease", 5)
    assert gate.drive.quiet()
    gate.opened()  # a new epoch


def test_it_closes_by_itself_when_nothing_is_proposed(gate: Cell) -> None:
    gate.opened()
    gate.drive.frames.clear()
    gate.permit(50 * MS)
    assert "safe" in gate.drive.next()
    assert gate.status()["why"] == "no_lease"


def test_what_was_proposed_before_the_epoch_is_void(gate: Cell) -> None:
    gate.opened()
    void = []

    def again() -> None:
        gate.gate.send_signal(signal.SIGSTOP)
        void.append(gate.propose())
        gate.lease.revoke("STOPPED")
        gate.permit()
        gate.gate.send_signal(signal.SIGCONT)

    gate.until(lambda status: "before_epoch" in status["refused"], again)
    gate.passes()
    assert not any(frame.get("seq") in void for _, frame in gate.drive.frames)


def test_the_lease_chooses_the_table(gate: Cell) -> None:
    gate.opened()
    gate.limits, gate.state = 1, "DEGRADED"

    def again() -> None:
        gate.permit()
        gate.propose(values={"v_m_s": 0.5, "w_rad_s": 0.0})

    gate.until(lambda status: "absolute" in status["refused"], again)
    gate.passes(values={"v_m_s": 0.2, "w_rad_s": 0.0})
    assert not any(frame.get("values", {}).get("v_m_s") == 0.5 for _, frame in gate.drive.frames)
    gate.limits = 7
    gate.until(lambda status: status["why"] == "no_table", gate.permit)
    assert "safe" in gate.drive.next()


def test_a_state_that_does_not_permit_closes(gate: Cell) -> None:
    gate.opened()
    gate.state = "RECOVERY"
    gate.until(lambda status: status["why"] == "state", gate.permit)
    assert "safe" in gate.drive.next()


def test_refusals_close_it_and_are_told_to_the_guard(gate: Cell) -> None:
    gate.opened()

    def again() -> None:
        gate.opened()
        for _ in range(4):
            gate.send(b"nonsense")
        gate.propose(values={"v_m_s": 9.0, "w_rad_s": 0.0})

    gate.until(lambda status: status["why"] == "tripped", again)
    assert "safe" in gate.drive.next()
    tripped(gate, Condition.MOTION_REFUSALS)

    def more() -> None:
        gate.permit()
        gate.propose()

    gate.until(lambda status: "tripped" in status["refused"], more)
    gate.lease.revoke("SAFE")
    until = time.monotonic() + WAITS_S
    while (beat := gate.slot.read().beat) is None or beat.tripped:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert gate.drive.quiet()
    gate.opened()


def test_a_risky_action_takes_an_approval_of_exactly_it(gate: Cell) -> None:
    gate.opened()
    approved(gate)
    frame = gate.passes("tip", {"tip_deg": 30.0})
    assert frame["values"] == {"tip_deg": 30.0}
    assert gate.status()["approvals"] == 0

    def again() -> None:
        gate.permit()
        gate.propose("tip", {"tip_deg": 30.0})  # used up

    gate.until(lambda status: "unapproved" in status["refused"], again)
    assert "safe" in gate.drive.next()
    tripped(gate, Condition.UNAPPROVED_RISK)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"key": STRANGER}, "approval_signature"),
        ({"device": "cart-8"}, "approval_device"),
        ({"action": "drive"}, "approval_action"),
    ],
)
def test_an_approval_that_is_none_is_counted(gate: Cell, given: dict[str, Any], reason: str) -> None:
    gate.opened()
    present(gate, lambda status: reason in status["refused"], **given)
    assert gate.status()["approvals"] == 0


def test_an_approval_is_not_used_up_while_it_is_closed(gate: Cell, tmp_path: Path) -> None:
    gate.send(encode_approval(approval(wall_ms())))
    gate.refused("no_lease")
    assert list((tmp_path / "used").iterdir()) == []
    gate.send(b'{"approval": {}}')
    gate.refused("approval_malformed")


def test_an_approval_of_before_a_stop_is_void(gate: Cell) -> None:
    gate.opened()
    gate.permit()
    gate.send(encode_approval(approval(wall_ms())))
    gate.status()  # it was taken, and is being verified
    gate.lease.revoke("STOPPED")
    assert "safe" in gate.drive.next()
    gate.until(lambda status: bool({"before_epoch", "no_lease"} & status["refused"].keys()), gate.permit)
    assert gate.status()["approvals"] == 0


def test_where_nobody_approves_an_approval_is_refused(tmp_path: Path) -> None:
    with cell(tmp_path, {"approvals": None, "profile": profile(risky=[])}) as gate:
        gate.opened()
        gate.send(encode_approval(approval(wall_ms())))
        gate.refused("approval_action")


# -- the emergency stop ----------------------------------------------------------------------------------


def test_a_stop_closes_and_its_release_opens_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    value = tmp_path / "value"
    value.write_text("0")
    stops = [{"kind": "fd", "fd": reading}, {"kind": "file", "path": str(value)}]
    with cell(tmp_path, {"estop": stops}, fds=(reading,)) as gate:
        os.close(reading)
        assert gate.status()["estop"] == {"pressed": True, "disagrees": True}  # the pipe has said nothing yet
        os.write(writing, b"0")
        gate.opened()
        os.write(writing, b"1")
        assert "safe" in gate.drive.next()
        tripped(gate, Condition.ESTOP)
        tripped(gate, Condition.ESTOP_DISAGREES)
        gate.propose()
        assert gate.refused("estop")["why"] == "estop"
        os.write(writing, b"0")
        gate.until(lambda status: not status["estop"]["pressed"])

        def again() -> None:
            gate.permit()
            gate.propose()

        gate.until(lambda status: status["refused"]["estop"] >= 2, again)
        assert gate.drive.quiet()
        gate.lease.revoke("SAFE")
        gate.opened()
        value.write_text("1")
        assert "safe" in gate.drive.next()
        value.write_text("0")
        gate.lease.revoke("SAFE")
        gate.opened()
        os.close(writing)  # its end is a press
        assert "safe" in gate.drive.next()


def test_a_stop_that_falls_silent_is_pressed(tmp_path: Path) -> None:
    stops = [{"kind": "datagram", "path": str(tmp_path / "estop"), "fresh_ms": 10_000}]
    with cell(tmp_path, {"estop": stops}) as gate, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as button:
        button.sendto(b"0", str(tmp_path / "estop"))
        gate.opened()
        button.sendto(b"pressed", str(tmp_path / "estop"))
        assert "safe" in gate.drive.next()
        assert gate.status()["why"] == "estop"


# -- its life ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_sets_the_safe_value_and_leaves_nothing(
    gate: Cell, tmp_path: Path, number: signal.Signals
) -> None:
    gate.opened()
    gate.gate.send_signal(number)
    assert "safe" in gate.drive.next()
    assert gate.gate.wait(WAITS_S) == 0
    assert not (tmp_path / "motion.sock").exists()
    assert gate.drive.quiet(0.01)


def test_a_successor_takes_its_place_and_it_ends(gate: Cell, tmp_path: Path) -> None:
    gate.opened()
    lease, page = LeaseWriter(), Page(["motion-gate"])
    second = start(settings(tmp_path), lease, page)
    assert second.stdout is not None
    try:
        assert json.loads(second.stdout.readline())["ready"]
        assert gate.gate.wait(WAITS_S) == 0
        assert (tmp_path / "motion.sock").exists()
    finally:
        second.kill()
        second.wait()
        second.stdout.close()
        lease.close()
        page.close()


def test_a_drive_that_goes_away_is_tried_for_a_while_and_comes_back(gate: Cell, tmp_path: Path) -> None:
    path = tmp_path / "drive.sock"
    gate.opened()
    gate.drive.socket.close()
    path.unlink()

    def again() -> None:
        gate.permit()
        gate.propose()

    gate.until(lambda status: "output" in status["refused"], again)  # a command that nobody took
    gate.lease.revoke("STOPPED")
    gate.until(lambda status: not status["open"])
    tried = -1
    while (
        now := gate.status()["refused"]["output"]
    ) != tried:  # then it gives up, and the drive has its own time-out
        tried = now
        time.sleep(0.5)
    assert tried > 2
    gate.drive.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    gate.drive.socket.bind(str(path))
    gate.opened()
    gate.drive.frames.clear()
    gate.lease.revoke("STOPPED")
    assert "safe" in gate.drive.next()


def test_commands_go_to_a_program(tmp_path: Path) -> None:
    for name in ("go", "stop"):
        (tmp_path / name).write_text(
            f"cat > {tmp_path}/{name}.part; mv {tmp_path}/{name}.part {tmp_path}/{name}.out\n"
        )
    output = {
        "kind": "exec",
        "command": ["/bin/sh", str(tmp_path / "go")],
        "safe": ["/bin/sh", str(tmp_path / "stop")],
        "limit_ms": 30_000,
    }

    def came(name: str) -> dict[str, Any]:
        until = time.monotonic() + WAITS_S
        while not (tmp_path / name).exists():
            assert time.monotonic() < until, f"{name} did not come"
            time.sleep(0.01)
        found: dict[str, Any] = json.loads((tmp_path / name).read_text())
        (tmp_path / name).unlink()
        return found

    with cell(tmp_path, {"output": output}) as gate:
        assert came("stop.out")["safe"]

        def again() -> None:
            gate.permit()
            gate.propose()

        gate.until(lambda status: status["passed"] > 0, again)
        assert came("go.out")["seq"] <= gate.sequence
        gate.lease.revoke("SAFE")
        assert came("stop.out")["safe"]


def test_a_safe_value_whose_program_failed_is_set_again(tmp_path: Path) -> None:
    done = tmp_path / "done"
    (tmp_path / "stop").write_text(
        f"[ -e {tmp_path}/tried ] && touch {done}; touch {tmp_path}/tried; [ -e {done} ]\n"
    )
    output = {
        "kind": "exec",
        "command": ["/bin/true"],
        "safe": ["/bin/sh", str(tmp_path / "stop")],
        "limit_ms": 30_000,
    }
    with cell(tmp_path, {"output": output}) as gate:
        gate.until(lambda status: done.exists() and status["refused"].get("output", 0) >= 1)
        assert not gate.status()["open"]


def test_rounds_make_no_garbage(gate: Cell) -> None:
    """The collector is off for good: what is refused in every way must not pile up."""
    for _ in range(300):
        gate.send(b"nonsense")
        gate.propose()
        gate.send(b'{"approval": {"text": "x", "key": "k", "signature": "s"}}')
    gate.refused("malformed", 300)
    before = resident(gate.gate.pid)
    for _ in range(1000):
        gate.send(b"nonsense")
        gate.propose()
        gate.send(b'{"approval": {"text": "x", "key": "k", "signature": "s"}}')
    gate.refused("malformed", 1300)
    assert resident(gate.gate.pid) - before < 1_000_000


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_real_time_is_asked_for_and_told(tmp_path: Path) -> None:
    with cell(tmp_path, {"real_time": True}) as gate:
        facts = gate.status()["facts"]
        assert set(facts) == {"gc_off", "timer_slack", "oom_score_adj", "memory_locked", "sched_fifo"}
        assert facts["gc_off"]
        policy = os.sched_getscheduler(gate.gate.pid) & ~os.SCHED_RESET_ON_FORK
        assert (policy == os.SCHED_FIFO) is facts["sched_fifo"]
        gate.opened()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "usage: "),
        (["--settings-fd"], "usage: "),
        (["--settings-fd", "x"], "usage: "),
        (["--settings", "3"], "usage: "),
        (["--settings-fd", "99"], "descriptor 99: the settings cannot be read"),
    ],
)
def test_a_start_that_cannot_be_is_one_sentence(arguments: list[str], why: str) -> None:
    command = [sys.executable, "-m", "edge_runtime.guard.motion_gate", *arguments]
    came = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert came.returncode == 2
    assert came.stderr.startswith(why)
    assert came.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"device": ""}, "settings.device"),
        ({"listen": "/no/such/folder/motion.sock"}, "the motion gate cannot listen or send: "),
        (
            {"estop": [{"kind": "datagram", "path": "/no/such/folder/s", "fresh_ms": 50}]},
            "the motion gate cannot",
        ),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    lease = LeaseWriter()
    reading, writing = os.pipe()
    os.write(writing, json.dumps(settings(tmp_path, **change)).encode())
    os.close(writing)
    fds, environment = lease.handover()
    came = run(reading, fds, environment)
    os.close(reading)
    lease.close()
    assert came.returncode == 2
    assert came.stderr.startswith(why)
    assert came.stderr.count("\n") == 1


def test_without_a_lease_it_does_not_start(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, json.dumps(settings(tmp_path)).encode())
    os.close(writing)
    came = run(reading)
    os.close(reading)
    assert came.returncode == 2
    assert came.stderr.startswith("EDGE_GUARD_LEASE is ''")


def test_limits_hold_across_the_whole_road(tmp_path: Path) -> None:
    table = {
        "name": "normal",
        "actions": ["drive"],
        "axes": {"v_m_s": axis(rise_per_s=1.0), "w_rad_s": axis()},
    }
    with cell(tmp_path, {"profile": profile(risky=[], tables=[table]), "approvals": None}) as gate:

        def again() -> None:
            gate.permit()
            gate.propose(
                values={"v_m_s": 0.11, "w_rad_s": 0.0}
            )  # in a step of at most 100 ms, 0.1 is the most

        assert gate.until(lambda status: "rate" in status["refused"], again)["passed"] == 0
