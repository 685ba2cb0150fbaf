"""Polygons, lines and anchor points in source pixels, for all boxes of a frame at once.

Boundary rule: a polygon is closed, so a point on an edge or a corner is inside. Boxes are clipped to the
frame; with a half-open rule everything standing at the lower edge of the picture would be outside a zone that
covers it. A self-crossing polygon is filled by the even-odd rule.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edge_runtime.config.base import Point
from edge_runtime.config.rules import Anchor, Units

Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

EDGE_PX = 1e-3
"""A point this near to an edge lies on it: half a float32 step at 8192 px, the largest frame."""


def to_pixels(points: Sequence[Point], units: Units, width: int, height: int) -> Float64Array:
    """Points (M, 2) in pixels; `units` alone says what the numbers mean, never their size."""
    pixels = np.asarray(points, np.float64).reshape(-1, 2)
    return pixels * (width, height) if units == "relative" else pixels


def anchor_points(xyxy: Float64Array, anchor: Anchor) -> tuple[Float64Array, Float64Array]:
    """The point (x, y) of each box (N, 4) that stands for the object, each of shape (N,)."""
    x1, y1, x2, y2 = xyxy.T
    if anchor == "bottom_left":
        return x1, y2
    if anchor == "bottom_right":
        return x2, y2
    middle = (x1 + x2) * 0.5
    if anchor == "center":
        return middle, (y1 + y2) * 0.5
    return middle, (y1 if anchor == "top_center" else y2)


class Region:
    """A polygon in pixels, prepared for many point tests.

    Args:
        points: (M, 2) float64 corners in order, in pixels; the last joins the first.
    """

    def __init__(self, points: Float64Array) -> None:
        start, end = points, np.roll(points, -1, axis=0)
        self._x0, self._y0 = start[:, :1], start[:, 1:]
        self._y1 = end[:, 1:]
        self._dx, self._dy = end[:, :1] - self._x0, self._y1 - self._y0
        self._descends = self._dy > 0
        length = np.hypot(self._dx, self._dy)
        # A corner given twice makes an edge without length, on which every point would lie.
        self._margin = np.where(length > 0, EDGE_PX * length, -1.0)
        self._reach = length**2 + self._margin

    def contains(self, x: Float64Array, y: Float64Array) -> BoolArray:
        """(N,) bool: which points lie inside or on the boundary."""
        rel_x, rel_y = x - self._x0, y - self._y0  # (M, N)
        cross = rel_x * self._dy - rel_y * self._dx
        # A ray to the right passes an edge that spans the point's height, one end included, and lies beyond it.
        spans = (rel_y >= 0) != (y >= self._y1)
        passed = spans & ((cross < 0) == self._descends)
        inside: BoolArray = np.logical_xor.reduce(passed, axis=0)
        near = np.abs(cross) <= self._margin  # the distance to the edge's line, times its length
        if near.any():
            along = rel_x * self._dx + rel_y * self._dy
            inside |= (near & (along >= -self._margin) & (along <= self._reach)).any(axis=0)
        return inside


class Segment:
    """A directed line from A to B in pixels.

    Args:
        points: (2, 2) float64, A then B, in pixels.
    """

    def __init__(self, points: Float64Array) -> None:
        (self._ax, self._ay), (bx, by) = points.tolist()
        self._dx, self._dy = bx - self._ax, by - self._ay
        self.length = float(np.hypot(self._dx, self._dy))

    def locate(self, x: Float64Array, y: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Where points (N,) lie relative to the line.

        Returns:
            distance: (N,) px from the infinite line; positive to the right hand of someone who stands at A and
                looks to B on the picture (y points down, so the cross product is positive there).
            along: (N,) px from A towards B of the foot of the perpendicular; 0..length is the segment.
        """
        rel_x, rel_y = x - self._ax, y - self._ay
        distance = (self._dx * rel_y - self._dy * rel_x) / self.length
        along = (self._dx * rel_x + self._dy * rel_y) / self.length
        return distance, along

    def spans(self, along: float) -> bool:
        """Whether a place on the infinite line belongs to the segment; both ends do."""
        return -EDGE_PX <= along <= self.length + EDGE_PX
