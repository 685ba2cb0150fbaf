"""Crops: what is cut out, and how it is made to fit."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.events.crop import MAX_SIDE, MIN_SIDE, cut, encode_bounded
from edge_runtime.sources.frame import Image


def numbered(height: int, width: int) -> Image:
    """Every pixel says where it is."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x % 256, y % 256, np.zeros_like(x)], axis=2).astype(np.uint8)


@pytest.mark.parametrize(
    ("box", "margin", "expected"),
    [
        ((20, 30, 60, 80), 0.0, (20, 30, 60, 80)),
        ((20, 30, 60, 80), 0.5, (0, 5, 80, 105)),
        ((20.4, 30.6, 60.2, 80.1), 0.0, (20, 30, 61, 81)),
        ((0, 0, 40, 40), 0.5, (0, 0, 60, 60)),  # what is outside is cut off
        ((180, 80, 200, 120), 0.5, (170, 60, 200, 120)),
        ((50, 50, 50, 50), 0.1, (42, 42, 58, 58)),  # a box without an area
        ((-30, -30, -10, -10), 0.0, (0, 0, 16, 16)),  # outside the frame
        ((500, 500, 600, 600), 0.0, (184, 104, 200, 120)),
        ((0, 0, 200, 120), 2.0, (0, 0, 200, 120)),
    ],
)
def test_cut(box: tuple[float, ...], margin: float, expected: tuple[int, ...]) -> None:
    crop = cut(numbered(120, 200), np.array(box, np.float64), margin)
    x1, y1, x2, y2 = expected
    assert crop.shape[:2] == (y2 - y1, x2 - x1)
    assert crop[0, 0, :2].tolist() == [x1, y1]


@given(
    height=st.integers(1, 60),
    width=st.integers(1, 60),
    box=st.tuples(*[st.floats(-100, 200)] * 4),
    margin=st.floats(0, 2),
)
def test_a_crop_is_never_empty_nor_outside(
    height: int, width: int, box: tuple[float, float, float, float], margin: float
) -> None:
    x1, y1, x2, y2 = box
    corners = np.array([min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)])
    crop = cut(numbered(height, width), corners, margin)
    assert min(crop.shape[:2]) >= 1
    assert crop.shape[0] >= min(MIN_SIDE, height)
    assert crop.shape[1] >= min(MIN_SIDE, width)


def decode(data: bytes) -> Image:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image.astype(np.uint8, copy=False)


def noise(height: int, width: int) -> Image:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def test_a_small_quiet_crop_keeps_its_size() -> None:
    data = encode_bounded(numbered(60, 80), 65_536)
    assert data is not None
    assert decode(data).shape == (60, 80, 3)


def test_quality_goes_down_before_size() -> None:
    picture = noise(100, 100)
    best = encode_bounded(picture, 1 << 20)
    assert best is not None
    smaller = encode_bounded(picture, len(best) - 1)
    assert smaller is not None
    assert len(smaller) < len(best)
    assert decode(smaller).shape == (100, 100, 3)
    tiny = encode_bounded(picture, 2048)
    assert tiny is not None
    assert len(tiny) <= 2048
    assert decode(tiny).shape[0] < 100


def test_a_crop_of_a_large_frame_is_made_smaller() -> None:
    data = encode_bounded(numbered(2160, 3840), 4 << 20)
    assert data is not None
    assert decode(data).shape[1] == MAX_SIDE


@settings(max_examples=25, deadline=None)
@given(height=st.integers(1, 400), width=st.integers(1, 400), cap=st.integers(2048, 30_000))
def test_the_worst_picture_fits_any_cap_that_the_configuration_allows(
    height: int, width: int, cap: int
) -> None:
    data = encode_bounded(noise(height, width), cap)
    assert data is not None
    assert len(data) <= cap
    assert min(decode(data).shape[:2]) >= 1


def test_a_cap_below_any_jpeg_gives_nothing() -> None:
    assert encode_bounded(noise(64, 64), 100) is None
