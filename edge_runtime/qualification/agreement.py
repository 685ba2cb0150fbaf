"""How far a device's outputs are from the recorded ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.detections import Detections
from edge_runtime.qualification.golden import Sample
from edge_runtime.qualification.recognition import overlap

Precision = Literal["fp32", "fp16", "int8"]

PRECISIONS: Final[dict[str, Precision]] = {
    "none": "fp32",
    "fp16": "fp16",
    "int8-dynamic": "int8",
    "int8-qdq": "int8",
}
"""In which weights compute, by the manifest's `quantisation`."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What still counts as the same.

    Attributes:
        atol, rtol: a value agrees when it differs by at most `atol + rtol |recorded|`.
        outliers: share of values that may disagree; rounding flips single quantised steps.
        score: detections may differ by this much in score.
        overlap: intersection over union that a counterpart must have.
    """

    atol: float
    rtol: float
    outliers: float
    score: float
    overlap: float


TOLERANCES: Final[dict[Precision, Tolerance]] = {
    "fp32": Tolerance(1e-3, 1e-3, 0.001, 0.01, 0.95),
    "fp16": Tolerance(2e-2, 2e-2, 0.01, 0.05, 0.9),
    # Dynamic quantisation rounds differently with and without 8-bit dot products (VNNI, SDOT).
    "int8": Tolerance(5e-2, 5e-2, 0.05, 0.15, 0.75),
}
"""Defaults that an import writes into the manifest (atol, rtol) and that a check uses (the rest)."""


def disagreement(recorded: Sample, live: Tensor, *, atol: float, rtol: float) -> float:
    """Share of the recorded values that a live tensor of the same shape misses; not finite is a miss.

    Args:
        recorded: by the author.
        live: measured here, of the recorded shape.
        atol: a value agrees when it differs by at most `atol + rtol |recorded|`.
        rtol: see `atol`.
    """
    wanted = recorded.values.astype(np.float64)
    got = recorded.of(live).astype(np.float64)
    with np.errstate(invalid="ignore"):
        agrees = np.abs(got - wanted) <= atol + rtol * np.abs(wanted)
    return float(1 - agrees.mean()) if agrees.size else 0.0


def unmatched(recorded: Detections, live: Detections, tolerance: Tolerance) -> Sequence[int]:
    """Positions of recorded detections that have no live counterpart.

    Args:
        recorded: as the author found them.
        live: found at a threshold lower by `tolerance.score`, so that a score just below it is no difference.
        tolerance: what still counts as the same.
    """
    missing = []
    for place in range(len(recorded)):
        x1, y1, x2, y2 = (float(side) for side in recorded.xyxy[place])
        near = overlap(live.xyxy, (x1, y1, x2, y2)) >= tolerance.overlap
        same = live.label == recorded.label[place]
        close = np.abs(live.score - recorded.score[place]) <= tolerance.score
        if not (same & near & close).any():
            missing.append(place)
    return missing
