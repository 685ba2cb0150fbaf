"""Labels, confidence and size: who counts; and who is in a zone."""

import numpy as np
import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.events.filters import Presence, TrackFilter, ZoneWatch
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment
from edge_runtime.perception.detections import Tracks
from tests.rigs.events import LABELS, Seen, rule, tracks


def scene(*rows: Seen, width: int = 100, height: int = 100) -> Scene:
    return Scene(Moment(0, 0, 0, 0, 0, 0), width, height, tracks(*rows))


@pytest.mark.parametrize(
    ("fields", "row", "expected"),
    [
        ({}, Seen(50, 50), True),
        ({}, Seen(50, 50, seen=False), False),
        ({"labels": ("car",)}, Seen(50, 50, label=2), True),
        ({"labels": ("car",)}, Seen(50, 50, label=0), False),
        ({"labels": ("car", "person")}, Seen(50, 50, label=0), True),
        ({"labels": ("car",)}, Seen(50, 50, label=3), False),  # outside the label map
        ({"labels": ("person",)}, Seen(50, 50, label=-1), False),
        ({"labels": ("car",)}, Seen(50, 50, label=-1), False),
        ({"min_confidence": 0.5}, Seen(50, 50, score=0.5), True),
        ({"min_confidence": 0.5}, Seen(50, 50, score=0.49), False),
        ({"min_height": 0.3}, Seen(50, 50, height=30), True),
        ({"min_height": 0.3}, Seen(50, 50, height=29), False),
        ({"max_height": 0.3}, Seen(50, 50, height=30), True),
        ({"max_height": 0.3}, Seen(50, 50, height=31), False),
        ({"min_area": 0.01}, Seen(50, 50, width=10, height=10), True),
        ({"min_area": 0.01}, Seen(50, 50, width=10, height=9), False),
        ({"max_area": 0.01}, Seen(50, 50, width=10, height=11), False),
    ],
)
def test_conditions(fields: dict[str, object], row: Seen, expected: bool) -> None:
    counts = TrackFilter(rule("absence", seconds=1, **fields), LABELS).counts(scene(row))
    assert counts.tolist() == [expected]


def test_sizes_are_fractions_of_the_frame() -> None:
    tall = TrackFilter(rule("absence", seconds=1, min_height=0.3), LABELS)
    assert tall.counts(scene(Seen(50, 50, height=40))).tolist() == [True]
    assert tall.counts(scene(Seen(50, 50, height=40), width=400, height=400)).tolist() == [False]


def test_a_label_that_the_model_lacks_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"rule r: .* no label 'persn'; it has bicycle, car, person"):
        TrackFilter(rule("absence", seconds=1, labels=("persn", "car")), LABELS)


def test_two_classes_of_one_name_both_count() -> None:
    both = TrackFilter(rule("absence", seconds=1, labels=("person",)), ("person", "car", "person"))
    rows = [Seen(50, 50, track=1 + index, label=index) for index in range(3)]
    assert both.counts(scene(*rows)).tolist() == [True, False, True]


def test_rows_without_identity_or_with_broken_boxes_are_left_out() -> None:
    seen = Tracks(
        np.array([-1, 0, 3, 4]),
        np.array([[1, 1, 2, 2], [1, 1, 2, 2], [np.nan, 1, 2, 2], [1, 1, 2, 2]], np.float32),
        np.full(4, 0.9, np.float32),
        np.zeros(4, np.int64),
        np.ones(4, np.bool_),
    )
    view = Scene(Moment(0, 0, 0, 0, 0, 0), 10, 10, seen)
    assert view.ids == [4]
    assert (view.row(4), view.row(3)) == (0, None)


def test_a_zone_is_laid_out_anew_for_another_frame_size() -> None:
    left = ZoneWatch(
        rule("absence", seconds=1, polygon=((0, 0), (0.5, 0), (0.5, 1), (0, 1))),  # type: ignore[arg-type]
        LABELS,
    )
    assert list(left.inside(scene(Seen(60, 50)))) == []
    assert list(left.inside(scene(Seen(60, 50), width=200))) == [1]


class TestPresence:
    ZONE = rule("occupancy", polygon=((0, 0), (50, 0), (50, 100), (0, 100)), units="pixels")

    def test_seen_inside_joins_and_seen_outside_goes(self) -> None:
        presence = Presence(self.ZONE, LABELS)  # type: ignore[arg-type]
        assert presence.update(scene(Seen(10, 50))) == 1
        assert presence.update(scene(Seen(60, 50))) == 0

    def test_coasting_keeps_what_it_was_and_makes_nothing(self) -> None:
        presence = Presence(self.ZONE, LABELS)  # type: ignore[arg-type]
        assert presence.update(scene(Seen(10, 50, seen=False))) == 0
        assert presence.update(scene(Seen(10, 50))) == 1
        assert presence.update(scene(Seen(60, 50, seen=False))) == 1  # predicted outside, not seen there
        assert presence.update(scene()) == 0

    def test_one_that_shrinks_below_the_filter_goes(self) -> None:
        presence = Presence(rule("occupancy", min_height=0.3), LABELS)  # type: ignore[arg-type]
        assert presence.update(scene(Seen(10, 50, height=40))) == 1
        assert presence.update(scene(Seen(10, 50, height=20))) == 0
