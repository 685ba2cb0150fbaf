"""The detections of one frame that a tracker may use, in the layouts that it needs."""

from dataclasses import dataclass

import numpy as np

from edge_runtime.config.node import TrackingConfig
from edge_runtime.perception.detections import Detections, FloatArray, IntArray
from edge_runtime.perception.tracking.motion import SMALLEST_SIDE, Array, centres, corners

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
        corners: (4, N) float64 rows x1, y1, x2, y2.
    """

    xyxy: FloatArray
    score: FloatArray
    label: IntArray
    confident: int
    box: Array
    corners: Array

    def __len__(self) -> int:
        return len(self.score)


def usable(detections: Detections, config: TrackingConfig) -> Measured:
    """Drops what must not enter a filter: not finite, no area, beyond any image, or below `config.low`."""
    score = detections.score
    fit = np.logical_and.reduce(np.abs(detections.xyxy) <= _LARGEST_COORDINATE, axis=1)  # False for NaN
    fit &= score >= config.low
    fit &= score <= 1
    high = score >= config.high
    high &= fit
    order = np.concatenate([high.nonzero()[0], (fit ^ high).nonzero()[0]])
    xyxy = detections.xyxy.take(order, axis=0)
    box = centres(xyxy.T.astype(np.float64))
    if len(order) and box[1].min() < SMALLEST_SIDE:
        wide = (box[1].min(axis=0) >= SMALLEST_SIDE).nonzero()[0]
        order, xyxy, box = order.take(wide), xyxy.take(wide, axis=0), box.take(wide, axis=2)
    return Measured(
        xyxy,
        score.take(order),
        detections.label.take(order),
        int(np.count_nonzero(high.take(order))),
        box,
        corners(box),
    )
