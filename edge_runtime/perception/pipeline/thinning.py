"""Which of a camera's frames are looked at while heat allows a share of the work only: evenly spread in time.

The share is one of the work, not of the frames that arrive: a camera of 30 frames a second in front of a model that
does 10 would keep it as busy with half of its frames as with all. So a frame is due one full-work interval, divided
by the share, after the last one; the full-work interval is the camera's period or the model's time, whichever is
longer.
"""

from edge_runtime.sources.frame import Frame

_WEIGHT = 8
"""The camera's period is an average in which the newest interval counts an eighth."""


class Thinning:
    """Chooses among the frames of one live camera."""

    def __init__(self) -> None:
        self._last: tuple[int, int, int] | None = None
        self._period_ns = 0
        self._due_ns: float | None = None

    def wants(self, frame: Frame, share: float, work_ns: int) -> bool:
        """Whether this frame is to be looked at.

        Args:
            frame: the next one of the camera; frames between may have been dropped.
            share: of the work that may be done, above 0, at most 1.
            work_ns: what the model takes for one frame of each of its cameras.
        """
        self._measure(frame)
        if share >= 1:
            self._due_ns = None
            return True
        due_ns, at_ns = self._due_ns, frame.capture_ns
        # a frame half a period before it is due is nearer to it than the next one
        if due_ns is not None and at_ns < due_ns - self._period_ns / 2:
            return False
        interval_ns = max(self._period_ns, work_ns) / share
        on_time = due_ns is not None and at_ns - due_ns < interval_ns
        self._due_ns = (due_ns if due_ns is not None and on_time else at_ns) + interval_ns
        return True

    def _measure(self, frame: Frame) -> None:
        last, self._last = self._last, (frame.epoch, frame.sequence, frame.capture_ns)
        if last is None or last[0] != frame.epoch or frame.sequence <= last[1]:
            return
        period_ns = max(frame.capture_ns - last[2], 0) // (frame.sequence - last[1])
        known_ns = self._period_ns
        self._period_ns = period_ns if not known_ns else known_ns + (period_ns - known_ns) // _WEIGHT
