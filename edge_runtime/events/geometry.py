"""Zones and lines in source pixels, tested against the anchor points of all boxes of a frame at once.

Boundary rule: a polygon is closed, so a point on an edge or a corner is inside. Boxes are clipped to the
frame; with a half-open rule everything standing at the lower edge of the picture would be outside a zone that
covers it. A self-crossing polygon is filled by the even-odd rule.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from edge_runtime.config.base import Point
from edge_runtime.config.rules import Units
from edge_runtime.geometry import Float64Array, to_pixels

BoolArray = npt.NDArray[np.bool_]

EDGE_PX = 1e-3
"""A point this near to an edge lies on it: half a float32 step at 8192 px, the largest frame."""


class Region:
    """A polygon in pixels, prepared for many point tests.

    Args:
        corners: (M, 2) float64 in order, in pixels; the last joins the first.
    """

    def __init__(self, corners: Float64Array) -> None:
        start, end = corners, np.roll(corners, -1, axis=0)
        (dx, dy), (x0, y0) = (end - start).T, start.T
        length = np.hypot(dx, dy)
        # Row i times (x, y, 1): distance from the line of edge i, times its length; negative where a ray to
        # the right would pass the edge.
        self._across = np.stack([dy, -dx, y0 * dx - x0 * dy], axis=1) * np.where(dy > 0, 1.0, -1.0)[:, None]
        self._along = np.stack([dx, dy, -x0 * dx - y0 * dy], axis=1)
        self._start_y, self._end_y = start[:, 1:], end[:, 1:]
        # A corner given twice makes an edge without length, on which every point would lie.
        self._margin = np.where(length > 0, EDGE_PX * length, -1.0)[:, None]
        self._reach = (length**2)[:, None] + self._margin

    def contains(self, points: Float64Array) -> BoolArray:
        """(N,) bool: which homogeneous points (3, N) lie inside or on the boundary."""
        across = self._across @ points  # (M, N)
        y = points[1]
        spans = (y >= self._start_y) != (
            y >= self._end_y
        )  # the edge spans the point's height, one end included
        inside: BoolArray = np.logical_xor.reduce(spans & (across < 0), axis=0)
        near = np.abs(across) <= self._margin
        if np.count_nonzero(near):  # a fifth of the time that any() takes on so small an array
            along = self._along @ points
            inside |= (near & (along >= -self._margin) & (along <= self._reach)).any(axis=0)
        return inside


@lru_cache(maxsize=256)
def lay_out(polygon: tuple[Point, ...], units: Units, width: int, height: int) -> Region:
    """The region of a configured polygon in a frame of this size; rules with the same zone share one."""
    return Region(to_pixels(polygon, units, width, height))


class Segment:
    """A directed line from A to B in pixels.

    Args:
        ends: (2, 2) float64, A then B, in pixels.
    """

    def __init__(self, ends: Float64Array) -> None:
        (ax, ay), (bx, by) = ends.tolist()
        dx, dy = bx - ax, by - ay
        self.length = float(np.hypot(dx, dy))
        self._frame = np.array([[-dy, dx, dy * ax - dx * ay], [dx, dy, -dx * ax - dy * ay]]) / self.length

    def locate(self, points: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Where homogeneous points (3, N) lie relative to the line.

        Returns:
            distance: (N,) px from the infinite line; positive to the right hand of someone who stands at A and
                looks to B on the picture (y points down, so the cross product is positive there).
            along: (N,) px from A towards B of the foot of the perpendicular; 0..length is the segment.
        """
        distance, along = self._frame @ points
        return distance, along

    def spans(self, along: float) -> bool:
        """Whether a place on the infinite line belongs to the segment; both ends do."""
        return -EDGE_PX <= along <= self.length + EDGE_PX
