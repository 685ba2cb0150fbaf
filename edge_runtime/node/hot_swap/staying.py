"""Says of the releases in use that they stayed, so that a start long ago is not held against them."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.telemetry import get_logger
from edge_runtime.updates.store.starting import STAYED_S, stayed

_JOIN_S = 5.0

InUse = Callable[[], Mapping[str, tuple[str | None, float]]]
"""The release that each slot runs, and for how many seconds in this process."""


class Staying:
    """A thread that wakes every ten minutes: the disk may be slow, and no frame waits for it.

    Args:
        updates: folder of releases.
        in_use: what runs; asked from the thread.
        clock: monotonic time.
        period_s: after so long a release has stayed.
    """

    def __init__(self, updates: Path, in_use: InUse, clock: Clock, period_s: float = STAYED_S) -> None:
        self._updates, self._in_use, self._clock, self._period_s = updates, in_use, clock, period_s
        self._said_ns = clock.monotonic_ns()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="staying", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, *, in_order: bool) -> None:
        """End; a run that was asked to end, or whose cameras have ended, has stayed however short it was."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        if in_order:
            self._say(0.0)

    def _run(self) -> None:
        while not self._ending.wait(self._period_s):
            self._say(self._period_s)

    def _say(self, least_s: float) -> None:
        now_ns = self._clock.monotonic_ns()
        since_s, self._said_ns = (now_ns - self._said_ns) / NS_PER_S, now_ns
        for slot, (release, seconds) in self._in_use().items():
            if release is None or seconds < least_s:
                continue
            try:
                stayed(self._updates, slot, release, min(since_s, seconds))
            except OSError as error:
                get_logger().warning("a start still counts", slot=slot, why=error.strerror)
