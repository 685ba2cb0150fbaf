"""Counts how a candidate compares with the model in use, frame by frame."""

import statistics
import threading
from collections import deque
from typing import Final

import numpy as np

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.node.hot_swap.agreement import Objects, agreed
from edge_runtime.node.hot_swap.trial_records import Saw
from edge_runtime.protocol.swap import ShadowFigures

_KEPT: Final = 512
"""The median is that of the last so many runs."""


class ShadowCount:
    """Figures of one candidate; safe from several threads.

    Args:
        clock: monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._on_ns: int | None = None
        self._spent_ns = 0
        self._frames = self._unanswered = self._nonfinite = 0
        self._running = self._candidate = self._agreed = 0
        self._ms: deque[float] = deque(maxlen=_KEPT)

    def turn(self, *, on: bool) -> None:
        """It is shown frames from now on, or no more."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            if on and self._on_ns is None:
                self._on_ns = now_ns
            elif not on and self._on_ns is not None:
                self._spent_ns += now_ns - self._on_ns
                self._on_ns = None

    def add(self, objects: Objects, saw: Saw, labels: tuple[str, ...]) -> None:
        """Both have seen a frame.

        Args:
            objects: of the model in use.
            saw: what the candidate made of it.
            labels: of the candidate.
        """
        xyxy = np.array(saw.xyxy, np.float32).reshape(-1, 4)
        seen = Objects(xyxy, tuple(labels[number] for number in saw.labels))
        pairs = agreed(objects, seen)
        with self._lock:
            self._nonfinite += saw.nonfinite
            if saw.ms is not None:
                self._ms.append(saw.ms)
            if saw.unanswered:
                self._unanswered += 1
                return
            self._frames += 1
            self._running += len(objects)
            self._candidate += len(seen)
            self._agreed += pairs

    def figures(self, running_ms: float | None) -> ShadowFigures:
        """All of it so far.

        Args:
            running_ms: median time of the model in use, measured as the candidate's is.
        """
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            spent_ns = self._spent_ns + (0 if self._on_ns is None else now_ns - self._on_ns)
            return ShadowFigures(
                on=self._on_ns is not None,
                seconds=spent_ns / NS_PER_S,
                frames=self._frames,
                unanswered=self._unanswered,
                nonfinite=self._nonfinite,
                running_objects=self._running,
                found=self._agreed,
                candidate_objects=self._candidate,
                confirmed=self._agreed,
                running_ms=running_ms,
                candidate_ms=statistics.median(self._ms) if self._ms else None,
            )
