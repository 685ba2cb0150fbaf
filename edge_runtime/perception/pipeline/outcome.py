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
