"""Pixels change where something is drawn, and only there."""

import numpy as np
import pytest

from edge_runtime.annotation import Annotator
from edge_runtime.annotation.draw import draw_box
from edge_runtime.annotation.palette import CALM, severity_color, track_color
from edge_runtime.annotation.shapes import anchor_pixels
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.rules import AbsenceRule, Anchor, LineRule, OccupancyRule, ZoneRule
from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import Severity
from tests.annotation.conftest import MakeEvent, MakeFrame, MakeTracks

BAY = ((0.4, 0.4), (0.9, 0.4), (0.9, 0.9), (0.4, 0.9))
ZONE = ZoneRule(kind="zone", name="bay", polygon=BAY, on=("enter", "leave"))
FULL = OccupancyRule(kind="occupancy", name="full", polygon=BAY)


def has_color(image: np.ndarray, color: tuple[int, int, int]) -> bool:
    return bool((image == np.array(color, np.uint8)).all(axis=-1).any())


@pytest.mark.parametrize(("height", "width"), [(144, 176), (480, 640), (1080, 1920), (241, 427)])
def test_a_box_is_drawn_on_its_edges_and_the_frame_stays_as_it_was(
    make_frame: MakeFrame, make_tracks: MakeTracks, height: int, width: int
) -> None:
    frame = make_frame(height, width)
    before = frame.image.copy()
    x1, y1, x2, y2 = 0.5 * width, 0.5 * height, 0.8 * width, 0.9 * height
    image = Annotator(["person"]).draw(frame, make_tracks((x1, y1, x2, y2)))
    assert (frame.image == before).all()
    assert image.shape == frame.image.shape
    color = track_color(1)
    assert tuple(image[round(y2), round((x1 + x2) / 2)]) == color
    assert tuple(image[round((y1 + y2) / 2), round(x2)]) == color
    assert (image[round((y1 + y2) / 2), round((x1 + x2) / 2)] == 128).all()
    assert (image[round(y2) + 4 :, :] == 128).all()
    assert has_color(image[: round(y1)], color), "the label stands above the box"


@pytest.mark.parametrize(("height", "width"), [(16, 16), (8, 640), (640, 8)])
def test_a_frame_smaller_than_its_text_is_no_error(
    make_frame: MakeFrame, make_tracks: MakeTracks, make_event: MakeEvent, height: int, width: int
) -> None:
    annotator = Annotator(["person"], [ZONE, FULL])
    image = annotator.draw(make_frame(height, width), make_tracks((1, 1, 6, 6)), [make_event()], "notice")
    assert image.shape == (height, width, 3)


def test_a_label_that_has_no_room_above_stands_inside_its_box(
    make_frame: MakeFrame, make_tracks: MakeTracks
) -> None:
    image = Annotator(["person"]).draw(make_frame(), make_tracks((150, 0, 300, 200)))
    label = image[2:12, 152:160]
    assert has_color(label, track_color(1))


@pytest.mark.parametrize(
    "box",
    [(-50, -50, 400, 300), (-10, 100, 5, 120), (310, 230, 500, 500), (100, 100, 100, 100), (5, 5, 2, 2)],
)
def test_boxes_that_reach_out_of_the_frame_or_are_empty_are_no_error(
    make_frame: MakeFrame, make_tracks: MakeTracks, box: tuple[float, float, float, float]
) -> None:
    image = Annotator(["person"]).draw(make_frame(), make_tracks(box))
    assert (image != 128).any()


def test_outlines_are_as_thick_as_asked() -> None:
    image = np.full((40, 40, 3), 128, np.uint8)
    draw_box(image, (10, 10, 30, 30), (1, 2, 3), 3)
    assert [tuple(image[20, x]) == (1, 2, 3) for x in range(9, 15)] == [False, True, True, True, False, False]


def test_a_coasting_track_is_drawn_thinner(make_frame: MakeFrame, make_tracks: MakeTracks) -> None:
    box = (200.0, 100.0, 300.0, 200.0)
    seen = Annotator(["person"]).draw(make_frame(), make_tracks(box))
    coasting = Annotator(["person"]).draw(make_frame(), make_tracks(box, seen=False))
    color = np.array(track_color(1), np.uint8)
    assert (coasting == color).all(axis=-1).sum() < (seen == color).all(axis=-1).sum()


def test_a_label_beyond_the_label_map_is_still_drawn(make_frame: MakeFrame, make_tracks: MakeTracks) -> None:
    image = Annotator([]).draw(make_frame(), make_tracks((100, 100, 200, 200)))
    assert has_color(image, track_color(1))


def test_a_zone_is_calm_then_lights_up_for_a_moment(make_frame: MakeFrame, make_event: MakeEvent) -> None:
    annotator = Annotator(["person"], [ZONE], linger_s=1.0)
    lit = severity_color(Severity.WARNING)
    before = annotator.draw(make_frame(media_s=0.0), Tracks.empty())
    assert has_color(before, CALM)
    assert not has_color(before, lit)
    event = make_event(rule="bay", direction="enter")
    during = annotator.draw(make_frame(media_s=0.5), Tracks.empty(), [event])
    assert has_color(during[:200], lit)
    inside = during[130, 200].astype(int)
    assert inside[2] > 128, "tinted"
    after = annotator.draw(make_frame(media_s=1.6), Tracks.empty())
    assert not has_color(after, lit)


def test_a_lasting_event_keeps_its_zone_lit_until_it_ends(
    make_frame: MakeFrame, make_event: MakeEvent
) -> None:
    annotator = Annotator(["person"], [ZONE, FULL], linger_s=0.1)
    lit = severity_color(Severity.CRITICAL)
    event = make_event(rule="full", severity="critical")
    annotator.draw(make_frame(media_s=0.0), Tracks.empty(), [event])
    assert has_color(annotator.draw(make_frame(media_s=50.0), Tracks.empty()), lit)
    other_epoch = annotator.draw(make_frame(media_s=0.0, epoch=1), Tracks.empty())
    assert has_color(other_epoch, lit), "a reconnect does not end it"
    ended = make_event(rule="full", severity="critical", state="ended", revision=2)
    annotator.draw(make_frame(media_s=1.0, epoch=1), Tracks.empty(), [ended])
    assert not has_color(annotator.draw(make_frame(media_s=2.0, epoch=1), Tracks.empty()), lit)


def test_the_track_of_an_event_stands_out(
    make_frame: MakeFrame, make_tracks: MakeTracks, make_event: MakeEvent
) -> None:
    annotator = Annotator(["person"], [FULL], linger_s=0.1)
    tracks = make_tracks((10, 100, 60, 150), (200, 20, 260, 80))
    annotator.draw(make_frame(), tracks, [make_event(rule="full", track=2, severity="critical")])
    image = annotator.draw(make_frame(media_s=9.0), tracks)
    assert tuple(image[125, 10]) == track_color(1)
    assert tuple(image[50, 200]) == severity_color(Severity.CRITICAL)


@pytest.mark.parametrize(
    ("anchor", "point"),
    [
        ("bottom_center", (150, 180)),
        ("center", (150, 150)),
        ("top_center", (150, 120)),
        ("bottom_left", (100, 180)),
        ("bottom_right", (200, 180)),
    ],
)
def test_the_point_that_a_rule_tests_is_marked(
    make_frame: MakeFrame, make_tracks: MakeTracks, anchor: Anchor, point: tuple[int, int]
) -> None:
    rule = ZoneRule(kind="zone", name="far", polygon=((0, 0), (0.1, 0), (0.1, 0.1)), anchor=anchor)
    tracks = make_tracks((100, 120, 200, 180))
    marked = Annotator(["person"], [rule]).draw(make_frame(), tracks)
    plain = Annotator(["person"], [FULL.model_copy(update={"polygon": None})]).draw(make_frame(), tracks)
    changed = np.argwhere((marked != plain).any(axis=-1)[60:])[:, ::-1] + (0, 60)
    assert np.abs(changed - point).max() <= 4
    assert anchor_pixels(tracks.xyxy, anchor) == [point]


def test_a_line_is_drawn_with_an_arrow_to_the_right_hand(make_frame: MakeFrame) -> None:
    """Standing at A and looking to B, `left_to_right` goes to the right hand: image y points down."""
    upwards = LineRule(kind="line", name="door", line=((160, 200), (160, 40)), units="pixels")
    image = Annotator(["person"], [upwards]).draw(make_frame(), Tracks.empty())
    assert tuple(image[60, 160]) == CALM
    assert has_color(image[110:130, 165:180], CALM)
    assert not has_color(image[110:130, 140:155], CALM)


def test_pixel_units_are_pixels_even_when_they_look_relative(make_frame: MakeFrame) -> None:
    tiny = ZoneRule(kind="zone", name="z", polygon=((0, 0), (1, 0), (1, 1)), units="pixels")
    whole = ZoneRule(kind="zone", name="z", polygon=((0, 0), (1, 0), (1, 1)))
    small = Annotator([], [tiny]).draw(make_frame(), Tracks.empty())
    large = Annotator([], [whole]).draw(make_frame(), Tracks.empty())
    assert not has_color(small[150:], CALM)
    assert has_color(large[150:], CALM)


def test_a_rule_about_the_whole_frame_has_no_shape(make_frame: MakeFrame) -> None:
    rule = AbsenceRule(kind="absence", name="nobody", seconds=3)
    with_rule = Annotator([], [rule]).draw(make_frame(), Tracks.empty())
    without = Annotator([]).draw(make_frame(), Tracks.empty())
    assert (with_rule == without).all()


def test_privacy_masks_are_black(make_frame: MakeFrame) -> None:
    mask = PrivacyMask(polygon=((0.5, 0.5), (1, 0.5), (1, 1), (0.5, 1)))
    image = Annotator([], masks=[mask]).draw(make_frame(value=200), Tracks.empty())
    assert not image[125:238, 165:315].any()
    assert image[60:110, 200:].all()


def test_shapes_follow_a_change_of_size(make_frame: MakeFrame) -> None:
    annotator = Annotator([], [ZONE])
    annotator.draw(make_frame(240, 320), Tracks.empty())
    image = annotator.draw(make_frame(480, 640, epoch=1), Tracks.empty())
    assert has_color(image[425:440, 260:570], CALM)


def test_no_answer_is_not_drawn_as_an_empty_scene(make_frame: MakeFrame) -> None:
    annotator = Annotator([])
    empty = annotator.draw(make_frame(), Tracks.empty())
    unanswered = annotator.draw(make_frame(), None)
    late = annotator.draw(make_frame(), None, notice="inference took longer than 1 s")
    dark = annotator.draw(make_frame(dark=True), None)
    frozen = annotator.draw(make_frame(frozen=True), Tracks.empty())
    pictures = [empty, unanswered, late, dark, frozen]
    assert len({picture.tobytes() for picture in pictures}) == 5


def test_trails_follow_moving_tracks_and_fade(make_frame: MakeFrame, make_tracks: MakeTracks) -> None:
    annotator = Annotator(["person"], trail_s=2.0)
    for step in range(5):
        x = 40.0 * step
        image = annotator.draw(make_frame(media_s=0.1 * step), make_tracks((x, 100, x + 20, 160)))
    assert tuple(image[160, 60]) == track_color(1)
    later = annotator.draw(make_frame(media_s=10.0), Tracks.empty())
    assert not has_color(later, track_color(1))
    annotator.draw(make_frame(media_s=10.1), make_tracks((0, 100, 20, 160)))
    new_epoch = annotator.draw(make_frame(media_s=0.0, epoch=1), make_tracks((200, 100, 220, 160)))
    assert (new_epoch[160, 60:150] == 128).all()


def test_a_long_text_is_cut_to_the_frame(make_frame: MakeFrame, make_event: MakeEvent) -> None:
    annotator = Annotator([])
    image = annotator.draw(make_frame(144, 176), None, [make_event(rule="r" * 60)], notice="because " * 40)
    assert image.shape == (144, 176, 3)
