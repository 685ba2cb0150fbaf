"""What came of the frames since a model is in use: counted by the evaluator, read by whoever judges."""

from collections.abc import Sequence

from edge_runtime.events import CAMERA_RULE
from edge_runtime.perception.pipeline import Evaluated, Outcome, Unseen
from edge_runtime.protocol import EventRecord

_NO_PICTURE = (Unseen.DARK, Unseen.FROZEN)
_NO_NUMBERS = (Unseen.NONFINITE, Unseen.MODEL_FAULT)


class Tally:
    """Figures of one model in use. One thread counts; any may read.

    Args:
        begun_ns: CLOCK_MONOTONIC when it came into use.
        dropped: frames of its cameras that nobody looked at, until then.

    Attributes:
        frames: that it was shown.
        unanswered: of them: it failed, took too long, or gave nothing but values that are no numbers.
        nonfinite: of them: some value was no number.
        events: happenings of rules.
    """

    def __init__(self, begun_ns: int, dropped: int) -> None:
        self.begun_ns, self.dropped_before = begun_ns, dropped
        self.frames = self.unanswered = self.nonfinite = self.events = 0

    def took(self, outcome: Outcome, events: Sequence[EventRecord]) -> None:
        """A frame was looked at, and its rules ran."""
        if isinstance(outcome, Evaluated):
            self.frames += 1
            self.nonfinite += outcome.detections.nonfinite > 0
        elif outcome.reason not in _NO_PICTURE:
            self.frames += 1
            self.unanswered += 1
            self.nonfinite += outcome.reason in _NO_NUMBERS
        self.events += sum(event.revision == 1 and event.rule != CAMERA_RULE for event in events)
