"""A log that cannot flood: at most a burst per event and key in a period, and the rest is counted.

A wedged camera stack has filled disks with tens of gigabytes of one line (Kurokesu/ar0234 #8). The count of
what was held back is put on the next line that passes, so nothing disappears without a number.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable

from edge_runtime.clock import NS_PER_S

_MAX_KEYS = 2048  # the least recently used key is forgotten beyond this, its count with it


class RateLimit:
    """Fixed windows per key, on time that is passed in.

    Args:
        burst: lines that pass in one window.
        period_s: length of a window, from its first line.
    """

    def __init__(self, burst: int = 5, period_s: float = 10.0) -> None:
        self._burst = burst
        self._period_ns = int(period_s * NS_PER_S)
        self._windows: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, key: Hashable, now_ns: int) -> int | None:
        """Whether a line under `key` passes at `now_ns`.

        Returns:
            How many were held back since the last window began (0 within a window), or None to hold back.
        """
        with self._lock:
            start, seen = self._windows.get(key, (now_ns, 0))
            held_back = 0
            if now_ns - start >= self._period_ns:
                held_back = max(seen - self._burst, 0)
                start, seen = now_ns, 0
            self._windows[key] = (start, seen + 1)
            self._windows.move_to_end(key)
            if len(self._windows) > _MAX_KEYS:
                self._windows.popitem(last=False)
            return held_back if seen < self._burst else None
