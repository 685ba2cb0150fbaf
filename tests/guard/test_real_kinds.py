"""Kinds of bug that only real processes can show: the wall clock is set, the processors are taken away."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edge_runtime.guard.realtime import run_in_real_time
from tests.rigs.guard_bodies import PATIENT, altered
from tests.rigs.guarded import GuardProcess, guarded, worker_row
from tests.rigs.stepped_clock import SteppedClock

SLOWER = altered(
    PATIENT, {"modes.watch.slower": "impaired", "modes.impaired": {"limits": "none", "needs": ["camera"]}}
)
"""DEGRADED is a mode of it: what is written down when it stops would wait for threads of the kernel, which get no
processor either."""

_TAKES = """
import os, sys, time
processor, seconds = int(sys.argv[1]), float(sys.argv[2])
os.sched_setaffinity(0, {processor})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
print("ready", flush=True)
until = float(sys.stdin.readline()) + seconds
while time.monotonic() < until:
    pass
"""


@pytest.mark.parametrize("ahead_s", [86_400.0, -86_400.0, 2.0, -1_700_000_000.0])
def test_b4_the_wall_clock_is_set_while_the_guard_and_its_worker_run(
    ahead_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock(tmp_path / "clock")
    for name in ("LD_PRELOAD", "STEPPED_CLOCK"):  # the boot stays the one in which the lease is read
        monkeypatch.setenv(name, clock.variables[name])
    with guarded(GuardProcess(tmp_path, SLOWER, [worker_row("perception", deadline_ms=1000)])) as guard:
        guard.arm()
        lease = guard.lease()
        guard.wait(lambda _: lease.valid())
        clock.step(ahead_s)
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            status = guard.status()
            assert (status["state"], status["workers"][0]["starts"]) == ("NOMINAL", 1)
            assert status["workers"][0]["age_ms"] < 1000
            assert lease.valid()
            time.sleep(0.02)
        # and what stops now is still noticed, within the deadline that it gave itself
        os.kill(guard.pid("perception"), signal.SIGSTOP)
        assert "worker_hung" in guard.reach("SAFE", within_s=10)["latch"]["causes"]
        assert not lease.valid()
        lease.close()


@contextlib.contextmanager
def ahead_of_what_takes_all() -> Iterator[None]:
    """This thread runs before the processes that take the processors, so that it can look at the guard."""
    fact = run_in_real_time(10)
    if not fact.done:
        pytest.skip(f"needs a real-time schedule: {fact.text}")
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextlib.contextmanager
def all_taken(seconds: float) -> Iterator[None]:
    """Real processes that leave no processor to ordinary ones, all at the same time; they end by themselves."""
    taking = [
        subprocess.Popen(
            [sys.executable, "-c", _TAKES, str(processor), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for processor in os.sched_getaffinity(0)
    ]
    try:
        for process in taking:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        begins = f"{time.monotonic()}\n"
        for process in taking:
            assert process.stdin is not None
            process.stdin.write(begins)
            process.stdin.flush()
        yield
    finally:
        for process in taking:
            process.kill()
            process.communicate()


@dataclass
class Taken:
    """What the guard said while all processors were taken, and shortly after.

    Attributes:
        tripped: conditions that held, in the order in which they were seen first.
        states: in which it was.
        hung_ms: how old the last beat was, by the guard's own times, when it called the worker hung; None where it
            did not.
    """

    tripped: list[str] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    hung_ms: int | None = None


def seen_while_taken(guard: GuardProcess, seconds: float) -> Taken:
    """Take all processors for so long, and look at the guard meanwhile."""
    found, seen, beat_ms = Taken(), len(guard.status()["changes"]), 0
    with ahead_of_what_takes_all(), all_taken(seconds):
        until = time.monotonic() + seconds + 0.5
        while time.monotonic() < until:
            status = guard.status()
            # one that hangs is killed in the same turn: its latch names what was seen
            now = [*status["tripped"], *(c for change in status["changes"][seen:] for c in change["causes"])]
            found.tripped += [name for name in dict.fromkeys(now) if name not in found.tripped]
            found.states.add(status["state"])
            hung = [one["ago_ms"] for one in status["changes"][seen:] if "worker_hung" in one["causes"]]
            if not hung:
                beat_ms = status["up_ms"] - status["workers"][0]["age_ms"]
            elif found.hung_ms is None:
                found.hung_ms = status["up_ms"] - hung[0] - beat_ms
            time.sleep(0.005)
    return found


@contextlib.contextmanager
def armed(folder: Path, deadline_ms: int) -> Iterator[GuardProcess]:
    """A guard in NOMINAL over a worker with this deadline."""
    folder.mkdir()
    row = worker_row("perception", deadline_ms=deadline_ms) | {"longest_ms": 20_000}
    with guarded(GuardProcess(folder, SLOWER, [row], real_time=True)) as guard:
        guard.arm()
        yield guard


def test_b6_a_worker_that_gets_no_processor_is_starved_and_not_hung_before_twice_its_time(
    tmp_path: Path,
) -> None:
    # What else this machine does may keep the worker away for longer than its processors are taken from it. Then it
    # is hung, which is only right by what the guard itself measured, and it is tried again with more time.
    for deadline_ms in (300, 600, 1200, 2400):
        with armed(tmp_path / str(deadline_ms), deadline_ms) as guard:
            pid = guard.pid("perception")
            seen = seen_while_taken(guard, 1.5 * deadline_ms / 1000)
            assert "worker_starved" in seen.tripped
            if seen.hung_ms is None:
                assert "worker_hung" not in seen.tripped
                assert seen.states <= {"NOMINAL", "DEGRADED"}, "nothing is latched"
                assert guard.pid("perception") == pid, "it was not killed"
                guard.reach("NOMINAL")
                break
            assert seen.hung_ms >= 1.9 * deadline_ms, "it was called hung before twice its time"
    else:
        raise AssertionError("it was always away for twice its time")


def test_b6_a_worker_that_gets_no_processor_for_twice_its_time_is_hung(tmp_path: Path) -> None:
    with armed(tmp_path / "guard", 300) as guard:
        seen = seen_while_taken(guard, 3.5 * 300 / 1000)
        assert seen.tripped.index("worker_starved") < seen.tripped.index("worker_hung")
        assert "SAFE" in seen.states
        assert seen.hung_ms is not None
        assert seen.hung_ms >= 1.9 * 300, "not before twice its time"
