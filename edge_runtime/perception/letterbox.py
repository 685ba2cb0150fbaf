"""Letterbox geometry: the integers that a resize really used, and the inverse that consumes them.

The forward pass and the inverse each computing the padding once gave boxes 3 px off for 541k of 3.6M sizes
(ultralytics PR #23967). Here it is computed once and travels with the frame.
"""

from dataclasses import dataclass

import numpy as np

from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.detections import FloatArray


@dataclass(frozen=True, slots=True)
class Letterbox:
    """Where a source image lies inside a model input.

    Attributes:
        source_height, source_width: the frame, in pixels.
        height, width: the model input, in pixels.
        top, left: integer padding before the picture.
        inner_height, inner_width: the resized picture, in pixels.
    """

    source_height: int
    source_width: int
    height: int
    width: int
    top: int
    left: int
    inner_height: int
    inner_width: int

    @property
    def scale_x(self) -> float:
        """Model pixels per source pixel, horizontally, as really applied."""
        return self.inner_width / self.source_width

    @property
    def scale_y(self) -> float:
        """Model pixels per source pixel, vertically, as really applied."""
        return self.inner_height / self.source_height

    def to_source(self, xyxy: FloatArray) -> FloatArray:
        """Boxes (N, 4) in model pixels → boxes in source pixels, clipped to the frame."""
        offset = np.array([self.left, self.top, self.left, self.top], np.float32)
        factor = np.array([1 / self.scale_x, 1 / self.scale_y] * 2, np.float32)
        limit = np.array([self.source_width, self.source_height] * 2, np.float32)
        boxes = (xyxy - offset) * factor
        return np.clip(boxes, 0, limit, out=boxes)

    def to_model(self, xyxy: FloatArray) -> FloatArray:
        """Boxes (N, 4) in source pixels → boxes in model pixels."""
        factor = np.array([self.scale_x, self.scale_y] * 2, np.float32)
        offset = np.array([self.left, self.top, self.left, self.top], np.float32)
        return xyxy * factor + offset


def fit(spec: InputSpec, source_height: int, source_width: int) -> Letterbox:
    """The geometry of a frame of (source_height, source_width) inside the input that `spec` asks for."""
    if spec.resize == "stretch":
        return Letterbox(source_height, source_width, spec.height, spec.width, 0, 0, spec.height, spec.width)
    ratio = min(spec.height / source_height, spec.width / source_width)
    inner_height = min(max(round(source_height * ratio), 1), spec.height)
    inner_width = min(max(round(source_width * ratio), 1), spec.width)
    top = left = 0
    if spec.anchor == "center":
        top, left = (spec.height - inner_height) // 2, (spec.width - inner_width) // 2
    return Letterbox(
        source_height, source_width, spec.height, spec.width, top, left, inner_height, inner_width
    )
