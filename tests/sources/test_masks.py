import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.config.node import PrivacyMask
from edge_runtime.sources.masks import PrivacyMasks, covered_pixels
from edge_runtime.sources.reader import SourceRefused

Corner = tuple[float, float]


def winding(x: float, y: float, polygon: tuple[Corner, ...]) -> int:
    """The textbook winding number of a point, one at a time."""
    total = 0
    for (x1, y1), (x2, y2) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        side = (x2 - x1) * (y - y1) - (x - x1) * (y2 - y1)
        if y1 <= y < y2 and side > 0:
            total += 1
        elif y2 <= y < y1 and side < 0:
            total -= 1
    return total


def test_a_rectangle_on_pixel_borders_covers_exactly_its_pixels() -> None:
    covered = covered_pixels(((2, 1), (6, 1), (6, 4), (2, 4)), 10, 8)
    expected = np.zeros((8, 10), np.bool_)
    expected[1:4, 2:6] = True
    assert np.array_equal(covered, expected)


def test_a_pixel_that_is_touched_is_covered() -> None:
    covered = covered_pixels(((1.9, 0.9), (6.1, 0.9), (6.1, 4.1), (1.9, 4.1)), 10, 8)
    expected = np.zeros((8, 10), np.bool_)
    expected[0:5, 1:7] = True
    assert np.array_equal(covered, expected)


def test_a_sliver_thinner_than_a_pixel_covers_what_it_crosses() -> None:
    covered = covered_pixels(((0.4, 0.4), (9.6, 7.4), (9.6, 7.5)), 10, 8)
    assert covered[0, 0]
    assert covered[7, 9]
    assert all(covered[:, column].any() for column in range(10))


def test_outside_the_frame_is_cut_off() -> None:
    covered = covered_pixels(((-50, -50), (5, -50), (5, 100), (-50, 100)), 10, 8)
    expected = np.zeros((8, 10), np.bool_)
    expected[:, :5] = True
    assert np.array_equal(covered, expected)


def test_a_bow_tie_crossed_twice_is_covered_by_winding() -> None:
    twice = ((1, 1), (8, 1), (8, 6), (1, 6), (1, 1), (8, 1), (8, 6), (1, 6))
    assert covered_pixels(twice, 10, 8)[2:5, 2:7].all()


coordinate = st.floats(-3, 13, allow_nan=False).map(lambda value: round(value, 2))
polygons = st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=7).map(tuple)


@settings(deadline=None, max_examples=50)
@given(polygons)
def test_every_touched_pixel_is_covered_and_no_other(polygon: tuple[Corner, ...]) -> None:
    width, height, fine = 10, 8, 4
    covered = covered_pixels(polygon, width, height)
    offsets = (np.arange(fine) + 0.5) / fine
    for row in range(height):
        for column in range(width):
            if any(winding(column + dx, row + dy, polygon) for dx in offsets for dy in offsets):
                assert covered[row, column], "a point of the polygon shows through"
            elif covered[row, column]:
                assert touches_edge(polygon, column, row), "a pixel far from the polygon is covered"


def touches_edge(polygon: tuple[Corner, ...], column: int, row: int) -> bool:
    """Whether an edge passes within a hair of the pixel: clip it to the pixel's box (Liang-Barsky)."""
    hair = 1e-6
    box = (column - hair, row - hair, column + 1 + hair, row + 1 + hair)
    for (x1, y1), (x2, y2) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        enter, leave = 0.0, 1.0
        for delta, low, high, start in ((x2 - x1, box[0], box[2], x1), (y2 - y1, box[1], box[3], y1)):
            if delta == 0:
                if not low <= start <= high:
                    leave = -1.0
                continue
            near, far = sorted(((low - start) / delta, (high - start) / delta))
            enter, leave = max(enter, near), min(leave, far)
        if enter <= leave:
            return True
    return False


def test_pixels_under_the_mask_are_black_and_all_others_untouched() -> None:
    mask = PrivacyMask(polygon=((0.1, 0.2), (0.9, 0.25), (0.5, 0.95)))
    image = np.random.default_rng(0).integers(1, 256, (241, 427, 3), dtype=np.uint8)
    before = image.copy()
    covered = PrivacyMasks([mask]).apply(image)
    assert covered is not None
    assert covered.any()
    assert not image[covered].any()
    assert np.array_equal(image[~covered], before[~covered])
    assert np.array_equal(
        covered, covered_pixels(tuple((x * 427, y * 241) for x, y in mask.polygon), 427, 241)
    )


def test_units_and_sizes_are_followed() -> None:
    masks = PrivacyMasks(
        [
            PrivacyMask(polygon=((0, 0), (0.5, 0), (0.5, 1), (0, 1))),
            PrivacyMask(polygon=((90, 10), (100, 10), (100, 20), (90, 20)), units="pixels"),
        ]
    )
    for width in (200, 100, 200):
        image = np.full((40, width, 3), 255, np.uint8)
        masks.apply(image)
        expected = np.full((40, width, 3), 255, np.uint8)
        expected[:, : width // 2] = 0
        expected[10:20, 90:100] = 0
        assert np.array_equal(image, expected)


def test_no_mask_touches_nothing() -> None:
    image = np.full((4, 4, 3), 9, np.uint8)
    assert PrivacyMasks([]).apply(image) is None
    assert (image == 9).all()


@pytest.mark.parametrize("units", ["relative", "pixels"])
def test_a_mask_that_hides_nothing_refuses_the_source(units: str) -> None:
    masks = PrivacyMasks(
        [PrivacyMask.model_validate({"polygon": [(70, 70), (90, 70), (90, 90)], "units": units})]
    )
    with pytest.raises(SourceRefused, match=r"masks\[0\] covers no pixel of the 64x48 frames"):
        masks.apply(np.zeros((48, 64, 3), np.uint8))
