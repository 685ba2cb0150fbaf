"""A process table of the guard over real processes, looked at by the test as the guard's loop does."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from edge_runtime.guard.page import Page
from edge_runtime.guard.settings import Ends, Row
from edge_runtime.guard.table import Looked, Table
from edge_runtime.guard.worker import Worker

MS = 1_000_000
PATIENCE_S = 30.0

_HEAD = """
import os, signal, sys, time
from edge_runtime.guard.page import SlotWriter
from edge_runtime.lifeline import die_with_parent
die_with_parent(signal.SIGKILL)
slot = SlotWriter.from_environment()
def beat(deadline_ms=60_000):
    slot.finished("unit", None, time.monotonic_ns() + deadline_ms * 1_000_000, 1 << 26, 0)
"""


def row(name: str, script: str = "", **changes: Any) -> Row:
    """A row whose process runs a script with `slot` and `beat`; times are given in nanoseconds as in `Row`."""
    values: dict[str, Any] = {
        "name": name,
        "command": (sys.executable, "-c", _HEAD + script),
        "after": (),
        "start_ns": 20_000 * MS,
        "start_longest_ns": 200_000 * MS,
        "longest_ns": 60_000 * MS,
        "stop_ns": 20_000 * MS,
        "restarts": 1000,
        "window_ns": 60_000 * MS,
        "backoff_ns": 10 * MS,
        "critical": True,
        "ends": Ends.NEVER,
        "ring": False,
        "settings": b"",
        "lives_on": False,
    }
    return Row(**values | changes)


@dataclass
class Tables:
    """A table, and turns of it."""

    table: Table
    looked: Looked = field(default_factory=lambda: Looked(0, 0, ()))

    def worker(self, name: str) -> Worker:
        return self.table.workers[name]

    def turn(self) -> Looked:
        """Look, start what is due, and kill what is expendable."""
        now_ns = time.monotonic_ns()
        self.looked = self.table.look(now_ns)
        self.table.kill(self.looked.expendable, now_ns)
        self.table.start_due(now_ns)
        return self.looked

    def until(self, holds: Callable[[Looked], bool]) -> Looked:
        """Turns until something holds."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if holds(self.turn()):
                return self.looked
            time.sleep(0.002)
        raise AssertionError(f"never: {self.looked}")

    def stop(self) -> float:
        """Have all end; seconds it took."""
        began = time.monotonic()
        while not self.table.stop(time.monotonic_ns()):
            assert time.monotonic() < began + PATIENCE_S
            self.table.look(time.monotonic_ns())
            time.sleep(0.002)
        return time.monotonic() - began


@contextlib.contextmanager
def running(*rows: Row) -> Iterator[Tables]:
    """Leaves no process behind."""
    page = Page([one.name for one in rows])
    table = Table(rows, page, lambda _: ((), {}), os.environ)
    try:
        yield Tables(table)
    finally:
        for worker in table.workers.values():
            if worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
                while worker.pid is not None:
                    worker.look(time.monotonic_ns())
                    time.sleep(0.001)
        page.close()
