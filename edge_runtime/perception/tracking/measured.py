"""The detections of one frame that a tracker may use, in the layouts that it needs."""

from dataclasses import dataclass

import numpy as np

from edge_runtime.perception.detections import Detections, FloatArray, IntArray
from edge_runtime.perception.tracking.motion import SMALLEST_SIDE, Array, centres
from edge_runtime.perception.tracking.settings import TrackerSettings

_LARGEST_COORDINATE = 100_000.0
"""Pixels: beyond any image; where the finite but meaningless boxes of a broken model lie."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Usable detections, the confident ones first.

    Attributes:
        xyxy: (N, 4) float32, as the detector gave them.
        score: (N,) float32, at least `low`.
        label: (N,) int64.
        confident: how many score at least `high`; these come first.
        box: (2, 2, N) float64 centres and sizes.
    """

    xyxy: FloatArray
    score: FloatArray
    label: IntArray
    confident: int
    box: Array

    def __len__(self) -> int:
        return len(self.score)


def usable(detections: Detections, settings: TrackerSettings) -> Measured:
    """Drops what must not enter a filter: not finite, no area, beyond any image, or below `settings.low`."""
    xyxy, score, label = detections.xyxy, detections.score, detections.label
    near = np.abs(xyxy) <= _LARGEST_COORDINATE  # False for NaN
    fit = score >= settings.low
    fit &= score <= 1
    if np.count_nonzero(near) < near.size or np.count_nonzero(fit) < fit.size:
        fit &= near.all(axis=1)
        index = fit.nonzero()[0]
        xyxy, score, label = xyxy.take(index, axis=0), score.take(index), label.take(index)
    high = score >= settings.high
    confident = np.count_nonzero(high)
    if np.count_nonzero(high[:confident]) < confident:
        order = np.concatenate([high.nonzero()[0], (~high).nonzero()[0]])
        xyxy, score, label = xyxy.take(order, axis=0), score.take(order), label.take(order)
    box = centres(xyxy.T)
    wide = box[1] >= SMALLEST_SIDE
    if np.count_nonzero(wide) < wide.size:
        index = wide.all(axis=0).nonzero()[0]
        xyxy, score, label = xyxy.take(index, axis=0), score.take(index), label.take(index)
        box = box.take(index, axis=2)
        confident = np.count_nonzero(score >= settings.high)
    return Measured(xyxy, score, label, int(confident), box)
