"""Faults that somebody at the device asked for: one file in the state directory, which only its owner writes.

There is no way to ask from afar: no command of the fleet, no release and no topic leads here. Whoever may write the
file may stop the device's processes as well. A file that others could have written, or that cannot be read, injects
nothing, and that is said.
"""

import json
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.durable import write_file
from edge_runtime.faults.catalogue import FaultRefused, Unit
from edge_runtime.faults.injection import Injection, from_json
from edge_runtime.state import StateDirectory

FILE = "faults.json"
MOST = 16
"""Faults at once."""

LOOK_NS = 100 * NS_PER_MS
_MAX_BYTES = 64 * 1024

Told = Callable[[Injection, bool], None]
"""Is told of each fault as it begins (True) and as it is over (False)."""


def orders_file(state: StateDirectory) -> Path:
    """Where orders lie: among what means nothing after a restart."""
    return state.run / FILE


def write_orders(path: Path, orders: Sequence[Injection]) -> None:
    """Put these orders in the place of all others.

    Raises:
        FaultRefused: they are too many.
    """
    if len(orders) > MOST:
        raise FaultRefused(f"at most {MOST} faults at once; clear some first")
    write_file(path, json.dumps([order.to_json() for order in orders]).encode(), 0o600)


def read_orders(path: Path) -> list[Injection]:
    """The orders of a file; none where there is no file.

    Raises:
        FaultRefused: it is not what `write_orders` wrote, or others may have written it.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FaultRefused(f"{path.name}: cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise FaultRefused(f"{path.name}: others than its owner may have written it; nothing is injected")
        data = os.read(file, _MAX_BYTES + 1)
    finally:
        os.close(file)
    try:
        orders = json.loads(data)
    except (ValueError, RecursionError):
        raise FaultRefused(f"{path.name}: is not JSON; nothing is injected") from None
    if not isinstance(orders, list) or len(orders) > MOST:
        raise FaultRefused(f"{path.name}: is not a list of at most {MOST} faults; nothing is injected")
    return [from_json(order) for order in orders]


class Injector:
    """Follows the orders of one device. Each process that injects has its own; its cameras' threads share it.

    Args:
        path: of the orders' file.
        clock: time.
        told: of beginnings and ends.
        refused: is given the sentence where a file cannot be used, once for each such file.
    """

    def __init__(self, path: Path, clock: Clock, told: Told, refused: Callable[[str], None]) -> None:
        self._path, self._clock, self._told, self._refused = path, clock, told, refused
        self._orders: tuple[Injection, ...] = ()
        self._signature: tuple[int, int, int] | None = None
        self._looked_ns: int | None = None
        self._running: dict[str, Injection] = {}
        self._lock = threading.Lock()

    def look(self) -> None:
        """Read the file where it has changed, and tell what began and what is over."""
        with self._lock:
            self._look(self._clock.monotonic_ns())

    def _look(self, now_ns: int) -> None:
        if self._looked_ns is not None and now_ns - self._looked_ns < LOOK_NS:
            return
        self._looked_ns = now_ns
        self._read()
        running = {order.id: order for order in self._orders if order.begins_ns <= now_ns < order.ends_ns}
        for key in self._running.keys() - running.keys():
            self._told(self._running[key], False)  # noqa: FBT003 - the callable's contract
        for key in running.keys() - self._running.keys():
            self._told(running[key], True)  # noqa: FBT003 - the callable's contract
        self._running = running

    def on(self, unit: Unit, name: str = "") -> Injection | None:
        """The fault that holds now of this unit; of several the one that was asked for last."""
        self.look()
        now_ns = self._clock.monotonic_ns()
        found = [order for order in self._orders if order.meets(unit, name) and order.holds(now_ns)]
        return found[-1] if found else None

    def _read(self) -> None:
        try:
            seen = self._path.lstat()
            signature = (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        except OSError:
            signature = None
        if signature == self._signature:
            return
        self._signature = signature
        boot_id = self._clock.wall().boot_id
        try:
            self._orders = tuple(order for order in read_orders(self._path) if order.boot_id == boot_id)
        except FaultRefused as error:
            self._orders = ()
            self._refused(str(error))
