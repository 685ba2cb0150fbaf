"""The moment between judging a command and sending it: a gate that is held up there does not send it any more."""

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.guard.lease import LENGTH_NS, LeaseReader, LeaseWriter
from edge_runtime.guard.motion_gate import process
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.outputs import command_frame
from edge_runtime.guard.motion_gate.process import MotionGate
from edge_runtime.guard.motion_gate.proposals import encode
from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.motion_gate.settings import parse
from tests.rigs.guard import Clock
from tests.rigs.motion_gate import MS, WAITS_S, Drive, approval, settings


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[MotionGate, LeaseWriter, Clock, Drive]]:
    clock, lease = Clock(), LeaseWriter()
    taking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taking.bind(str(tmp_path / "drive.sock"))
    reader = LeaseReader(os.dup(lease.fd))
    gate = MotionGate(parse(json.dumps(settings(tmp_path)).encode()), reader, None, clock)
    gate._round(clock.now_ns)  # the safe value of the start
    clock.now_ns += MS
    lease.renew(clock.now_ns, "NOMINAL", 0)
    clock.now_ns += MS
    drive = Drive(taking)
    assert "safe" in drive.next()
    yield gate, lease, clock, drive
    gate._close()
    reader.close()
    lease.close()
    taking.close()


def datagram(clock: Clock, **values: float) -> bytes:
    return encode(
        Proposal(clock.now_ns, clock.now_ns, 200 * MS, "drive", {"v_m_s": 0.1, "w_rad_s": 0.0} | values)
    )


def held_up(monkeypatch: pytest.MonkeyPatch, clock: Clock, by_ns: int) -> None:
    """The gate loses the processor for so long after it has judged."""

    def late(proposal: Proposal, now_ns: int) -> bytes:
        clock.now_ns += by_ns
        return command_frame(proposal, now_ns)

    monkeypatch.setattr(process, "command_frame", late)


def test_it_sends_while_the_lease_lasts(
    parts: tuple[MotionGate, LeaseWriter, Clock, Drive], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, _, clock, drive = parts
    held_up(monkeypatch, clock, LENGTH_NS - 2 * MS)
    assert gate._handle(datagram(clock)) is None
    assert "seq" in drive.next()


def test_it_does_not_send_when_the_lease_has_ended_meanwhile(
    parts: tuple[MotionGate, LeaseWriter, Clock, Drive], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, _, clock, drive = parts
    held_up(monkeypatch, clock, LENGTH_NS - MS)
    assert gate._handle(datagram(clock)) == "no_lease"
    assert "safe" in drive.next()
    assert drive.quiet(0.01)


def test_it_does_not_send_when_the_guard_has_taken_the_lease_back_meanwhile(
    parts: tuple[MotionGate, LeaseWriter, Clock, Drive], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, lease, clock, drive = parts

    def late(proposal: Proposal, now_ns: int) -> bytes:
        lease.revoke("SAFE")
        return command_frame(proposal, now_ns)

    monkeypatch.setattr(process, "command_frame", late)
    assert gate._handle(datagram(clock)) == "no_lease"
    assert "safe" in drive.next()
    assert drive.quiet(0.01)


def test_an_approval_verified_for_a_permission_that_was_lost_is_void(
    parts: tuple[MotionGate, LeaseWriter, Clock, Drive],
) -> None:
    gate, lease, clock, _ = parts
    gate._look(clock.now_ns)
    wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    told = json.dumps({"approval": approval(wall_ms)}).encode()
    assert gate._handle(told) is None
    lease.revoke("STOPPED")
    gate._look(clock.now_ns)
    assert gate._handle(told) == "no_lease"
    clock.now_ns += MS
    lease.renew(clock.now_ns, "NOMINAL", 0)
    clock.now_ns += MS
    gate._look(clock.now_ns)
    assert gate._judge.closed is None
    until = time.monotonic() + WAITS_S
    while not gate._judge.counts[Reason.BEFORE_EPOCH]:
        assert time.monotonic() < until
        gate._hear(clock.now_ns)
        time.sleep(0.01)
    assert len(gate._judge.approvals) == 0


def test_a_question_from_nowhere_is_not_answered(
    parts: tuple[MotionGate, LeaseWriter, Clock, Drive], tmp_path: Path
) -> None:
    gate, _, clock, _ = parts
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unbound:
        unbound.sendto(b'{"status":true}', str(tmp_path / "motion.sock"))
        gate._round(clock.now_ns)
    assert not gate._judge.counts
