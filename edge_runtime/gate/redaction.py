"""Redaction: what is left of a crop that may leave only redacted. Whatever goes wrong or is in doubt is a failure.

A redacted crop keeps the class of the crop it was made from. It is encoded anew from pixels, so that nothing which
a file may carry beside them (comments, thumbnails, places) can survive.
"""

from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from edge_runtime.errors import EdgeRuntimeError

Pixels = npt.NDArray[np.uint8]

MAX_PIXELS = 16_000_000
"""A crop is at most 1280 pixels wide; what claims more is not ours, and would take memory by the gigabyte."""

CELLS = 4
"""Cells of the longer side that a blurred crop keeps. Faces have been told apart in mosaics of 14 x 14
(McPherson et al. 2016, arXiv:1609.00408); a face that fills the crop is 4 x 4 here."""

LEVELS = 16
"""Brightness levels of a cell and channel. With `CELLS`, at most 4 * 4 * 3 * 4 = 192 bits of a picture remain."""

CELL_PIXELS = 64
_WITHOUT_LENGTH = frozenset((0x00, 0x01, *range(0xD0, 0xDA)))
_QUALITY = 80


class RedactionFailed(EdgeRuntimeError):
    """A crop cannot be redacted without doubt; the event that it belongs to is held."""


class Redactor(Protocol):
    """Makes a crop that may leave out of one that may not."""

    def redact(self, jpeg: bytes) -> bytes:
        """The redacted crop as JPEG.

        Raises:
            RedactionFailed: it cannot be made, or it is in doubt whether it hides everything.
        """
        ...


def redacted(redactor: Redactor, jpeg: bytes) -> bytes:
    """What a redactor makes of a crop, whatever goes wrong in it.

    Raises:
        RedactionFailed: it failed in any way, gave nothing, or gave the crop as it was.
    """
    try:
        result = redactor.redact(jpeg)
    except RedactionFailed:
        raise
    except Exception as error:
        raise RedactionFailed(f"the redactor failed: {type(error).__name__}") from error
    if not result or result == jpeg:
        raise RedactionFailed("the redactor gave nothing, or the crop as it was")
    return result


class WholeBlur:
    """Leaves a few coarse cells of colour of the whole crop: where it was bright, and of which colour.

    The result is made from the cells alone. Two crops with the same cells give the same bytes, so nothing else of
    them can be recovered.
    """

    def redact(self, jpeg: bytes) -> bytes:
        """The redacted crop as JPEG.

        Raises:
            RedactionFailed: the crop cannot be decoded.
        """
        return encode(enlarge(coarse(decode(jpeg))))


def coarse(image: Pixels) -> Pixels:
    """The crop in at most `CELLS` cells a side and `LEVELS` levels.

    Args:
        image: (H, W, 3) uint8, BGR.

    Returns:
        (h, w, 3) uint8, each value the middle of its level.
    """
    height, width = image.shape[:2]
    longer = max(height, width)
    size = max(1, round(CELLS * width / longer)), max(1, round(CELLS * height / longer))
    means = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    step = 256 // LEVELS
    levels: Pixels = (means // step * step + step // 2).astype(np.uint8)
    return levels.reshape(size[1], size[0], 3)


def enlarge(cells: Pixels) -> Pixels:
    """The cells as a soft picture of `CELL_PIXELS` pixels a cell."""
    size = cells.shape[1] * CELL_PIXELS, cells.shape[0] * CELL_PIXELS
    soft: Pixels = cv2.resize(cells, size, interpolation=cv2.INTER_LINEAR).astype(np.uint8)
    return soft


def decode(jpeg: bytes) -> Pixels:
    """The pixels of a crop.

    Returns:
        (H, W, 3) uint8, BGR.

    Raises:
        RedactionFailed: it is no JPEG, is damaged, or claims more than `MAX_PIXELS`.
    """
    size = jpeg_size(jpeg)
    if size is None or not 0 < size[0] * size[1] <= MAX_PIXELS:
        raise RedactionFailed("the crop is no JPEG of a size that a crop can have")
    try:
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        image = None
    if image is None:
        raise RedactionFailed("the crop cannot be decoded")
    return image.astype(np.uint8, copy=False)


def encode(image: Pixels) -> bytes:
    """A picture as JPEG.

    Raises:
        RedactionFailed: it cannot be encoded.
    """
    try:
        done, buffer = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    except cv2.error:
        done = False
    if not done:
        raise RedactionFailed("the redacted crop cannot be encoded")
    return buffer.tobytes()


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Width and height that a JPEG's frame header states, or None (ITU-T T.81, B.2.2)."""
    if data[:2] != b"\xff\xd8":
        return None
    position = 2
    while position + 9 <= len(data):
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:  # fill bytes may stand before a marker
            position += 1
            continue
        if marker in _WITHOUT_LENGTH:
            return (
                None  # none belongs here, and a decoder may pass over it and find another frame than we would
            )
        # SOF0 to SOF15, without the tables DHT, JPG and DAC that lie between them
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(data[position + 5 : position + 7], "big")
            return int.from_bytes(data[position + 7 : position + 9], "big"), height
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return None
