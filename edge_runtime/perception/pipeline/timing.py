"""Where the time goes: durations by stage, bounded in memory, read while being written."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.clock import NS_PER_S

_WINDOW = 8192
"""Durations kept per stage for the percentiles: minutes at camera rates, 64 KiB."""


@dataclass(frozen=True, slots=True)
class StageSummary:
    """Durations of one stage in milliseconds; percentiles over the most recent ones."""

    count: int
    total_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


class _Stage:
    __slots__ = ("count", "ring", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.ring = np.zeros(_WINDOW, np.int64)


class StageTimes:
    """Collects durations; `record` may be called from any thread.

    Args:
        listener: also told each (stage, camera, seconds), for metrics.
    """

    def __init__(self, listener: Callable[[str, str, float], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._stages: dict[str, _Stage] = {}
        self._listener = listener

    def record(self, stage: str, duration_ns: int, cameras: Sequence[str]) -> None:
        """Add one duration of `stage`; `cameras` are those whose frames spent it, several in a batch."""
        with self._lock:
            entry = self._stages.get(stage)
            if entry is None:
                entry = self._stages.setdefault(stage, _Stage())
            entry.ring[entry.count % _WINDOW] = duration_ns
            entry.count += 1
            entry.total_ns += duration_ns
        if self._listener is not None:
            for camera in cameras:
                self._listener(stage, camera, duration_ns / 1e9)

    def totals(self) -> dict[str, tuple[int, float]]:
        """Durations so far by stage: how many, and their seconds together."""
        with self._lock:
            return {name: (entry.count, entry.total_ns / NS_PER_S) for name, entry in self._stages.items()}

    def summary(self) -> dict[str, StageSummary]:
        """All stages so far, in the order in which they first appeared."""
        with self._lock:
            taken = [
                (name, entry.count, entry.total_ns, entry.ring[: min(entry.count, _WINDOW)].copy())
                for name, entry in self._stages.items()
            ]
        result: dict[str, StageSummary] = {}
        for name, count, total_ns, values in taken:
            p50, p95, p99 = (float(v) / 1e6 for v in np.percentile(values, (50, 95, 99)))
            result[name] = StageSummary(count, total_ns / 1e6, p50, p95, p99)
        return result
