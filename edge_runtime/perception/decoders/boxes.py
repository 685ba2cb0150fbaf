"""Four numbers, probabilities: the small formulas that several heads share."""

from typing import Literal

import numpy as np

from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders.layout import as_float32
from edge_runtime.perception.detections import FloatArray

BoxFormat = Literal["xyxy", "yxyx", "cxcywh"]
Activation = Literal["none", "sigmoid", "softmax"]


def to_xyxy(values: Tensor, form: BoxFormat) -> FloatArray:
    """(N, 4) in `form` → corners x1, y1, x2, y2, float32."""
    numbers = as_float32(values)
    if form == "xyxy":
        return numbers
    if form == "yxyx":
        return numbers[:, [1, 0, 3, 2]]
    half = numbers[:, 2:4] * np.float32(0.5)
    return np.concatenate([numbers[:, :2] - half, numbers[:, :2] + half], 1)


def read_boxes(
    head: HeadSpec, spec: InputSpec, values: Tensor, form: BoxFormat, *, normalized: bool
) -> FloatArray:
    """Boxes as the manifest says they are to be read, or as the family usually writes them → model pixels.

    Args:
        head: of the manifest.
        spec: the model's input, for its size.
        values: (N, 4).
        form: the family's usual format, where the manifest names none.
        normalized: the family's usual unit, where the manifest names none.
    """
    xyxy = to_xyxy(values, head.boxes or form)
    if normalized if head.normalized is None else head.normalized:
        xyxy = xyxy * np.array([spec.width, spec.height] * 2, np.float32)
    return xyxy


def distances_to_xyxy(points: FloatArray, distances: FloatArray) -> FloatArray:
    """(N, 2) anchor points and (N, 4) distances to the left, top, right and bottom side → corners."""
    return np.concatenate([points - distances[:, :2], points + distances[:, 2:]], 1)


def expected_bin(logits: FloatArray) -> FloatArray:
    """Distribution focal loss: the mean of the bin numbers under a softmax over the last axis.

    Generalized Focal Loss, Li et al. 2020, arXiv:2006.04388, section 3.
    """
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    bins = np.arange(logits.shape[-1], dtype=np.float32)
    mean: FloatArray = (weights @ bins) / weights.sum(-1)
    return mean


def sigmoid(values: FloatArray) -> FloatArray:
    """Logistic function in float32; the caller silences overflow, whose result (0) is right."""
    result: FloatArray = np.float32(1) / (np.float32(1) + np.exp(-values))
    return result


def activate(values: Tensor, activation: Activation) -> FloatArray:
    """(N, C) class scores → probabilities."""
    numbers = as_float32(values)
    if activation == "sigmoid":
        return sigmoid(numbers)
    if activation == "softmax":
        weights = np.exp(numbers - numbers.max(1, keepdims=True))
        normalised: FloatArray = weights / weights.sum(1, keepdims=True)
        return normalised
    return numbers


def before_sigmoid(threshold: float) -> float:
    """The logit just below the one that gives `threshold`, so that a prefilter on logits loses nothing."""
    if threshold <= 0:
        return -np.inf
    if threshold >= 1:
        return 15.0  # float32 logits above 17 give exactly 1
    return float(np.log(threshold / (1 - threshold))) - 1e-3
