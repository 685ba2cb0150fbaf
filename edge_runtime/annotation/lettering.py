"""Text on images: each string is rendered once to a small tile and copied from then on.

`cv2.putText` with anti-aliasing took 120 us a label here and a copy of its tile 1.4 us; twenty labels would
otherwise have cost more than the tracker.
"""

from functools import lru_cache

import cv2
import numpy as np

from edge_runtime.annotation.palette import Color, readable_on
from edge_runtime.sources.frame import Image

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_SMALLEST, _LARGEST = 9, 30
_LINES_PER_FRAME = 34


def text_pixels(height: int, width: int) -> int:
    """Height of a capital letter for a frame, in pixels: 9 at 176x144, 14 at 640x480, 30 at 1920x1080."""
    return round(min(max(min(height, 0.75 * width) / _LINES_PER_FRAME, _SMALLEST), _LARGEST))


@lru_cache(maxsize=1024)
def text_tile(text: str, pixels: int, color: Color, *, margin: bool = True) -> Image:
    """`text` on a filled `color`, (h, w, 3) uint8, read-only.

    Args:
        text: one line.
        pixels: height of a capital letter.
        color: of the ground; the text is black or white.
        margin: leave room left and right of the text.
    """
    (_, unit), _ = cv2.getTextSize("H", _FONT, 1.0, 1)
    scale = pixels / unit
    thickness = max(1, round(pixels / 12))
    (width, _), _ = cv2.getTextSize(text, _FONT, scale, thickness)
    (_, height), baseline = cv2.getTextSize(
        "Hg", _FONT, scale, thickness
    )  # OpenCV 5 measures each text's own
    pad = max(2, pixels // 4)
    side = pad if margin else 0
    tile = np.empty((height + baseline + 2 * pad, width + 2 * side, 3), np.uint8)
    tile[:] = color
    cv2.putText(tile, text, (side, pad + height), _FONT, scale, readable_on(color), thickness, cv2.LINE_AA)
    tile.flags.writeable = False
    return tile


def write_changing(image: Image, text: str, pixels: int, color: Color) -> int:
    """Writes text that is another one in every frame into the upper left corner, letter by letter.

    A tile for the whole of it would be rendered every time; letters come back.

    Returns:
        The height of the strip.
    """
    left = 0
    height = 0
    for letter in text:
        tile = text_tile(letter, pixels, color, margin=False)
        if left + tile.shape[1] > image.shape[1]:
            break
        paste(image, tile, left, 0)
        left += tile.shape[1]
        height = max(height, tile.shape[0])
    return height


def fit_text(text: str, pixels: int, width: int) -> str:
    """`text`, or as much of its beginning as its tile leaves room for in `width` pixels, ending in `..`."""
    if text_tile(text, pixels, (0, 0, 0)).shape[1] <= width:
        return text
    keep = len(text)
    while keep > 1:
        keep -= max(1, keep // 8)
        shorter = text[:keep].rstrip() + ".."
        if text_tile(shorter, pixels, (0, 0, 0)).shape[1] <= width:
            return shorter
    return ""


def paste(image: Image, tile: Image, left: int, top: int) -> None:
    """Copies `tile` into `image` in place, moved as little as needed to lie inside, cut where it is larger."""
    height, width = image.shape[:2]
    rows, columns = min(tile.shape[0], height), min(tile.shape[1], width)
    left = min(max(left, 0), width - columns)
    top = min(max(top, 0), height - rows)
    image[top : top + rows, left : left + columns] = tile[:rows, :columns]
