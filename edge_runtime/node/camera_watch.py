"""Which conditions hold of one camera: pure, from its frames and from looks at its source."""

from collections.abc import Sequence
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S
from edge_runtime.guard.conditions import Condition, mask_of
from edge_runtime.perception.pipeline import NotEvaluated, Outcome, Unseen
from edge_runtime.protocol import EventRecord
from edge_runtime.sources import SourceState

RECENT, MISSED = 10, 3
"""So many of so many inferences in a row have to miss their deadline."""

EVENT_WINDOW_NS = 2 * NS_PER_S
"""For so long after a late event the condition holds."""

_STALLED, _DARK, _FROZEN = (
    Condition.SOURCE_STALLED.mask,
    Condition.SOURCE_DARK.mask,
    Condition.SOURCE_FROZEN.mask,
)
_LATE, _INFERENCE = Condition.SOURCE_LATE.mask, Condition.INFERENCE_LATE.mask
_NOT_FINITE, _EVENT = Condition.OUTPUT_NOT_FINITE.mask, Condition.EVENT_LATE.mask

EVALUATED = mask_of(
    (
        Condition.SOURCE_STALLED,
        Condition.SOURCE_DARK,
        Condition.SOURCE_FROZEN,
        Condition.SOURCE_LATE,
        Condition.INFERENCE_LATE,
        Condition.OUTPUT_NOT_FINITE,
        Condition.EVENT_LATE,
    )
)
"""What perception judges, once each camera was looked at."""

_SILENT = {SourceState.STALLED, SourceState.RECONNECTING, SourceState.FAILED, SourceState.ENDED}
_NO_PICTURE = {Unseen.DARK: _DARK, Unseen.FROZEN: _FROZEN}
_NO_ANSWER = {Unseen.TIMEOUT, Unseen.ERROR, Unseen.LAYOUT}
_BAD_ANSWER = {Unseen.NONFINITE, Unseen.MODEL_FAULT}


@dataclass(frozen=True, slots=True)
class SourceLook:
    """A look at a camera's source.

    Attributes:
        state: of it.
        too_old: frames so far that were dropped for their age.
        newest_ns: when its newest frame was captured; None before the first.
    """

    state: SourceState
    too_old: int
    newest_ns: int | None = None


class CameraWatch:
    """Which conditions hold of one camera. Pure: the times are passed in.

    Args:
        live: it does not wait for us. A recording never stalls and its frames are never too old.
        max_age_ns: of a live frame when it is evaluated.
        deadline_ns: from capture to the end of its rules.
        relied_on: a body moves by what it shows, so the newest frame may never be older than `max_age_ns`; on a
            device that cannot move, the time from frame to frame is its own.

    Attributes:
        looked: whether anything is known of it.
        over: its source has ended or failed for good.
        tripped: mask of what holds.
        newest_capture_ns: of the frames that were evaluated; None before the first.
    """

    def __init__(self, *, live: bool, max_age_ns: int, deadline_ns: int, relied_on: bool = False) -> None:
        self.live = live
        self._relied_on = live and relied_on
        self.looked = self.over = False
        self.tripped = 0
        self.newest_capture_ns: int | None = None
        self._max_age_ns, self._deadline_ns = max_age_ns, deadline_ns
        self._missed = 0  # one bit for each of the last inferences
        self._too_old = 0
        self._event_until_ns = 0

    def took(self, outcome: Outcome, age_ns: int, events: Sequence[EventRecord], now_ns: int) -> None:
        """A frame was evaluated, or could not be.

        Args:
            outcome: of the frame.
            age_ns: of the frame when its rules had run.
            events: that it caused.
            now_ns: CLOCK_MONOTONIC.
        """
        self.looked = True
        self.newest_capture_ns = outcome.frame.capture_ns
        reason = outcome.reason if isinstance(outcome, NotEvaluated) else None
        mask = self.tripped & (_INFERENCE | _NOT_FINITE | _EVENT)
        if self.live and age_ns > self._max_age_ns:
            mask |= _LATE
        if reason in _NO_PICTURE:
            mask |= _NO_PICTURE[reason]
        else:
            late = reason in _NO_ANSWER or (self.live and age_ns > self._deadline_ns)
            self._missed = (self._missed << 1 | late) & (1 << RECENT) - 1
            mask = mask | _INFERENCE if self._missed.bit_count() >= MISSED else mask & ~_INFERENCE
            if reason in _BAD_ANSWER:
                mask |= _NOT_FINITE
            elif reason is None:
                mask &= ~_NOT_FINITE
        if any(event.late for event in events):
            self._event_until_ns = now_ns + EVENT_WINDOW_NS
            mask |= _EVENT
        self.tripped = mask

    def look(self, source: SourceLook, oldest_at_work_ns: int | None, now_ns: int) -> None:
        """Time has passed.

        Args:
            source: how it stands.
            oldest_at_work_ns: capture time of the oldest frame of this camera that a thread is at.
            now_ns: CLOCK_MONOTONIC.
        """
        silent = source.state in _SILENT
        self.looked = self.looked or silent
        self.over = source.state.final
        dropped, self._too_old = source.too_old > self._too_old, source.too_old
        if self.live:
            blind = (
                self._relied_on
                and self.newest_capture_ns is not None
                and self._old(self.newest_capture_ns, now_ns)
            )
            unfed = source.newest_ns is None or self._old(source.newest_ns, now_ns)
            stalled = silent or (blind and unfed)
            self.tripped = self.tripped | _STALLED if stalled else self.tripped & ~_STALLED
            waits = oldest_at_work_ns is not None and self._old(oldest_at_work_ns, now_ns)
            # a frame that is evaluated in time clears it, nothing else
            self.tripped |= _LATE if dropped or waits or (blind and not unfed) else 0
        if now_ns >= self._event_until_ns:
            self.tripped &= ~_EVENT

    def _old(self, capture_ns: int, now_ns: int) -> bool:
        return now_ns - capture_ns > self._max_age_ns
