"""Polygons, lines and anchors against exact arithmetic, corners and edges first."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.config.rules import Anchor, Units
from edge_runtime.events.geometry import Region, Segment
from edge_runtime.geometry import Float64Array, anchor_points, to_pixels

SQUARE = ((10, 10), (30, 10), (30, 30), (10, 30))
# An L whose inner corner is at (20, 20): concave.
BRACKET = ((10, 10), (30, 10), (30, 20), (20, 20), (20, 40), (10, 40))
COMB = (
    (0, 0),
    (10, 0),
    (10, 10),
    (8, 10),
    (8, 2),
    (6, 2),
    (6, 10),
    (4, 10),
    (4, 2),
    (2, 2),
    (2, 10),
    (0, 10),
)

coordinates = st.integers(0, 100)
points = st.tuples(coordinates, coordinates)


def homogeneous(*places: tuple[float, float]) -> Float64Array:
    points: Float64Array = np.array([(x, y, 1) for x, y in places], np.float64).reshape(-1, 3).T
    return points


def inside(polygon: object, *places: tuple[float, float]) -> list[bool]:
    return list(Region(np.array(polygon, np.float64)).contains(homogeneous(*places)).tolist())


@pytest.mark.parametrize(
    ("polygon", "place", "expected"),
    [
        (SQUARE, (20, 20), True),
        (SQUARE, (10, 10), True),  # corners
        (SQUARE, (30, 30), True),
        (SQUARE, (10, 30), True),
        (SQUARE, (20, 10), True),  # edges, each side
        (SQUARE, (20, 30), True),
        (SQUARE, (10, 20), True),
        (SQUARE, (30, 20), True),
        (SQUARE, (30.01, 20), False),
        (SQUARE, (9.99, 20), False),
        (SQUARE, (20, 9.99), False),
        (SQUARE, (20, 30.01), False),
        (SQUARE, (40, 10), False),  # on the extension of an edge
        (SQUARE, (0, 30), False),
        (BRACKET, (15, 35), True),
        (BRACKET, (25, 30), False),  # in the notch
        (BRACKET, (20, 20), True),  # the inner corner belongs to it
        (BRACKET, (21, 20.5), False),
        (BRACKET, (25, 20), True),
        (COMB, (3, 5), False),  # between the teeth
        (COMB, (5, 5), True),
        (COMB, (5, 10), True),
        (COMB, (7, 10), False),
        (((0, 0), (10, 10), (10, 0), (0, 10)), (1, 5), True),  # a bow tie: even-odd
        (((0, 0), (10, 10), (10, 0), (0, 10)), (5, 1), False),
    ],
)
def test_boundary_belongs_to_the_polygon(
    polygon: tuple[tuple[float, float], ...], place: tuple[float, float], expected: bool
) -> None:
    assert inside(polygon, place) == [expected]
    assert inside(polygon[::-1], place) == [expected]


def test_many_points_at_once_and_none() -> None:
    assert inside(SQUARE, (20, 20), (0, 0), (30, 30)) == [True, False, True]
    assert Region(np.array(SQUARE, np.float64)).contains(homogeneous()).shape == (0,)


def test_a_repeated_corner_changes_nothing() -> None:
    assert inside((*SQUARE, SQUARE[0]), (20, 20), (10, 10), (5, 5)) == [True, True, False]


def reference(polygon: list[tuple[int, int]], px: int, py: int) -> bool:
    """Even-odd in exact arithmetic, the boundary included."""
    odd = False
    for (ax, ay), (bx, by) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        cross = (bx - ax) * (py - ay) - (by - ay) * (px - ax)
        if cross == 0 and min(ax, bx) <= px <= max(ax, bx) and min(ay, by) <= py <= max(ay, by):
            return True
        if (ay > py) != (by > py) and px < Fraction((bx - ax) * (py - ay), by - ay) + ax:
            odd = not odd
    return odd


polygons = st.lists(points, min_size=3, max_size=9).filter(lambda corners: len(set(corners)) > 1)


@given(polygon=polygons, places=st.lists(points, min_size=1, max_size=20))
def test_agrees_with_exact_arithmetic(polygon: list[tuple[int, int]], places: list[tuple[int, int]]) -> None:
    assert inside(polygon, *places) == [reference(polygon, *place) for place in places]


@given(
    polygon=polygons,
    width=st.integers(16, 8192),
    height=st.integers(16, 8192),
)
def test_corners_survive_relative_units_and_float32(
    polygon: list[tuple[int, int]], width: int, height: int
) -> None:
    relative = [(x / 100, y / 100) for x, y in polygon]
    region = Region(to_pixels(relative, "relative", width, height))
    corners = np.array([(x / 100 * width, y / 100 * height) for x, y in polygon], np.float32)
    assert region.contains(homogeneous(*corners.tolist())).all()


@pytest.mark.parametrize(
    ("units", "expected"), [("relative", [[768, 288], [0.0, 576]]), ("pixels", [[1, 0.5], [0, 1]])]
)
def test_units_are_told_by_the_field_alone(units: Units, expected: list[list[float]]) -> None:
    assert to_pixels(((1, 0.5), (0, 1)), units, 768, 576).tolist() == expected


def test_a_tiny_relative_number_is_not_mistaken_for_pixels() -> None:
    assert to_pixels(((1e-7, 1.0),), "relative", 1000, 1000)[0, 0] == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("anchor", "expected"),
    [
        ("bottom_center", (20, 50)),
        ("center", (20, 35)),
        ("top_center", (20, 20)),
        ("bottom_left", (10, 50)),
        ("bottom_right", (30, 50)),
    ],
)
def test_anchors(anchor: Anchor, expected: tuple[float, float]) -> None:
    points = anchor_points(np.array([[10, 20, 30, 50], [0, 0, 2, 2]], np.float64), anchor)
    assert points.shape == (3, 2)
    assert points[:, 0].tolist() == [*expected, 1]


class TestSegment:
    def test_the_right_hand_of_someone_walking_from_a_to_b_is_positive(self) -> None:
        up = Segment(np.array([(50, 100), (50, 0)], np.float64))  # walking up the picture
        distance, along = up.locate(homogeneous((80, 40), (20, 40)))
        assert distance.tolist() == [30, -30]
        assert along.tolist() == [60, 60]

    @pytest.mark.parametrize(
        ("along", "expected"), [(0, True), (10, True), (-0.5, False), (10.5, False), (5, True)]
    )
    def test_both_ends_belong_to_it(self, along: float, expected: bool) -> None:
        assert Segment(np.array([(0, 0), (10, 0)], np.float64)).spans(along) is expected

    @given(a=points, b=points, place=points)
    def test_turning_it_round_changes_the_side_and_nothing_else(
        self, a: tuple[int, int], b: tuple[int, int], place: tuple[int, int]
    ) -> None:
        if a == b:
            return
        point = homogeneous(place)
        there, back = Segment(np.array([a, b], np.float64)), Segment(np.array([b, a], np.float64))
        (distance, along), (mirrored, remaining) = there.locate(point), back.locate(point)
        assert distance[0] == pytest.approx(-mirrored[0], abs=1e-9)
        assert along[0] == pytest.approx(there.length - remaining[0], abs=1e-9)
        assert distance[0] ** 2 + along[0] ** 2 == pytest.approx(
            (place[0] - a[0]) ** 2 + (place[1] - a[1]) ** 2, abs=1e-6
        )
