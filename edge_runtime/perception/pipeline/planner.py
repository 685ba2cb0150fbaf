"""Which waiting frames go into the next inference: fair between cameras, and never past a frame's slack.

Pure: the time is passed in. The planner is work-conserving: an idle model is never kept waiting to fill a batch,
because frames already gather while the model is busy; so a batch adds no waiting of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """A frame that could be taken.

    Attributes:
        source: index of the camera within its lane.
        capture_ns: when it was captured.
        max_age_ns: it must have been evaluated within this long, or None for recordings, which wait.
    """

    source: int
    capture_ns: int
    max_age_ns: int | None


class DurationModel:
    """How long an inference of n frames takes, learnt from the runs so far.

    An exponential average per batch size; a size never run is extrapolated linearly from the nearest smaller one,
    which is pessimistic on an accelerator and right on a CPU.
    """

    _WEIGHT = 0.2

    def __init__(self) -> None:
        self._mean_ns: dict[int, float] = {}

    def copy(self) -> "DurationModel":
        """What is known so far, for a model of which nothing is."""
        known = DurationModel()
        known._mean_ns = dict(self._mean_ns)
        return known

    def learn(self, frames: int, duration_ns: int) -> None:
        """A run of `frames` took `duration_ns`."""
        known = self._mean_ns.get(frames)
        self._mean_ns[frames] = (
            float(duration_ns) if known is None else known + self._WEIGHT * (duration_ns - known)
        )

    def estimate_ns(self, frames: int) -> int:
        """Expected duration of a run of `frames`; 0 while nothing is known."""
        if not self._mean_ns:
            return 0
        if frames in self._mean_ns:
            return int(self._mean_ns[frames])
        smaller = [n for n in self._mean_ns if n < frames]
        base = max(smaller) if smaller else min(self._mean_ns)
        return int(self._mean_ns[base] * frames / base)


class BatchPlanner:
    """Chooses sources for the next batch, least recently served first.

    Args:
        sources: how many cameras share the model.
        capacity: largest batch.
    """

    def __init__(self, sources: int, capacity: int) -> None:
        self._capacity = capacity
        self._served = [0] * sources
        self._turn = 0

    def plan(self, now_ns: int, waiting: Sequence[Waiting], durations: DurationModel) -> list[int]:
        """The sources to take from, in fair order.

        The batch grows while every frame in it would still be evaluated within its age limit; the first one is
        always taken (if it is too old already, taking it is what drops and counts it).
        """
        order = sorted(waiting, key=lambda w: (self._served[w.source], w.source))
        chosen: list[int] = []
        slack_ns: int | None = None
        for candidate in order[: self._capacity]:
            limit = candidate.max_age_ns
            left = None if limit is None else candidate.capture_ns + limit - now_ns
            narrowest = left if slack_ns is None else slack_ns if left is None else min(left, slack_ns)
            estimate = durations.estimate_ns(len(chosen) + 1)
            if chosen and narrowest is not None and estimate > narrowest:
                break
            chosen.append(candidate.source)
            slack_ns = narrowest
        return chosen

    def served(self, source: int) -> None:
        """A frame of `source` was taken: it goes to the end of the line."""
        self._turn += 1
        self._served[source] = self._turn
