"""What one model took for a frame, over the last minute: the figure by which two models are compared."""

import threading
from collections import deque
from dataclasses import dataclass

import numpy as np

_MOST = 4096
"""Inferences that are kept: a minute of a model that does 68 a second, 64 KiB."""


@dataclass(frozen=True, slots=True)
class RecentTimes:
    """Time of one inference, divided by its frames, in milliseconds.

    Attributes:
        inferences: in the window.
        p50_ms, p95_ms: None without one.
    """

    inferences: int
    p50_ms: float | None
    p95_ms: float | None


class Recent:
    """Keeps the durations of a window; safe from several threads.

    Args:
        window_ns: length of the window.
    """

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._lock = threading.Lock()
        self._kept: deque[tuple[int, int]] = deque(maxlen=_MOST)

    def add(self, now_ns: int, frame_ns: int) -> None:
        """An inference ended, which took `frame_ns` for each of its frames."""
        with self._lock:
            self._kept.append((now_ns, frame_ns))

    def times(self, now_ns: int) -> RecentTimes:
        """The figures of the window that ends now."""
        with self._lock:
            found = [frame_ns for at_ns, frame_ns in self._kept if now_ns - at_ns <= self._window_ns]
        if not found:
            return RecentTimes(0, None, None)
        p50, p95 = (float(value) / 1e6 for value in np.percentile(found, (50, 95)))
        return RecentTimes(len(found), p50, p95)
