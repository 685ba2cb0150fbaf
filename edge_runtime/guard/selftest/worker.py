"""A worker that breaks when it is told to.

    python -m edge_runtime.guard.selftest.worker PERIOD_MS DEADLINE_MS FAULT

It beats after each unit of work, with everything evaluated and well, until SIGUSR1 comes; then it does what FAULT
names. `trip:MASK` goes on, and says that these conditions hold; `disk:PATH` writes there; `crash:PATH` ends right
after its start for as long as there is a file at the path.
"""

import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from edge_runtime.guard.page import SlotWriter
from edge_runtime.guard.profile import EVERYTHING
from edge_runtime.lifeline import die_with_parent

_NS_PER_MS = 1_000_000
_HOG_LIMIT_BYTES = 1 << 30
_TRIP, _DISK, _CRASH = "trip:", "disk:", "crash:"
_CRASHED = 3


def spin() -> None:
    """A loop in Python that never comes back."""
    while True:
        pass


def hold_the_lock() -> None:
    """A C call that keeps the interpreter's lock: a pattern that backtracks for ages."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def block() -> None:
    """A C call that releases the interpreter's lock and never returns, as a stuck driver does."""
    reading, _writing = os.pipe()
    os.read(reading, 1)


def hog() -> None:
    """Takes memory until it gets no more, within a limit of its own so that the machine lives on."""
    resource.setrlimit(resource.RLIMIT_AS, (_HOG_LIMIT_BYTES, _HOG_LIMIT_BYTES))
    taken = []
    while True:
        taken.append(bytearray(16 << 20))


def write(path: str) -> None:
    """A write that the kernel lets nobody interrupt while the file system is frozen."""
    with open(path, "ab", buffering=0) as file:
        file.write(b"x")


FAULTS: dict[str, Callable[[], None]] = {"spin": spin, "gil": hold_the_lock, "blocked": block, "hog": hog}


def main(period_ms: int, deadline_ms: int, fault: str) -> None:
    """Work until told to break or to end."""
    die_with_parent(signal.SIGKILL)
    if fault.startswith(_CRASH) and Path(fault.removeprefix(_CRASH)).exists():
        sys.exit(_CRASHED)
    slot = SlotWriter.from_environment()
    if slot is None:
        sys.exit("the guard starts this worker; it has no slot otherwise")
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    tripped = 0
    while True:
        if asked and fault.startswith(_TRIP):
            tripped = int(fault.removeprefix(_TRIP))
        elif asked and fault.startswith(_DISK):
            write(fault.removeprefix(_DISK))
        elif asked:
            FAULTS[fault]()
        now_ns = time.monotonic_ns()
        slot.finished("unit", now_ns, now_ns + deadline_ms * _NS_PER_MS, EVERYTHING, tripped)
        time.sleep(period_ms / 1000)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
