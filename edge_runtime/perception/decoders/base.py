"""What every head decoder shares: candidates in model pixels, before NMS and before the inverse letterbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.detections import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Candidates:
    """Boxes above the score threshold, in model input pixels.

    Attributes:
        xyxy: (N, 4) float32.
        score: (N,) float32.
        label: (N,) int64, index into the label map.
        nonfinite: candidates dropped for a NaN or infinite value.
    """

    xyxy: FloatArray
    score: FloatArray
    label: IntArray
    nonfinite: int


class HeadDecoder(Protocol):
    """Reads the outputs of one head family. Stateless after construction; safe from several threads."""

    def decode(self, outputs: Sequence[Tensor], index: int, score: float) -> Candidates:
        """Candidates of image `index` of the batch with a score of at least `score`.

        Raises:
            DecodeError: the outputs do not have the layout of this family.
        """
        ...
