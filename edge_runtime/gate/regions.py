"""Redaction by regions: what a model recognises as a face or a person is painted over; the rest stays as it is.

A detector misses some. So it looks with a low threshold, what it finds is painted over with a margin, and where it
finds nothing that is a doubt, not a proof. NaN, infinity, a time-out and an error are failures.
"""

import math
from collections.abc import Collection
from typing import Literal, Protocol

import numpy as np

from edge_runtime.gate.redaction import Pixels, RedactionFailed, WholeBlur, decode, encode
from edge_runtime.perception.detections import Detections

PAINT = 96
"""One gray for every region: nothing of it remains, not even its brightness."""

BLOCK = 16
"""JPEG mixes the pixels of a block of 16: what lies beside a face in its block still tells of the face."""

BLEED = 2
"""Colour is drawn out over the edge of its block when a JPEG is read, by one pixel."""


class Looks(Protocol):
    """Finds things in one picture; `edge_runtime.perception.detector.Detector` is one."""

    def detect(self, image: Pixels, timeout_s: float | None = None) -> Detections:
        """What is in the picture; raises what an inference raises."""
        ...


class RegionRedactor:
    """Paints over what a model finds. Belongs to one thread.

    Args:
        detector: loaded with a low score threshold.
        wanted: label indexes of what must be hidden.
        margin: added around each box, as a fraction of its size.
        nothing_found: `hold` when nothing is found, or `blur` the whole crop.
        timeout_s: one look may take so long.
    """

    def __init__(
        self,
        detector: Looks,
        wanted: Collection[int],
        *,
        margin: float = 0.3,
        nothing_found: Literal["hold", "blur"] = "hold",
        timeout_s: float = 5.0,
    ) -> None:
        self._detector = detector
        self._wanted = np.array(sorted(wanted), np.int64)
        self._margin = margin
        self._nothing_found = nothing_found
        self._timeout_s = timeout_s
        self._blur = WholeBlur()

    def redact(self, jpeg: bytes) -> bytes:
        """The crop with every region painted over, as JPEG.

        Raises:
            RedactionFailed: the model failed, gave a number that is none, or found nothing.
        """
        image = decode(jpeg)
        try:
            found = self._detector.detect(image, self._timeout_s)
        except Exception as error:
            raise RedactionFailed(f"the redaction model failed: {type(error).__name__}") from error
        boxes = self._boxes(found)
        if not len(boxes):
            if self._nothing_found == "blur":
                return self._blur.redact(jpeg)
            raise RedactionFailed("the redaction model found nothing to hide, which proves nothing")
        for box in boxes:
            _paint(image, box, self._margin)
        return encode(image)

    def _boxes(self, found: Detections) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """(N, 4) float64, px: of everything that must be hidden."""
        if found.nonfinite:
            raise RedactionFailed("the redaction model answered with values that are no numbers")
        boxes = np.asarray(found.xyxy, np.float64).reshape(-1, 4)
        if not np.isfinite(boxes).all() or not np.isfinite(found.score).all():
            raise RedactionFailed("the redaction model answered with values that are no numbers")
        return boxes[np.isin(found.label, self._wanted)]


def _paint(image: Pixels, box: np.ndarray[tuple[int, ...], np.dtype[np.float64]], margin: float) -> None:
    x1, y1, x2, y2 = box.tolist()
    left, right = _blocks(x1, x2, margin, image.shape[1])
    top, bottom = _blocks(y1, y2, margin, image.shape[0])
    image[top:bottom, left:right] = PAINT


def _blocks(low: float, high: float, margin: float, size: int) -> tuple[int, int]:
    """Pixels start, end that hold low..high and its margin in whole blocks of the crop's JPEG, inside 0..size."""
    extra = (high - low) * margin
    start, end = low - extra, high + extra
    if not low < high or end <= 0 or start >= size:
        raise RedactionFailed("the redaction model's box has no area in the crop")
    first = math.floor(max(start, 0) / BLOCK) * BLOCK - BLEED
    last = math.ceil(min(end, size) / BLOCK) * BLOCK + BLEED
    return max(first, 0), min(last, size)
