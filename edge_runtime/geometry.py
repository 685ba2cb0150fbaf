"""Where configured points and the anchors of boxes lie in a frame: the same for masks, rules and drawings."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edge_runtime.config.base import Point
from edge_runtime.config.rules import Anchor, Units

Float64Array = npt.NDArray[np.float64]


def to_pixels(points: Sequence[Point], units: Units, width: int, height: int) -> Float64Array:
    """Points (M, 2) in pixels; `units` alone says what the numbers mean, never their size."""
    pixels = np.asarray(points, np.float64).reshape(-1, 2)
    return pixels * (width, height) if units == "relative" else pixels


def anchor_points(xyxy: Float64Array, anchor: Anchor) -> Float64Array:
    """The points that stand for the objects in boxes (N, 4).

    Returns:
        (3, N) homogeneous: rows x, y and 1, so that a line or an edge is one row of a matrix product.
    """
    x1, y1, x2, y2 = xyxy.T
    points = np.ones((3, len(xyxy)))
    points[0] = x1 if anchor == "bottom_left" else x2 if anchor == "bottom_right" else (x1 + x2) * 0.5
    points[1] = y1 if anchor == "top_center" else (y1 + y2) * 0.5 if anchor == "center" else y2
    return points
