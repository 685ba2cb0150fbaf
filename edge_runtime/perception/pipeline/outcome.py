"""What came of a frame: detections, or the reason why there are none. Never an empty list for a failure."""

from dataclasses import dataclass
from enum import Enum

from edge_runtime.perception.detections import Detections
from edge_runtime.sources.frame import Frame


class Unseen(str, Enum):
    """Why a frame that was delivered has no detections."""

    DARK = "dark"
    FROZEN = "frozen"
    TIMEOUT = "inference_timeout"
    ERROR = "inference_error"
    LAYOUT = "output_layout"
    NONFINITE = "output_nonfinite"
    MODEL_FAULT = "model_fault"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The model answered; `detections` may be empty, which means that nothing was seen.

    Attributes:
        variant: 0 for the model that is meant to look, n for the n-th smaller one in its place.
        lineup: number of the lineup of which it is the variant; see `Lane.exchange`.
    """

    frame: Frame
    detections: Detections
    model: str
    variant: int = 0
    lineup: int = 0


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """The frame was delivered but nobody knows what is in it.

    Attributes:
        text: one sentence for a person, without content of the frame.
        lineup: see `Evaluated`.
    """

    frame: Frame
    reason: Unseen
    text: str
    model: str
    lineup: int = 0


Outcome = Evaluated | NotEvaluated


class OutcomeJudge:
    """Tells an answer from the non-finite values of a model that is not fit to run. Belongs to one thread.

    Args:
        limit: so many frames of a camera in a row with non-finite values and nothing else are a fault of the model.
    """

    def __init__(self, limit: int = 5) -> None:
        self._limit = limit
        self._runs: dict[str, int] = {}

    def outcome(
        self, frame: Frame, detections: Detections, model: str, *, variant: int = 0, lineup: int = 0
    ) -> Outcome:
        """What a model's detections come to."""
        if detections.nonfinite == 0 or len(detections) > 0:
            self._runs[frame.source] = 0
            return Evaluated(frame, detections, model, variant, lineup)
        run = self._runs[frame.source] = self._runs.get(frame.source, 0) + 1
        if run < self._limit:
            text = "the model gave non-finite values only"
            return NotEvaluated(frame, Unseen.NONFINITE, text, model, lineup)
        text = (
            f"model {model} gave non-finite values only, {run} times in a row: run edge-runtime model check"
        )
        return NotEvaluated(frame, Unseen.MODEL_FAULT, text, model, lineup)
