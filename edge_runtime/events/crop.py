"""Cuts a crop out of a frame and encodes it as JPEG under a byte cap."""

import math

import cv2
import numpy as np

from edge_runtime.geometry import Float64Array
from edge_runtime.sources.frame import Image

QUALITIES = (88, 70, 45)
"""Tried in turn before the size goes down; below about 40 a JPEG loses what makes a face or a plate."""

MAX_SIDE = 1280
"""A crop is never larger than this: encoding 4K only to throw it away takes tens of milliseconds."""

MIN_SIDE = 16


def cut(image: Image, xyxy: Float64Array, margin: float) -> Image:
    """The part of a frame around a box.

    Args:
        image: (H, W, 3) uint8; privacy masks are already in it.
        xyxy: (4,) px.
        margin: added on each side, as a fraction of the box's size there.

    Returns:
        A view of the image, at least 16 px a side where the frame is that large; a box outside the frame gives
        the nearest part of it.
    """
    x1, y1, x2, y2 = xyxy.tolist()
    left, right = _span(x1, x2, margin, image.shape[1])
    top, bottom = _span(y1, y2, margin, image.shape[0])
    return image[top:bottom, left:right]


def _span(low: float, high: float, margin: float, size: int) -> tuple[int, int]:
    """Integer pixels start, end around low..high, inside 0..size."""
    extra = (high - low) * margin
    start = min(max(math.floor(low - extra), 0), size)
    end = min(max(math.ceil(high + extra), 0), size)
    least = min(MIN_SIDE, size)
    if end - start < least:
        start = min(max(start - (least - (end - start)) // 2, 0), size - least)
        end = start + least
    return start, end


def encode_bounded(crop: Image, max_bytes: int) -> bytes | None:
    """The crop as JPEG of at most `max_bytes`: quality goes down first, then size.

    Args:
        crop: (H, W, 3) uint8, BGR.
        max_bytes: cap.

    Returns:
        None when not even the smallest form fits.
    """
    height, width = crop.shape[:2]
    scale = min(1.0, MAX_SIDE / max(height, width))
    while True:
        size = max(1, round(width * scale)), max(1, round(height * scale))
        scaled = crop if size == (width, height) else cv2.resize(crop, size, interpolation=cv2.INTER_AREA)
        scaled = np.ascontiguousarray(scaled)
        length = 0
        for quality in QUALITIES:
            done, buffer = cv2.imencode(".jpg", scaled, [cv2.IMWRITE_JPEG_QUALITY, quality])
            length = len(buffer) if done else 0
            if done and length <= max_bytes:
                return buffer.tobytes()
            if length > 4 * max_bytes:
                break  # no quality makes up for that
        if max(size) <= MIN_SIDE:
            return None
        scale *= min(0.8, max(0.25, 0.95 * math.sqrt(max_bytes / max(length, 1))))
