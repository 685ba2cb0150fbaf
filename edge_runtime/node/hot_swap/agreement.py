"""How far two models agree about a frame: pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.perception.detections import Detections, FloatArray
from edge_runtime.perception.tracking.overlap import pairwise_iou
from edge_runtime.protocol.swap import MATCH_IOU


@dataclass(frozen=True, slots=True)
class Objects:
    """What a model counts as objects in one frame.

    Attributes:
        xyxy: (N, 4) float32, pixels of the frame.
        labels: names, N of them.
    """

    xyxy: FloatArray
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, detections: Detections, labels: Sequence[str], score: float) -> "Objects":
        """The detections at or above a score, under the names of the model that made them."""
        kept = detections.select(detections.score >= score)
        return cls(kept.xyxy, tuple(labels[int(number)] for number in kept.label))


def agreed(first: Objects, second: Objects) -> int:
    """Pairs of one label whose boxes overlap by `MATCH_IOU`, each object in one pair at most, the closest first."""
    if not len(first) or not len(second):
        return 0
    overlap = pairwise_iou(
        np.ascontiguousarray(first.xyxy.T, np.float32), np.ascontiguousarray(second.xyxy.T, np.float32)
    )
    same = np.array(first.labels)[:, None] == np.array(second.labels)[None, :]
    overlap = np.where(same, overlap, 0.0)
    pairs = 0
    while True:
        row, column = np.unravel_index(int(np.argmax(overlap)), overlap.shape)
        if overlap[row, column] < MATCH_IOU:
            return pairs
        pairs += 1
        overlap[row, :] = overlap[:, column] = 0.0
