"""Kinds of bug that only real processes can show: the wall clock is set, the processors are taken away."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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

DEADLINE_MS = 300

_TAKES = """
import os, sys, time
until = time.monotonic() + float(sys.argv[2])
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
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
    """Real processes that leave no processor to ordinary ones; they end by themselves.

    All are taken for less than that: each of them starts when it can.
    """
    taking = [
        subprocess.Popen([sys.executable, "-c", _TAKES, str(processor), str(seconds)])
        for processor in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for process in taking:
            process.kill()
            process.wait()


def seen_while_taken(guard: GuardProcess, seconds: float) -> tuple[set[str], set[str]]:
    """Conditions that held and states that were while all processors were taken, and shortly after."""
    tripped, states, seen = set[str](), set[str](), len(guard.status()["changes"])
    with ahead_of_what_takes_all(), all_taken(seconds):
        until = time.monotonic() + seconds + 0.5
        while time.monotonic() < until:
            status = guard.status()
            # one that hangs is killed in the same turn: its latch names what was seen
            tripped.update(status["tripped"], *(change["causes"] for change in status["changes"][seen:]))
            states.add(status["state"])
            time.sleep(0.005)
    return tripped, states


def test_b6_a_worker_that_gets_no_processor_is_starved_and_not_hung_before_twice_its_time(
    tmp_path: Path,
) -> None:
    row = worker_row("perception", deadline_ms=DEADLINE_MS)
    with guarded(GuardProcess(tmp_path, SLOWER, [row], real_time=True)) as guard:
        guard.arm()
        pid = guard.pid("perception")
        tripped, states = seen_while_taken(guard, 1.8 * DEADLINE_MS / 1000)
        assert "worker_starved" in tripped
        assert "worker_hung" not in tripped
        assert states <= {"NOMINAL", "DEGRADED"}, "nothing is latched"
        assert guard.pid("perception") == pid, "it was not killed"
        guard.reach("NOMINAL")
        tripped, states = seen_while_taken(guard, 3.5 * DEADLINE_MS / 1000)
        assert "worker_hung" in tripped
        assert "SAFE" in states
