"""Which cells are worth decoding, and what is left once they are.

Of 8400 cells some twenty matter. The prefilters here are cheap and exact in one direction: they never lose a
cell that the exact test would keep, and a NaN counts as kept, so that it is dropped and counted later instead
of comparing False and vanishing (an engine that overflows in half precision gives NaN and no error).
"""

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.base import Candidates
from edge_runtime.perception.detections import FloatArray, IntArray

_PROBABILITY_LIMIT = 1.01
"""Quantised outputs may exceed 1 a little; more means that the scores are logits."""


def not_below(values: Tensor, threshold: float) -> IntArray:
    """Indices of a 1-D array whose value may be at least `threshold` or NaN; never misses one."""
    if values.dtype == np.float16:
        return _halves_not_below(values, threshold)
    return np.flatnonzero(~(values < threshold))


def rows_not_below(scores: Tensor, threshold: float) -> IntArray:
    """Rows of (N, C) `scores` that may hold a value of at least `threshold` or a NaN; never misses one."""
    if scores.shape[1] == 1:
        return not_below(scores[:, 0], threshold)
    if scores.dtype == np.float16:
        return _halves_not_below(scores, threshold)
    return np.flatnonzero(~(scores.max(1) < threshold))


def _halves_not_below(values: Tensor, threshold: float) -> IntArray:
    """The same for half precision, by bit patterns, which order like the numbers they stand for.

    numpy converts halves in software: 6.7 ms for 84x8400 against 0.06 ms. Negative numbers have larger patterns
    than all positive ones and NaN larger than infinity, so both are let through for the exact test.
    """
    if threshold <= 0:
        return np.arange(len(values))
    patterns = values.view(np.uint16)
    # The half nearest to the threshold: where it lies above, no half lies between the two.
    limit = np.float16(threshold).view(np.uint16)
    return np.flatnonzero((patterns if values.ndim == 1 else patterns.max(1)) >= limit)


def best_class(scores: FloatArray) -> tuple[FloatArray, IntArray]:
    """Highest score and its column per row of (N, C); a NaN is the highest."""
    label = scores.argmax(1)
    return scores[np.arange(len(label)), label], label


def finish(
    head: HeadSpec,
    xyxy: FloatArray,
    score: FloatArray,
    label: IntArray,
    threshold: float,
) -> Candidates:
    """Apply the exact threshold, then drop and count what is not finite.

    Args:
        head: of the manifest.
        xyxy: (N, 4) in model pixels.
        score: (N,); may hold NaN.
        label: (N,) index into the label map.
        threshold: least score.

    Raises:
        DecodeError: scores are no probabilities.
    """
    kept = np.flatnonzero(~(score < threshold))
    if len(kept) < len(score):
        xyxy, score, label = xyxy[kept], score[kept], label[kept]
    nonfinite = 0
    # One sum tells whether anything is not finite; only then is it worth finding out what.
    if not np.isfinite(xyxy.sum() + score.sum()):
        finite = np.isfinite(xyxy).all(1) & np.isfinite(score)
        nonfinite = int(len(finite) - np.count_nonzero(finite))
        xyxy, score, label = xyxy[finite], score[finite], label[finite]
    if len(score) and score.max() > _PROBABILITY_LIMIT:
        raise DecodeError(
            f"{head.family}: scores reach {score.max():.3g}, so they are no probabilities yet: "
            "set head.activation to 'sigmoid' or 'softmax'"
        )
    return Candidates(
        np.ascontiguousarray(xyxy, np.float32),
        np.minimum(score, np.float32(1)).astype(np.float32, copy=False),
        label.astype(np.int64, copy=False),
        nonfinite,
    )


def class_ids_to_labels(head: HeadSpec, ids: Tensor, score: FloatArray, labels: int) -> IntArray:
    """Ids as the model gives them → indices into the label map.

    Args:
        head: of the manifest.
        ids: (N,) integers or whole floats.
        score: (N,); set to NaN in place where the id is not finite, so that `finish` counts it.
        labels: size of the label map.

    Raises:
        DecodeError: an id has no label. A shifted or shorter label map would rename what is seen.
    """
    if ids.dtype.kind == "f":
        broken = ~np.isfinite(ids)
        if broken.any():
            score[broken] = np.nan
            ids = np.where(broken, head.first_class_id, ids)
        ids = np.rint(ids)
    label = ids.astype(np.int64) - head.first_class_id
    wrong = (label < 0) | (label >= labels)
    if wrong.any():
        given = int(ids[wrong][0])
        raise DecodeError(
            f"{head.family}: the model gave class id {given}, but the {labels} labels start at id "
            f"{head.first_class_id}: the label map or first_class_id is wrong"
        )
    return label
