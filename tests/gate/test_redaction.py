"""Redaction: nothing but a few coarse colours is left of a crop, and whatever is in doubt fails."""

import struct
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.gate.redaction import (
    CELLS,
    LEVELS,
    MAX_PIXELS,
    RedactionFailed,
    WholeBlur,
    coarse,
    decode,
    encode,
    enlarge,
    jpeg_size,
)
from edge_runtime.gate.regions import PAINT, RegionRedactor
from edge_runtime.perception.detections import Detections
from tests.rigs.gate import jpeg


def _image(seed: int, width: int = 128, height: int = 128) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@given(st.integers(0, 2**32 - 1), st.integers(8, 400), st.integers(8, 400))
@settings(max_examples=60)
def test_at_most_192_bits_of_a_picture_remain(seed: int, width: int, height: int) -> None:
    cells = coarse(_image(seed, width, height))
    assert max(cells.shape[:2]) <= CELLS
    assert set(np.unique(cells)) <= set(range(8, 256, 256 // LEVELS))
    assert cells.size * 4 <= 192


def test_the_result_is_made_from_the_cells_alone() -> None:
    rng = np.random.default_rng(5)
    base = np.full((128, 128, 3), 104, np.uint8)
    # Two pictures that share no detail: noise whose mean is the same in every cell, and a flat one.
    noise = rng.integers(1, 60, (64, 128, 3), np.int16)
    waves = base.astype(np.int16)
    waves[0::2] += noise
    waves[1::2] -= noise
    detailed = waves.astype(np.uint8)
    assert not np.array_equal(detailed, base)
    assert np.array_equal(coarse(detailed), coarse(base))
    assert np.array_equal(enlarge(coarse(detailed)), enlarge(coarse(base)))


def test_a_written_word_and_a_face_like_pattern_cannot_be_told_from_their_mirror() -> None:
    first, second = np.full((256, 256, 3), 128, np.uint8), np.full((256, 256, 3), 128, np.uint8)
    cv2.putText(first, "BADGE 4711", (20, 140), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (30, 30, 30), 2)
    cv2.putText(second, "BADGE 4177", (20, 140), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (30, 30, 30), 2)
    assert encode(enlarge(coarse(first))) == encode(enlarge(coarse(second)))


def test_what_a_file_carries_beside_its_pixels_does_not_survive() -> None:
    plain = jpeg()
    comment = b"CANARY-in-a-comment"
    segment = b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment
    carrying = plain[:2] + segment + plain[2:]
    assert decode(carrying).shape == decode(plain).shape
    redacted = WholeBlur().redact(carrying)
    assert b"CANARY" not in redacted
    assert redacted == WholeBlur().redact(plain)


def _hidden() -> bytes:
    """A frame of 30,000 x 30,000 behind a marker without a length, and a small one where a naive reader lands."""
    huge = b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, 30_000, 30_000, 3) + bytes(9)
    small = b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, 64, 64, 3) + bytes(9)
    start = b"\xff\xd8\xff\x01" + huge
    length = int.from_bytes(start[4:6], "big")  # what would be taken for the marker's length
    return start + bytes(4 + length - len(start)) + small


HIDDEN = _hidden()


def test_a_frame_that_hides_is_not_looked_past() -> None:
    assert jpeg_size(HIDDEN) is None


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_a_crop_is_read_as_its_pixels_lie_whatever_its_exif_says(orientation: int) -> None:
    plain = jpeg(width=120, height=80)
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + entry + bytes(4)
    turned = plain[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + plain[2:]
    assert np.array_equal(decode(turned), decode(plain))
    assert WholeBlur().redact(turned) == WholeBlur().redact(plain)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8",
        b"no jpeg at all",
        jpeg()[:40],
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8" + b"\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03" + bytes(30),  # 65535 x 65535
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 10,
        b"\xff\xd8" + b"\xff\xe0\x00\x00" * 10_000,
        b"\xff\xd8" + b"\xff" * 10_000,
        HIDDEN,
    ],
)
def test_what_is_no_crop_fails(data: bytes) -> None:
    with pytest.raises(RedactionFailed):
        WholeBlur().redact(data)


@given(st.binary(max_size=300))
def test_the_header_reader_bears_anything(data: bytes) -> None:
    size = jpeg_size(b"\xff\xd8" + data)
    assert size is None or min(size) >= 0


def test_the_header_reader_finds_the_size() -> None:
    assert jpeg_size(jpeg(width=120, height=80)) == (120, 80)
    assert MAX_PIXELS > 1280 * 1280


class Seer:
    """Answers with what it was given, or raises it."""

    def __init__(self, answer: Detections | Exception) -> None:
        self._answer = answer

    def detect(self, image: Any, timeout_s: float | None = None) -> Detections:
        assert timeout_s is not None
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def found(*boxes: tuple[float, float, float, float], label: int = 0, nonfinite: int = 0) -> Detections:
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.full(len(boxes), 0.5, np.float32),
        np.full(len(boxes), label, np.int64),
        nonfinite,
    )


def test_regions_are_painted_over_with_a_margin() -> None:
    redacted = decode(RegionRedactor(Seer(found((40, 20, 60, 40))), [0], margin=0.5).redact(jpeg()))
    assert np.abs(redacted[:, 20:76].astype(int) - PAINT).max() <= 1
    assert redacted[:, 84:].std() > 20  # the rest is as it was


def test_two_crops_that_differ_only_within_the_regions_give_the_same_bytes() -> None:
    image = _image(1)
    other = image.copy()
    other[33:55, 30:50] = 255 - other[33:55, 30:50]
    redactor = RegionRedactor(Seer(found((30, 33, 50, 55))), [0], margin=0.0)
    for quality in (30, 70, 88, 100):
        assert len({redactor.redact(_as_jpeg(picture, quality)) for picture in (image, other)}) == 1


def _as_jpeg(image: Any, quality: int) -> bytes:
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert done
    return bytes(data.tobytes())


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("the model broke"),
        TimeoutError("too slow"),
        found(),
        found((10, 10, 20, 20), label=5),  # something else than what must be hidden
        found((10, 10, 20, 20), nonfinite=1),
        found((float("nan"), 10, 20, 20)),
        found((10, 10, float("inf"), 20)),
        found((300, 300, 320, 320)),  # outside the crop
        Detections(np.zeros((1, 4), np.float32), np.array([np.nan], np.float32), np.zeros(1, np.int64)),
    ],
)
def test_failure_doubt_and_numbers_that_are_none_fail(answer: Detections | Exception) -> None:
    with pytest.raises(RedactionFailed):
        RegionRedactor(Seer(answer), [0]).redact(jpeg())


def test_where_nothing_is_found_the_whole_crop_can_be_blurred_instead() -> None:
    redacted = RegionRedactor(Seer(found()), [0], nothing_found="blur").redact(jpeg())
    assert redacted == WholeBlur().redact(jpeg())
