"""What a lane hands on, and the order in which it does."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline.lineup import Choice
from edge_runtime.perception.pipeline.outcome import Unseen
from edge_runtime.sources.frame import Frame


@dataclass(frozen=True, slots=True)
class Completed:
    """One batch's raw outputs, or why there are none.

    Attributes:
        frames: (index of the image in the outputs, frame) in order; a frame that grew too old is not in it.
        geometries: by index of the image.
        outputs: the model's output tensors, or None where the frames were not evaluated.
        reason: why not, where `outputs` is None.
        variant, lineup: see `Evaluated`.
    """

    model: LoadedModel
    frames: tuple[tuple[int, Frame], ...]
    geometries: tuple[Letterbox | None, ...] = ()
    outputs: Sequence[Tensor] | None = None
    reason: Unseen | None = None
    text: str = ""
    variant: int = 0
    lineup: int = 0


def unanswered(choice: Choice, frames: tuple[tuple[int, Frame], ...], reason: Unseen, text: str) -> Completed:
    """Frames that the model which was chosen for them did not answer, and why."""
    return Completed(
        choice.model.model, frames, reason=reason, text=text, variant=choice.variant, lineup=choice.lineup
    )


class InOrder:
    """Passes results on by ascending ticket, each exactly once, one at a time."""

    def __init__(self, hand_over: Callable[[Completed], None]) -> None:
        self._lock = threading.Lock()
        self._hand_over = hand_over
        self._parked: dict[int, Completed] = {}
        self._next = 0

    def put(self, ticket: int, completed: Completed) -> None:
        """Store one result and pass on all that are due; blocks while the receiver does."""
        with self._lock:
            self._parked[ticket] = completed
            while self._next in self._parked:
                self._hand_over(self._parked.pop(self._next))
                self._next += 1
