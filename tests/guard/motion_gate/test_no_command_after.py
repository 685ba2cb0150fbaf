"""No command passes after the lease's end: whoever holds it is killed or stopped while somebody floods the gate.

The drive stamps each frame with CLOCK_MONOTONIC as it takes it. Two things are checked. By order, whatever the
machine does: after the end the safe value comes once, and then nothing, while the flood goes on. By time: the last
command lies before the lease's end, plus what the gate and the drive may be kept waiting by the scheduler.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.guard.lease import LeaseReader
from edge_runtime.lifeline import told_parent
from tests.rigs import warden
from tests.rigs.guard import line, running, spread
from tests.rigs.motion_gate import MS, WAITS_S, Drive, command, flooding, settings

TOLERANCE_MS = 250.0
"""What a busy shared machine may keep the gate or the drive waiting; what was measured is printed."""

AFTER_S = 0.3
"""So long after the safe value nothing may come, while the flood goes on."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What one trial saw, in ms.

    Attributes:
        lease_ms: from the fault to the lease's end.
        command_ms: from the fault to the last command, as the drive took it.
        safe_ms: from the lease's end to the safe value, as the drive took it.
    """

    lease_ms: float
    command_ms: float
    safe_ms: float


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    """Holds the process id of the gate of the moment, so that none is left behind if these tests are killed."""
    (tmp_path / "watched").mkdir()
    watching = warden.watch(tmp_path / "watched", tmp_path / "gate.pid")
    yield tmp_path / "gate.pid"
    assert watching.stdin is not None
    watching.stdin.close()
    watching.wait()


@contextlib.contextmanager
def holder(told: dict[str, Any]) -> "Iterator[subprocess.Popen[str]]":
    """A process that holds the lease and has a gate under it, as the guard does."""
    reading, writing = os.pipe()
    os.write(writing, json.dumps(told).encode())
    os.close(writing)
    wish = json.dumps({"command": command(reading), "fds": [reading]})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rigs.guard", "renew", wish],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=told_parent(os.environ),
        pass_fds=(reading,),
    )
    os.close(reading)
    with running(process):
        yield process


def take_for(drive: Drive, seconds: float) -> None:
    """Take what comes for a while: a drive that does not read has the gate refuse."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        drive.take(left)


def trial(
    folder: Path, pid_file: Path, number: signal.Signals, open_s: float, told: dict[str, Any]
) -> Closing | None:
    """One trial; None if the holder had been starved, and the lease had ended before it was touched."""
    folder.mkdir()
    told = settings(folder) | told
    with contextlib.ExitStack() as stack:
        taking = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        taking.bind(str(folder / "drive.sock"))
        drive = Drive(taking)
        guard = stack.enter_context(holder(told))
        lease_fd = int(line(guard))
        reader = LeaseReader(os.open(f"/proc/{guard.pid}/fd/{lease_fd}", os.O_RDONLY))
        stack.callback(reader.close)
        gate = json.loads(line(guard))["pid"]
        pid_file.write_text(f"{gate}\n")
        stack.callback(end, gate, pid_file)
        stack.enter_context(flooding(folder / "motion.sock"))
        assert "safe" in drive.next()
        assert drive.quiet(0.05)
        assert guard.stdin is not None
        guard.stdin.write("go\n")
        guard.stdin.flush()
        assert "seq" in drive.next()
        take_for(drive, open_s)
        before = reader.read()
        fault_ns = time.monotonic_ns()
        guard.send_signal(number)
        was_open = "seq" in drive.frames[-1][1]
        drive.frames.clear()
        while drive.take(WAITS_S if was_open else AFTER_S):
            if "safe" in drive.frames[-1][1]:
                break
        take_for(drive, AFTER_S)
        lease = reader.read()
        assert before is not None
        assert lease is not None
        if not was_open or lease.epoch_ns != before.epoch_ns:
            return None
        safe = [at_ns for at_ns, frame in drive.frames if "safe" in frame]
        assert len(safe) == 1
        assert "safe" in drive.frames[-1][1], "something came after the safe value"
        commands = [at_ns for at_ns, frame in drive.frames if "seq" in frame]
        assert refusals(folder) > 20, "nobody flooded"
        last_ns = max(commands, default=fault_ns)
        assert last_ns <= lease.expires_ns + TOLERANCE_MS * MS
        assert lives(gate), "the gate has to live on"
        if number is signal.SIGKILL:
            (folder / "motion.sock").unlink()  # nothing can reach it any more: it has to end by itself
            gone_by = time.monotonic() + WAITS_S
            while lives(gate):
                assert time.monotonic() < gone_by, "the gate has to end"
                time.sleep(0.02)
    return Closing(
        (lease.expires_ns - fault_ns) / MS, (last_ns - fault_ns) / MS, (safe[0] - lease.expires_ns) / MS
    )


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def refusals(folder: Path) -> int:
    """How many proposals the gate refused for want of a lease."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
        asker.bind(str(folder / "asker.sock"))
        asker.settimeout(WAITS_S)
        asker.sendto(b'{"status":true}', str(folder / "motion.sock"))
        status = json.loads(asker.recv(4096))
    assert not status["open"]
    return int(status["refused"].get("no_lease", 0))


def end(gate: int, pid_file: Path) -> None:
    """End a gate that outlived its guard."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(gate, signal.SIGKILL)
    pid_file.unlink()


@pytest.mark.parametrize(
    ("trials", "real_time"),
    [
        (3, False),
        pytest.param(40, False, marks=pytest.mark.trial),
        pytest.param(40, True, marks=pytest.mark.trial),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_no_command_passes_after_the_lease(
    tmp_path: Path, pid_file: Path, number: signal.Signals, trials: int, real_time: bool
) -> None:
    draw = random.Random(trials)
    seen: list[Closing] = []
    for at in range(3 * trials):
        one = trial(tmp_path / str(at), pid_file, number, draw.uniform(0.05, 0.15), {"real_time": real_time})
        seen += [] if one is None else [one]
        if len(seen) == trials:
            break
    assert len(seen) == trials, "the machine is too busy to hold a lease"
    kind = "real time where permitted" if real_time else "ordinary process"
    print(f"\nholder of the lease {number.name}, gate {kind}, {trials} trials, ms:")
    print(f"  fault to the lease's end      {spread([one.lease_ms for one in seen])}")
    print(f"  fault to the last command     {spread([one.command_ms for one in seen])}")
    print(f"  last command to lease's end   {spread([one.lease_ms - one.command_ms for one in seen])}")
    print(f"  lease's end to the safe value {spread([one.safe_ms for one in seen])}")
