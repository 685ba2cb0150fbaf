"""Privacy masks: polygons that are black before anything else sees the picture.

A mask covers every pixel that its polygon touches, not only those whose centre is inside: what must not be
seen must not be seen at the rim either. Self-intersecting polygons cover by non-zero winding, which never
covers less than even-odd. The pixels are found once per frame size; applying them is one pass of `and`.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edge_runtime.config.base import Point
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.rules import Polygon
from edge_runtime.geometry import to_pixels
from edge_runtime.sources.frame import Image
from edge_runtime.sources.reader import SourceRefused

BoolMask = npt.NDArray[np.bool_]


def covered_pixels(polygon: Polygon, width: int, height: int) -> BoolMask:
    """The pixels that a polygon touches.

    Args:
        polygon: corners in pixels; pixel (column i, row j) spans [i, i+1) x [j, j+1).
        width: of the frame, pixels.
        height: of the frame, pixels.

    Returns:
        (height, width), True where the polygon and the pixel overlap.
    """
    covered = _centres_inside(polygon, width, height)
    for start, end in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        _cover_edge(covered, start, end)
    return covered


def _centres_inside(polygon: Polygon, width: int, height: int) -> BoolMask:
    """Pixels whose centre has a non-zero winding number, scan line by scan line."""
    winding = np.zeros((height, width + 1), dtype=np.int32)
    centres = np.arange(height) + 0.5
    for (x1, y1), (x2, y2) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        if y1 == y2:
            continue
        low, high = min(y1, y2), max(y1, y2)
        rows = np.nonzero((centres >= low) & (centres < high))[0]
        x = x1 + (centres[rows] - y1) * ((x2 - x1) / (y2 - y1))
        # The first pixel whose centre lies right of the edge; all pixels after it gain the edge's direction.
        first = np.clip(np.ceil(x - 0.5), 0, width).astype(np.int64)
        np.add.at(winding, (rows, first), 1 if y2 > y1 else -1)
    return np.asarray(np.cumsum(winding, axis=1)[:, :width] != 0)


def _cover_edge(covered: BoolMask, start: Point, end: Point) -> None:
    """Mark the pixels whose inside the segment from `start` to `end` crosses; their borders do not count."""
    (x1, y1), (x2, y2) = sorted((start, end), key=lambda point: point[1])
    height = covered.shape[0]
    rows = np.arange(max(math.floor(y1), 0), min(math.ceil(y2), height))
    if y2 > y1:
        slope = (x2 - x1) / (y2 - y1)
        ends = x1 + (np.clip(rows, y1, y2) - y1) * slope, x1 + (np.clip(rows + 1, y1, y2) - y1) * slope
    else:
        ends = np.full(rows.size, x1), np.full(rows.size, x2)
    first = np.floor(np.minimum(*ends)).astype(np.int64)
    last = np.ceil(np.maximum(*ends)).astype(np.int64)
    for row, begin, stop in zip(rows, first, last, strict=True):
        covered[row, max(begin, 0) : max(stop, 0)] = True


class PrivacyMasks:
    """Blackens the masks of one camera in its pictures, in place.

    Raises:
        SourceRefused: by `apply`, where a mask covers no pixel of the frame: its units or numbers are wrong,
            and showing what it was to hide is worse than showing nothing.
    """

    def __init__(self, masks: Sequence[PrivacyMask]) -> None:
        self._masks = tuple(masks)
        self._size: tuple[int, int] | None = None
        self._covered: BoolMask | None = None
        self._region: tuple[slice, slice] | None = None
        self._keep: Image | None = None

    def apply(self, image: Image) -> BoolMask | None:
        """Blacken the masks in `image`, (H, W, 3) uint8, and return the covered pixels, (H, W), or None."""
        if not self._masks:
            return None
        size = (image.shape[1], image.shape[0])
        if size != self._size:
            self._prepare(*size)
        if self._region is not None and self._keep is not None:
            view = image[self._region]
            np.bitwise_and(view, self._keep, out=view)
        return self._covered

    def _prepare(self, width: int, height: int) -> None:
        covered = np.zeros((height, width), dtype=np.bool_)
        for number, mask in enumerate(self._masks):
            polygon = tuple((x, y) for x, y in to_pixels(mask.polygon, mask.units, width, height).tolist())
            pixels = covered_pixels(polygon, width, height)
            if not pixels.any():
                raise SourceRefused(
                    f"masks[{number}] covers no pixel of the {width}x{height} frames; its corners are in "
                    f"{mask.units} units: give them in the frame after rotation"
                )
            covered |= pixels
        rows, columns = np.nonzero(covered.any(axis=1))[0], np.nonzero(covered.any(axis=0))[0]
        self._region = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
        inside = covered[self._region]
        self._keep = np.repeat(np.where(inside, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
        self._covered = covered
        self._size = (width, height)
