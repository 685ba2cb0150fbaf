"""Detections as rows of numbers that people can read and that give the same single-precision values back."""

from collections.abc import Sequence

import numpy as np

from edge_runtime.perception.detections import Detections, FloatArray

Row = list[float | int]
"""x1, y1, x2, y2, score, number of the label."""

_COLUMNS = 6


def rows_of(detections: Detections) -> list[Row]:
    """One row a detection, in their order."""
    values = np.concatenate([detections.xyxy, detections.score[:, None]], axis=1)
    labels = detections.label.tolist()
    return [[*row, label] for row, label in zip(_short(values), labels, strict=True)]


def detections_of(rows: object, nonfinite: int = 0) -> Detections:
    """The detections of rows.

    Raises:
        ValueError: they are no such rows.
    """
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
        raise ValueError("boxes are no list")
    if not rows:
        return Detections.empty(nonfinite)
    try:
        values = np.array(rows, np.float64)
    except (TypeError, ValueError):
        raise ValueError("boxes are no rows of numbers") from None
    if values.ndim != 2 or values.shape[1] != _COLUMNS or not np.isfinite(values).all():
        raise ValueError("boxes are no rows of six numbers")
    numbers = values.astype(np.float32)
    return Detections(
        np.ascontiguousarray(numbers[:, :4]),
        np.ascontiguousarray(numbers[:, 4]),
        values[:, 5].astype(np.int64),
        nonfinite,
    )


def _short(values: FloatArray) -> list[list[float]]:
    """Each value with as few digits as tell it from its neighbours: half as many as in double precision."""
    texts = values.astype("U32")
    short = texts.astype(np.float64)
    exact = short.astype(np.float32) == values
    found: list[list[float]] = np.where(exact, short, values.astype(np.float64)).tolist()
    return found
