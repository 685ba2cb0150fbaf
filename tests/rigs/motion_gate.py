"""Bodies, settings and approvals for tests of the motion gate, and the gate as a process under a lease.

python -m tests.rigs.motion_gate flood PATH FROM_NS     proposes at 1 kHz until it is killed
"""

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edge_runtime.guard.lease import LeaseWriter
from edge_runtime.guard.motion_gate.approvals import SIGNED_PREFIX, action_digest
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.proposals import encode
from edge_runtime.guard.page import Page, SlotReader
from edge_runtime.lifeline import die_with_parent, told_parent

MS = 1_000_000
DEVICE = "cart-7"
WAITS_S = 30.0
"""What should come comes within this; generous, the machine may be busy."""

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))

UNDER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: kept across exec
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a program that ends with whoever started it; a motion gate by itself outlives its guard."""


def public_hex(key: Ed25519PrivateKey) -> str:
    """Of an approver, as the settings take it."""
    return key.public_key().public_bytes_raw().hex()


def axis(low: float = -1.0, high: float = 1.0, **given: float) -> dict[str, float]:
    """Limits of an axis: wide but for what is given."""
    return {
        "low": low,
        "high": high,
        "rise_per_s": 1e6,
        "step_ms": 100,
        "window_ms": 200,
        "window_rise": 1e6,
    } | given


def profile(**given: Any) -> dict[str, Any]:
    """A cart that drives, and can tip its load, which is risky."""
    found: dict[str, Any] = {
        "axes": {"v_m_s": 0.0, "w_rad_s": 0.0, "tip_deg": 0.0},
        "actions": {"drive": ["v_m_s", "w_rad_s"], "tip": ["tip_deg"]},
        "risky": ["tip"],
        "tables": [
            {
                "name": "normal",
                "actions": ["drive", "tip"],
                "axes": {"v_m_s": axis(-0.5, 1.0), "w_rad_s": axis(), "tip_deg": axis(0, 60)},
            },
            {
                "name": "degraded",
                "actions": ["drive"],
                "axes": {"v_m_s": axis(-0.1, 0.2), "w_rad_s": axis(-0.3, 0.3)},
            },
        ],
        "longest_ttl_ms": 200,
        "most_per_s": 1000,
        "refusals": 5,
        "refusals_ms": 1000,
        "states": ["NOMINAL", "DEGRADED"],
        "longest_approval_ms": 600_000,
    }
    return found | given


def settings(folder: Path, **given: Any) -> dict[str, Any]:
    """Settings of a gate that listens in a folder and sends to a socket there."""
    (folder / "used").mkdir(exist_ok=True)
    found: dict[str, Any] = {
        "device": DEVICE,
        "listen": str(folder / "motion.sock"),
        "profile": profile(),
        "output": {"kind": "unix", "path": str(folder / "drive.sock")},
        "estop": [],
        "approvals": {
            "keys": {"lead": public_hex(KEY)},
            "used": str(folder / "used"),
            "answer_within_ms": 30_000,
        },
        "real_time": False,
    }
    return found | given


def approval(
    now_ms: int,
    values: Mapping[str, float] | None = None,
    *,
    key: Ed25519PrivateKey = KEY,
    name: str = "lead",
    **given: Any,
) -> dict[str, str]:
    """A signed approval of tipping, good for a minute, but for what is given."""
    said: dict[str, Any] = {
        "approval": "0123456789abcdef",
        "device": DEVICE,
        "action": "tip",
        "issued_ms": now_ms,
        "expires_ms": now_ms + 60_000,
    } | given
    said.setdefault("digest", action_digest(said["device"], said["action"], values or {"tip_deg": 30.0}))
    text = json.dumps(said).encode()
    return {
        "text": base64.b64encode(text).decode(),
        "key": name,
        "signature": base64.b64encode(key.sign(SIGNED_PREFIX + text)).decode(),
    }


@dataclass
class Drive:
    """The actuator: takes frames and stamps them with CLOCK_MONOTONIC as they are received."""

    socket: socket.socket
    frames: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def take(self, wait_s: float) -> bool:
        """Take one frame, waiting at most so long; whether one came."""
        self.socket.settimeout(wait_s)
        try:
            data = self.socket.recv(4096)
        except (TimeoutError, BlockingIOError):
            return False
        self.frames.append((time.monotonic_ns(), json.loads(data)))
        return True

    def next(self) -> dict[str, Any]:
        """The next frame; it has to come."""
        assert self.take(WAITS_S), "no frame came"
        return self.frames[-1][1]

    def quiet(self, wait_s: float = 0.15) -> bool:
        """Whether nothing comes."""
        return not self.take(wait_s)


@dataclass
class Cell:
    """A gate as a process, a drive behind it, and the guard's part of it in this process."""

    folder: Path
    gate: "subprocess.Popen[str]"
    drive: Drive
    lease: LeaseWriter
    slot: SlotReader
    ready: dict[str, Any]
    asker: socket.socket
    sequence: int = 0
    state: str = "NOMINAL"
    limits: int = 0

    def permit(self, for_ns: int = 900 * MS) -> None:
        """Renew the lease, by default for so long that a busy machine does not let it end."""
        self.lease._length = for_ns
        self.lease.renew(time.monotonic_ns(), self.state, self.limits)

    def send(self, datagram: bytes) -> None:
        """To the gate, waiting for room."""
        self.asker.settimeout(WAITS_S)
        self.asker.sendto(datagram, str(self.folder / "motion.sock"))

    def propose(self, action: str = "drive", values: Mapping[str, float] | None = None, **given: int) -> int:
        """Propose something, in time and not too soon after the one before, and return its number."""
        time.sleep(0.002)
        self.sequence += 1
        told = {"sequence": self.sequence, "proposed_ns": time.monotonic_ns(), "ttl_ns": 200 * MS} | given
        values = {"v_m_s": 0.1, "w_rad_s": 0.0} if values is None else values
        self.send(encode(Proposal(action=action, values=values, **told)))
        return told["sequence"]

    def status(self) -> dict[str, Any]:
        """What the gate says of itself, after everything that was sent before."""
        self.send(b'{"status":true}')
        self.asker.settimeout(WAITS_S)
        found: dict[str, Any] = json.loads(self.asker.recv(4096))
        return found

    def opened(self) -> None:
        """Permit, in a new epoch if need be, and have one command passed."""
        self.until(lambda status: bool(status["open"]), self.permit_anew)
        self.passes()

    def permit_anew(self) -> None:
        """A new epoch."""
        self.lease.revoke("STANDBY")
        self.permit()

    def passes(self, action: str = "drive", values: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Permit and propose until it has passed, and return the frame.

        A busy machine may let the lease or a proposal run out on its way; then it is done again.
        """
        until = time.monotonic() + WAITS_S
        while time.monotonic() < until:
            self.permit()
            number = self.propose(action, values)
            before = len(self.drive.frames)
            self.status()  # the proposal has been judged
            while self.drive.take(0.05):
                pass
            for _, frame in self.drive.frames[before:]:
                if frame.get("seq") == number:
                    return frame
        raise AssertionError(f"nothing passes: {self.status()}")

    def until(
        self, what: Callable[[dict[str, Any]], bool], again: Callable[[], object] | None = None
    ) -> dict[str, Any]:
        """The status, once it is as wanted; what leads to it is done again until then."""
        until = time.monotonic() + WAITS_S
        while time.monotonic() < until:
            status = self.status()
            if what(status):
                return status
            if again is None:
                time.sleep(0.01)
            else:
                again()
        raise AssertionError(f"never as wanted: {status}")

    def refused(self, reason: str, times: int = 1) -> dict[str, Any]:
        """The status, once a reason was counted so often."""
        return self.until(lambda status: status["refused"].get(reason, 0) >= times)


@contextlib.contextmanager
def cell(folder: Path, given: Mapping[str, Any] | None = None, fds: tuple[int, ...] = ()) -> Iterator[Cell]:
    """A gate that runs, closed, with its first safe value taken."""
    drive = Drive(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    drive.socket.bind(str(folder / "drive.sock"))
    page, lease = Page(["motion-gate"]), LeaseWriter()
    asker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    asker.bind(str(folder / "asker.sock"))
    gate = start(settings(folder, **(given or {})), lease, page, fds)
    page.slot("motion-gate").expect(gate.pid)
    assert gate.stdout is not None
    try:
        ready = json.loads(gate.stdout.readline())
        found = Cell(folder, gate, drive, lease, page.slot("motion-gate"), ready, asker)
        if (given or {}).get("output") is None:
            assert "safe" in drive.next()
        yield found
    finally:
        gate.send_signal(signal.SIGCONT)
        gate.terminate()  # so that a measurement of coverage is written
        try:
            gate.wait(WAITS_S)
        finally:
            gate.kill()
            gate.wait()
        gate.stdout.close()
        for open_socket in (asker, drive.socket):
            open_socket.close()
        lease.close()
        page.close()


def start(
    told: Mapping[str, Any], lease: LeaseWriter, page: Page | None, fds: tuple[int, ...] = ()
) -> "subprocess.Popen[str]":
    """Start a gate as the guard does."""
    reading, writing = os.pipe()
    os.write(writing, json.dumps(told).encode())
    os.close(writing)
    passed, environment = lease.handover()
    if page is not None:
        handover = page.handover("motion-gate")
        passed, environment = (*passed, *handover.pass_fds), environment | handover.environment
    try:
        return subprocess.Popen(
            [sys.executable, "-ISc", UNDER, str(os.getpid()), *command(reading)],
            pass_fds=(reading, *passed, *fds),
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(reading)


def command(settings_fd: int) -> list[str]:
    """A gate, as the guard starts it."""
    return [sys.executable, "-m", "edge_runtime.guard.motion_gate", "--settings-fd", str(settings_fd)]


def flood(path: str, sequence: int) -> None:
    """Proposes at 1 kHz."""
    to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    to.setblocking(False)
    print("floods", flush=True)
    while True:
        sequence += 1
        now_ns = time.monotonic_ns()
        proposal = Proposal(sequence, now_ns, 150 * MS, "drive", {"v_m_s": 0.1, "w_rad_s": 0.0})
        with contextlib.suppress(OSError):  # full, or the gate is not there
            to.sendto(encode(proposal), path)
        time.sleep(0.001)


@contextlib.contextmanager
def flooding(path: Path, sequence: int = 0) -> Iterator[None]:
    """Somebody who proposes at 1 kHz, meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rigs.motion_gate", "flood", str(path), str(sequence)],
        env=told_parent(os.environ),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    die_with_parent(signal.SIGKILL)
    flood(sys.argv[2], int(sys.argv[3]))
