"""The trials of `edge-runtime guard selftest`: each fault so many times, and the spread of what was measured."""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.guard.selftest.bench import Bench, SelfTestFailed
from edge_runtime.guard.selftest.frozen import CannotFreeze, FrozenDisk, frozen_disk

KILL, STOP, DISK, CRASH_LOOP = "SIGKILL", "SIGSTOP", "disk", "crash loop"
WORKER_FAULTS = (KILL, STOP, "spin", "gil", "blocked", "hog", DISK, CRASH_LOOP)
"""Of the worker; `disk` is a write to a file system that is frozen, in which no signal reaches it."""

GUARD_FAULTS = (KILL, STOP)
SETTLED_S = 0.25
"""After a guard's death commands are waited for this long: none may come after its lease."""

CLOSED_S = 0.06
"""After a latch commands are waited for this long: more than a lease, in which one could still be permitted."""

STARVED = ", starved"
"""After a fault: those trials in which the broken worker also waited for a processor most of the time. It could as
well have been sound, and counts as hung when twice the time has passed."""

_ON_WAKING_NS = 1_000_000
"""The gate may have looked just before the end of the lease, and the actuator reads its clock a moment later."""

_CRASHES: dict[str, object] = {"restarts": 2, "window_ms": 60_000, "backoff_ms": 50}


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


@dataclass(frozen=True, slots=True)
class Trial:
    """What one fault led to.

    Attributes:
        state: in which the guard ended, or began again.
        measured: microseconds from the deadline of the worker's last beat to the latch; for a guard's fault,
            milliseconds from it to the last command at the actuator.
        starved: whether the worker waited for a processor meanwhile.
    """

    state: str
    measured: float
    starved: bool = False


@dataclass(slots=True)
class Report:
    """What the self-test found.

    Attributes:
        sched: the schedule that the guard got: `fifo` or `other`.
        load: busy processes beside it.
        beyond_deadline_us: by fault of the worker, microseconds from the deadline of its last beat to the latch;
            see `STARVED`.
        lease_end_ms: by fault of the guard, milliseconds from it to the last command at the actuator.
        end_states: by fault, how often the guard ended in which state, its motion gate closed.
        not_tried: by fault, why this machine does not allow it.
    """

    sched: str = "other"
    load: int = 0
    beyond_deadline_us: dict[str, Spread] = field(default_factory=dict)
    lease_end_ms: dict[str, Spread] = field(default_factory=dict)
    end_states: dict[str, dict[str, int]] = field(default_factory=dict)
    not_tried: dict[str, str] = field(default_factory=dict)

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
            "end_states": self.end_states,
            "not_tried": self.not_tried,
        }

    def lines(self) -> Iterator[str]:
        """As it is printed for people."""
        yield f"schedule {self.sched}, {self.load} busy processes"
        for title, spreads in (
            ("latched beyond the deadline, us", self.beyond_deadline_us),
            ("guard broken to last command, ms", self.lease_end_ms),
        ):
            yield f"{title:<34}{'min':>10}{'median':>10}{'p99':>10}{'max':>10}{'trials':>8}"
            for fault, spread in spreads.items():
                found = spread.to_json()
                cells = "".join(f"{found[name]:>10.1f}" for name in ("min", "median", "p99", "max"))
                yield f"  {fault:<32}{cells}{found['n']:>8}"
        yield "each time the motion gate was closed, and nothing passed after; the guard ended in"
        for fault, states in self.end_states.items():
            yield f"  {fault:<32}" + ", ".join(f"{state} {count} times" for state, count in states.items())
        for fault, why in self.not_tried.items():
            yield f"  {fault:<32}not tried: {why}"


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
            try:
                done = tuple(_worker_trials(fault, trials, report, real_time=real_time))
            except CannotFreeze as error:
                report.not_tried[f"worker {fault}"] = str(error)
                told(f"  not tried: {error}")
                continue
            report.beyond_deadline_us |= _by_name(fault, done)
            report.end_states[f"worker {fault}"] = _states(done)
        for fault in GUARD_FAULTS:
            told(f"guard {fault}: {trials} trials")
            done = tuple(_guard_trials(fault, trials, real_time=real_time))
            report.lease_end_ms[fault] = Spread(tuple(trial.measured for trial in done))
            report.end_states[f"guard {fault}"] = _states(done)
    return report


def _by_name(fault: str, trials: Sequence[Trial]) -> dict[str, Spread]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for trial in trials:
        found[fault + (STARVED if trial.starved else "")].append(trial.measured)
    return {name: Spread(tuple(values)) for name, values in sorted(found.items())}


def _states(trials: Sequence[Trial]) -> dict[str, int]:
    return dict(Counter(trial.state for trial in trials))


def _worker_trials(fault: str, trials: int, report: Report, *, real_time: bool) -> Iterator[Trial]:
    if fault == CRASH_LOOP:
        for _ in range(trials):
            yield _crash_loop(real_time=real_time)
        return
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_folder())
        disk = stack.enter_context(frozen_disk(_made(folder / "disk"))) if fault == DISK else None
        does = "blocked" if fault in (KILL, STOP) else fault if disk is None else f"disk:{disk.folder}/file"
        bench = stack.enter_context(Bench(_made(folder / "bench"), does, real_time=real_time).running())
        report.sched = "fifo" if bench.status()["facts"].get("sched_fifo") else "other"
        for _ in range(trials):
            yield _worker_trial(bench, fault, disk)


def _worker_trial(bench: Bench, fault: str, disk: FrozenDisk | None) -> Trial:
    """Break the worker of a guard that lives on."""
    bench.arm()
    pid = bench.pid("worker")
    if disk is not None:
        disk.freeze()
    os.kill(pid, getattr(signal, fault) if fault in (KILL, STOP) else signal.SIGUSR1)
    tripped: set[str] = set()

    def latched(status: dict[str, Any]) -> bool:
        tripped.update(status["tripped"])
        return status["state"] in ("SAFE", "LOCKOUT")

    status = bench.wait(latched)
    _require_closed(bench, f"worker {fault}")
    if not set(status["latch"]["causes"]) & {"worker_hung", "worker_dead"}:
        raise SelfTestFailed(f"worker {fault} latched for {status['latch']['causes']}")
    if disk is not None:
        if _sleeps_as(pid) != "D":
            raise SelfTestFailed(f"worker {fault} did not sleep out of reach of signals")
        disk.thaw()
    return Trial(status["state"], float(status["latched_beyond_us"]), "worker_starved" in tripped)


def _crash_loop(*, real_time: bool) -> Trial:
    """A worker that ends right after each start is given up: locked out, in a guard of its own."""
    with _folder() as folder:
        broken = folder / "broken"
        bench = Bench(_made(folder / "bench"), f"crash:{broken}", real_time=real_time, changes=_CRASHES)
        with bench.running():
            bench.arm()
            broken.touch()
            os.kill(bench.pid("worker"), signal.SIGKILL)
            beyond_us = bench.wait(lambda s: s["state"] in ("SAFE", "LOCKOUT"))["latched_beyond_us"]
            _require_closed(bench, f"worker {CRASH_LOOP}")
            status = bench.wait(lambda s: s["state"] == "LOCKOUT")
            _require_closed(bench, f"worker {CRASH_LOOP}")
            if "crash_loop" not in status["latch"]["causes"]:
                raise SelfTestFailed(f"a crash loop locked out for {status['latch']['causes']}")
            return Trial(status["state"], float(beyond_us))


def _guard_trials(fault: str, trials: int, *, real_time: bool) -> Iterator[Trial]:
    with _folder() as folder:
        bench = Bench(folder, "blocked", real_time=real_time)
        with bench.running():
            for _ in range(trials):
                bench.arm()
                at_ns = bench.signal_guard(getattr(signal, fault))
                time.sleep(SETTLED_S)
                received_ns = bench.received_ns
                if received_ns > max(at_ns, bench.lease_ends_ns()) + _ON_WAKING_NS:
                    raise SelfTestFailed(f"a command passed after the lease of a guard that got {fault}")
                if bench.gate_is_open():
                    raise SelfTestFailed(f"the motion gate stayed open after guard {fault}")
                bench.close()
                bench.start()
                status = bench.wait(lambda s: s["state"] != "INIT")
                yield Trial(status["state"], max(0, received_ns - at_ns) / 1e6)


def _require_closed(bench: Bench, what: str) -> None:
    """Nothing may pass from now on, and the gate itself has to say so."""
    since_ns = time.monotonic_ns()
    time.sleep(CLOSED_S)
    if bench.received_ns > since_ns:
        raise SelfTestFailed(f"a command passed after {what} had latched")
    if bench.gate_is_open():
        raise SelfTestFailed(f"the motion gate stayed open after {what} had latched")


def _sleeps_as(pid: int) -> str:
    """The kernel's letter for the state of a process; `D` cannot be interrupted."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="guard-") as made:
        yield Path(made)


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
