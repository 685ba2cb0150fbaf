"""The trials of `edge-runtime guard selftest`: each fault so many times, and the spread of what was measured."""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.guard.selftest.bench import Bench, SelfTestFailed

KILL, STOP = "SIGKILL", "SIGSTOP"
WORKER_FAULTS = (KILL, STOP, "spin", "gil", "blocked", "hog")
GUARD_FAULTS = (KILL, STOP)
SETTLED_S = 0.25
"""After a guard's death commands are waited for this long: none may come after its lease."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Some measurements, in the unit of their name."""

    values: tuple[float, ...]

    def to_json(self) -> dict[str, float]:
        """Least, median, 99th percentile, greatest, and how many they are."""
        ordered = sorted(self.values)
        at = min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))
        return {
            "n": len(ordered),
            "min": round(ordered[0], 3),
            "median": round(statistics.median(ordered), 3),
            "p99": round(ordered[at], 3),
            "max": round(ordered[-1], 3),
        }


@dataclass(slots=True)
class Report:
    """What the self-test found.

    Attributes:
        sched: the schedule that the guard got: `fifo` or `other`.
        load: busy processes beside it.
        beyond_deadline_us: by fault of the worker, microseconds from the deadline of its last beat to the latch.
        lease_end_ms: by fault of the guard, milliseconds from it to the last command at the actuator.
    """

    sched: str = "other"
    load: int = 0
    beyond_deadline_us: dict[str, Spread] = field(default_factory=dict)
    lease_end_ms: dict[str, Spread] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "sched": self.sched,
            "load": self.load,
            "beyond_deadline_us": {
                name: spread.to_json() for name, spread in self.beyond_deadline_us.items()
            },
            "motion_gate_close_ms": {
                f"guard {name}": spread.to_json() for name, spread in self.lease_end_ms.items()
            },
        }


def run(trials: int, *, load: int = 0, real_time: bool = True, told: Callable[[str], None] = print) -> Report:
    """Break things, and measure.

    Args:
        trials: of each fault, at least 1.
        load: busy processes beside it.
        real_time: whether the guard asks for a real-time schedule.
        told: called with a line on each fault.

    Raises:
        SelfTestFailed: a fault was not seen, or a command passed after the permission had ended.
    """
    report = Report(load=load)
    with busy(load):
        for fault in WORKER_FAULTS:
            told(f"worker {fault}: {trials} trials")
            report.beyond_deadline_us[fault] = Spread(
                tuple(_worker_trials(fault, trials, report, real_time=real_time))
            )
        for fault in GUARD_FAULTS:
            told(f"guard {fault}: {trials} trials")
            report.lease_end_ms[fault] = Spread(tuple(_guard_trials(fault, trials, real_time=real_time)))
    return report


def _worker_trials(fault: str, trials: int, report: Report, *, real_time: bool) -> Iterator[float]:
    with tempfile.TemporaryDirectory(prefix="guard-") as made:
        bench = Bench(Path(made), fault if fault not in (KILL, STOP) else "blocked", real_time=real_time)
        with bench.running():
            report.sched = "fifo" if bench.status()["facts"].get("sched_fifo") else "other"
            for _ in range(trials):
                bench.arm()
                pid = bench.pid("worker")
                os.kill(pid, getattr(signal, fault) if fault in (KILL, STOP) else signal.SIGUSR1)
                status = bench.wait(lambda s: s["state"] in ("SAFE", "LOCKOUT"))
                ended_ns = time.monotonic_ns()
                time.sleep(0.05)
                if bench.received_ns > ended_ns:
                    raise SelfTestFailed(f"a command passed after worker {fault} had latched")
                if not set(status["latch"]["causes"]) & {"worker_hung", "worker_dead"}:
                    raise SelfTestFailed(f"worker {fault} latched for {status['latch']['causes']}")
                yield float(status["latched_beyond_us"])


def _guard_trials(fault: str, trials: int, *, real_time: bool) -> Iterator[float]:
    for _ in range(trials):
        with tempfile.TemporaryDirectory(prefix="guard-") as made:
            bench = Bench(Path(made), "blocked", real_time=real_time)
            with bench.running():
                bench.arm()
                at_ns = bench.signal_guard(getattr(signal, fault))
                time.sleep(SETTLED_S)
                yield max(0, bench.received_ns - at_ns) / 1e6


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that do nothing but take a processor."""
    spinning: Sequence[subprocess.Popen[bytes]] = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
