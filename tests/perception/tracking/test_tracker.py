"""What a track promises: one id per object through crossing, occlusion and gaps, in measured time."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.perception.detections import Detections, Tracks
from edge_runtime.perception.tracking import Tracker, TrackerSettings

Box = tuple[float, float, float, float]
Seen = tuple[Box, float, int]  # box, score, label

FRAME_NS = 100_000_000


def detections(seen: Iterable[Seen]) -> Detections:
    rows = list(seen)
    return Detections(
        np.array([row[0] for row in rows], np.float32).reshape(-1, 4),
        np.array([row[1] for row in rows], np.float32),
        np.array([row[2] for row in rows], np.int64),
    )


def person(
    x: float, y: float = 100, score: float = 0.9, label: int = 0, size: tuple[float, float] = (30, 80)
) -> Seen:
    return ((x, y, x + size[0], y + size[1]), score, label)


def play(tracker: Tracker, frames: Sequence[Sequence[Seen]], interval_ns: int = FRAME_NS) -> list[Tracks]:
    return [tracker.update(detections(seen), index * interval_ns) for index, seen in enumerate(frames)]


def assert_same(first: Sequence[Tracks], second: Sequence[Tracks]) -> None:
    for left, right in zip(first, second, strict=True):
        for name in ("track_id", "xyxy", "score", "label", "seen"):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


def id_of(tracks: Tracks, x: float) -> int:
    """The id of the seen track whose left edge is nearest to x."""
    left = np.where(tracks.seen, np.abs(tracks.xyxy[:, 0] - x), np.inf)
    return int(tracks.track_id[left.argmin()])


# Beginning


def test_a_track_counts_from_its_second_detection_on_and_ids_begin_at_one() -> None:
    first, second = play(Tracker(), [[person(10)], [person(13)]])
    assert len(first) == 0
    assert second.track_id.tolist() == [1]
    np.testing.assert_allclose(second.xyxy, [[13, 100, 43, 180]])
    assert second.score.tolist() == [np.float32(0.9)]
    assert second.seen.tolist() == [True]


@pytest.mark.parametrize("confirm", [1, 2, 3, 5])
def test_confirm_is_a_number_of_detections(confirm: int) -> None:
    played = play(Tracker(TrackerSettings(confirm=confirm)), [[person(10)]] * 6)
    assert [len(tracks) for tracks in played] == [0] * (confirm - 1) + [1] * (7 - confirm)


def test_a_tentative_track_dies_at_its_first_miss() -> None:
    played = play(Tracker(), [[person(10)], [], [person(10)], [person(10)]])
    assert [len(tracks) for tracks in played] == [0, 0, 0, 1]


@pytest.mark.parametrize(("shift", "confirmed"), [(12, True), (16, False)])
def test_a_tentative_track_is_confirmed_by_overlap(shift: float, *, confirmed: bool) -> None:
    """(30 - s) / (30 + s) times the score of 0.9 must be above 0.3."""
    assert len(play(Tracker(), [[person(100)], [person(100 + shift)]])[-1]) == confirmed


@pytest.mark.parametrize("score", [0.05, 0.3, 0.65])
def test_doubtful_detections_alone_begin_nothing(score: float) -> None:
    assert all(len(tracks) == 0 for tracks in play(Tracker(), [[person(10, score=score)]] * 10))


def test_a_doubtful_detection_keeps_a_track_alive() -> None:
    played = play(
        Tracker(), [[person(10)], [person(12)], *[[person(12 + 2 * k, score=0.2)] for k in range(1, 40)]]
    )
    assert all(tracks.track_id.tolist() == [1] for tracks in played[1:])
    assert all(tracks.seen.all() for tracks in played[1:])
    assert played[-1].score.tolist() == [np.float32(0.2)]


@pytest.mark.parametrize(
    ("score", "shift", "missed", "taken"),
    [
        pytest.param(0.9, 20, 0, True, id="confident, a fifth over"),
        pytest.param(0.9, 26, 0, False, id="confident, hardly over"),
        pytest.param(0.65, 20, 0, True, id="less confident, a fifth over"),
        pytest.param(0.65, 24, 0, False, id="less confident, a ninth over"),
        pytest.param(0.3, 8, 0, True, id="doubtful, more than half over"),
        pytest.param(0.3, 12, 0, False, id="doubtful, less than half over"),
        pytest.param(0.9, 20, 5, True, id="confident, after a loss"),
        pytest.param(0.3, 0, 1, False, id="doubtful, after a loss"),
    ],
)
def test_what_a_track_takes(score: float, shift: float, missed: int, *, taken: bool) -> None:
    """A standing person; the overlap of boxes 30 wide that are shifted by s is (30 - s) / (30 + s)."""
    frames = [[person(100)]] * 20 + [[]] * missed + [[person(100 + shift, score=score)]]
    tracks = play(Tracker(TrackerSettings(coast=3)), frames)[-1]
    assert tracks.track_id.tolist() == [1]
    assert tracks.seen.tolist() == [taken]


def test_of_two_equal_overlaps_the_more_confident_is_taken() -> None:
    frames = [[person(100)]] * 5 + [[person(95, score=0.7), person(105, score=0.95)]]
    tracks = play(Tracker(), frames)[-1]
    np.testing.assert_allclose(tracks.xyxy[:, 0], [105])


def test_below_low_is_not_seen() -> None:
    played = play(Tracker(), [[person(10)], [person(10)], [person(10, score=0.09)]])
    assert played[-1].seen.tolist() == [False]


def test_nothing_at_all() -> None:
    assert all(len(tracks) == 0 for tracks in play(Tracker(), [[]] * 5))


# Identity


def test_two_people_who_cross_keep_their_ids() -> None:
    frames = [[person(100 + 6 * k, y=100), person(400 - 6 * k, y=130)] for k in range(50)]
    played = play(Tracker(), frames)
    for index in (1, 20, 30, 49):
        assert id_of(played[index], 100 + 6 * index) == id_of(played[1], 106)
        assert id_of(played[index], 400 - 6 * index) == id_of(played[1], 394)
    assert {i for tracks in played for i in tracks.track_id.tolist()} == {1, 2}


@pytest.mark.parametrize("hidden", [1, 5, 15, 25])
def test_an_id_survives_an_occlusion_while_walking_on(hidden: int) -> None:
    frames = [[person(50 + 5 * k)] if k < 20 or k >= 20 + hidden else [] for k in range(25 + hidden)]
    played = play(Tracker(), frames)
    assert played[-1].track_id.tolist() == [1]


def test_after_the_lost_time_a_new_id_is_given() -> None:
    frames = [[person(50)]] * 10 + [[]] * 31 + [[person(50)]] * 2
    assert play(Tracker(), frames)[-1].track_id.tolist() == [2]


def test_nobody_inherits_an_id_across_a_long_gap_between_frames() -> None:
    tracker = Tracker()
    play(tracker, [[person(50)]] * 10)
    late = 9 * FRAME_NS + 3_000_000_001
    assert len(tracker.update(detections([person(50)]), late)) == 0
    assert tracker.update(detections([person(50)]), late + FRAME_NS).track_id.tolist() == [2]


def test_within_the_lost_time_a_gap_between_frames_is_bridged_by_motion() -> None:
    tracker = Tracker()
    play(tracker, [[person(50 + 5 * k)] for k in range(10)])  # 50 px/s
    tracks = tracker.update(detections([person(50 + 45 + 50)]), 19 * FRAME_NS)
    assert tracks.track_id.tolist() == [1]
    assert tracks.seen.tolist() == [True]


def test_ids_are_never_given_twice() -> None:
    frames = [[person(50)]] * 3 + [[]] * 40
    given = [play_id for tracks in play(Tracker(), frames * 3) for play_id in tracks.track_id.tolist()]
    assert sorted(set(given)) == [1, 2, 3]
    assert given == sorted(given)


# Labels


def test_a_person_never_takes_the_id_of_a_car() -> None:
    frames = [[person(50, label=2)]] * 5 + [[person(50, label=0)]] * 5
    played = play(Tracker(), frames)
    assert played[4].track_id.tolist() == [1]
    last = {
        int(i): (int(label), bool(seen))
        for i, label, seen in zip(played[-1].track_id, played[-1].label, played[-1].seen, strict=True)
    }
    assert last == {1: (2, False), 2: (0, True)}


def test_overlapping_objects_of_two_labels_are_two_tracks() -> None:
    frames = [[person(50 + k, label=0), person(52 + k, label=1)] for k in range(10)]
    tracks = play(Tracker(), frames)[-1]
    assert tracks.track_id.tolist() == [1, 2]
    assert tracks.label.tolist() == [0, 1]
    np.testing.assert_allclose(tracks.xyxy[:, 0], [59, 61])


def test_one_label_or_another_gives_the_same_tracks() -> None:
    def frames(label: int) -> list[list[Seen]]:
        return [[person(100 + 6 * k, label=label), person(400 - 6 * k, label=label)] for k in range(40)]

    zero, seven = play(Tracker(), frames(0)), play(Tracker(), frames(7))
    for left, right in zip(zero, seven, strict=True):
        np.testing.assert_array_equal(left.track_id, right.track_id)
        np.testing.assert_array_equal(left.xyxy, right.xyxy)


# Coasting


def test_a_missed_track_coasts_for_half_a_second_along_its_way() -> None:
    frames = [[person(50 + 5 * k)] for k in range(10)] + [[]] * 10
    played = play(Tracker(), frames)
    coasting = [tracks for tracks in played[10:] if len(tracks)]
    assert len(coasting) == 5
    assert not any(tracks.seen.any() for tracks in coasting)
    lefts = [float(tracks.xyxy[0, 0]) for tracks in coasting]
    np.testing.assert_allclose(lefts, [100, 105, 110, 115, 120], atol=3)
    assert all(tracks.score.tolist() == [np.float32(0.9)] for tracks in coasting)


@pytest.mark.parametrize(("coast", "expected"), [(0.0, 0), (0.05, 1), (0.3, 3), (2.0, 20), (60.0, 30)])
def test_coast_is_seconds_and_ends_with_the_lost_time(coast: float, expected: int) -> None:
    frames = [[person(50)]] * 10 + [[]] * 40
    played = play(Tracker(TrackerSettings(coast=coast)), frames)
    assert sum(len(tracks) for tracks in played[10:]) == expected


def test_at_one_frame_a_second_one_missed_frame_is_bridged() -> None:
    frames = [[person(50)]] * 4 + [[], [person(50)], [], []]
    played = play(Tracker(), frames, interval_ns=1_000_000_000)
    assert [len(tracks) for tracks in played] == [0, 1, 1, 1, 1, 1, 1, 0]


# Measured time


def test_a_variable_frame_rate_keeps_the_id_of_a_steady_walker() -> None:
    tracker = Tracker()
    rng = np.random.default_rng(3)
    now_ns = 0
    given: set[int] = set()
    for _ in range(60):
        tracks = tracker.update(detections([person(20 + 60 * now_ns / 1e9)]), now_ns)
        given |= set(tracks.track_id.tolist())
        now_ns += int(rng.choice([40, 100, 600])) * 1_000_000
    assert given == {1}


def test_dropped_frames_and_a_low_rate_predict_the_same_place() -> None:
    """With the same detections taken, it does not matter where between them frames without any lay."""

    def walk(times: Sequence[int]) -> Tracks:
        tracker = Tracker()
        for k in range(10):
            tracker.update(detections([person(50 + 5 * k)]), k * FRAME_NS)
        for now_ns in times:
            tracks = tracker.update(detections([]), now_ns)
        return tracks

    often = walk([9 * FRAME_NS + k * 50_000_000 for k in range(1, 9)])
    once = walk([9 * FRAME_NS + 400_000_000])
    np.testing.assert_allclose(often.xyxy, once.xyxy, atol=1e-3)


def test_two_frames_at_one_time_are_accepted() -> None:
    tracker = Tracker()
    tracker.update(detections([person(50)]), 5)
    assert tracker.update(detections([person(50)]), 5).track_id.tolist() == [1]


def test_time_that_goes_back_is_refused_with_what_to_do() -> None:
    tracker = Tracker()
    tracker.update(detections([person(50)]), FRAME_NS)
    with pytest.raises(
        ValueError, match=r"went back by 0\.100 s.*new one when the source begins a new epoch"
    ):
        tracker.update(detections([person(50)]), 0)


# What must not enter

_BAD = [np.nan, np.inf, -np.inf, 1e30, -3e38]


@pytest.mark.parametrize("value", _BAD)
@pytest.mark.parametrize("place", range(4))
def test_broken_boxes_never_enter(value: float, place: int) -> None:
    broken = [50.0, 100.0, 80.0, 180.0]
    broken[place] = value
    x1, y1, x2, y2 = broken
    frames = [[person(50), ((x1, y1, x2, y2), 0.95, 0)]] * 5
    played = play(Tracker(), frames)
    assert [tracks.track_id.tolist() for tracks in played] == [[], [1], [1], [1], [1]]
    assert all(np.isfinite(tracks.xyxy).all() for tracks in played)


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf, -0.5, 1.5])
def test_broken_scores_never_enter(score: float) -> None:
    assert all(len(tracks) == 0 for tracks in play(Tracker(), [[person(50, score=score)]] * 4))


@pytest.mark.parametrize("size", [(0, 80), (30, 0), (-30, 80), (0.01, 80)])
def test_boxes_without_an_area_never_enter(size: tuple[float, float]) -> None:
    assert all(len(tracks) == 0 for tracks in play(Tracker(), [[person(50, size=size)]] * 4))


# Separate trackers, reset, determinism


def walkers(seed: int, frames: int = 40) -> list[list[Seen]]:
    """A restless crowd: people walk, blink, score low, carry one of two labels, and there are false boxes."""
    rng = np.random.default_rng(seed)
    count = 12
    place = rng.uniform(0, 600, (count, 2))
    speed = rng.normal(0, 6, (count, 2))
    played: list[list[Seen]] = []
    for _ in range(frames):
        place += speed
        seen = [
            person(float(x), float(y), float(rng.uniform(0.05, 1)), index % 2)
            for index, (x, y) in enumerate(place)
            if rng.random() < 0.85
        ]
        if rng.random() < 0.3:
            seen.append(person(float(rng.uniform(0, 600)), float(rng.uniform(0, 600)), 0.8))
        order = rng.permutation(len(seen))
        played.append([seen[index] for index in order])
    return played


def test_the_same_input_gives_identical_arrays() -> None:
    frames = walkers(1)
    assert_same(play(Tracker(), frames), play(Tracker(), frames))


def test_two_trackers_share_nothing() -> None:
    left_frames, right_frames = walkers(1), walkers(2)
    left, right = Tracker(), Tracker()
    together = [
        (left.update(detections(a), k * FRAME_NS), right.update(detections(b), k * FRAME_NS))
        for k, (a, b) in enumerate(zip(left_frames, right_frames, strict=True))
    ]
    assert_same([pair[0] for pair in together], play(Tracker(), left_frames))
    assert_same([pair[1] for pair in together], play(Tracker(), right_frames))


def test_reset_is_as_good_as_new() -> None:
    tracker = Tracker()
    play(tracker, walkers(3))
    tracker.reset()
    assert_same(play(tracker, walkers(4)), play(Tracker(), walkers(4)))


def test_the_input_is_left_alone_and_the_output_is_the_callers() -> None:
    tracker = Tracker()
    given = detections([person(50), person(200, score=0.3)])
    copy = given.xyxy.copy(), given.score.copy(), given.label.copy()
    tracker.update(given, 0)
    tracks = tracker.update(given, FRAME_NS)
    tracks.xyxy[:] = -1
    tracks.track_id[:] = 99
    again = tracker.update(given, 2 * FRAME_NS)
    np.testing.assert_array_equal(given.xyxy, copy[0])
    np.testing.assert_array_equal(given.score, copy[1])
    np.testing.assert_array_equal(given.label, copy[2])
    assert again.track_id.tolist() == [1]
    np.testing.assert_allclose(again.xyxy, [[50, 100, 80, 180]])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_what_always_holds(seed: int, confirm: int) -> None:
    config = TrackerSettings(confirm=confirm)
    tracker = Tracker(config)
    rng = np.random.default_rng(seed)
    now_ns, highest, labels = 0, 0, dict[int, int]()
    last_seen: dict[int, int] = {}
    for seen in walkers(seed, frames=25):
        given = detections(seen)
        tracks = tracker.update(given, now_ns)
        ids = tracks.track_id
        assert (np.diff(ids) > 0).all()
        fresh = [i for i in ids.tolist() if i > highest]
        assert fresh == list(range(highest + 1, highest + 1 + len(fresh)))
        highest += len(fresh)
        supported = tracks.xyxy[tracks.seen]
        assert len(np.unique(supported, axis=0)) == len(supported)
        assert_rows_of(supported, given.xyxy)
        assert (tracks.xyxy[:, 2:] > tracks.xyxy[:, :2]).all()
        for index, track_id in enumerate(ids.tolist()):
            assert labels.setdefault(track_id, int(tracks.label[index])) == tracks.label[index]
            if tracks.seen[index]:
                last_seen[track_id] = now_ns
            assert now_ns - last_seen[track_id] <= 1_000_000_000
        now_ns += int(rng.choice([33, 100, 500])) * 1_000_000


def assert_rows_of(part: npt.NDArray[np.float32], whole: npt.NDArray[np.float32]) -> None:
    assert {tuple(row) for row in part.tolist()} <= {tuple(row) for row in whole.tolist()}


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_detections_does_not_matter(seed: int) -> None:
    """Up to the numbering of tracks that begin in the same frame."""
    frames = walkers(seed, frames=20)
    rng = np.random.default_rng(seed)
    shuffled = [[seen[index] for index in rng.permutation(len(seen))] for seen in frames]
    names: dict[int, int] = {}
    for left, right in zip(play(Tracker(), frames), play(Tracker(), shuffled), strict=True):
        assert len(left) == len(right)
        by_place = {tuple(box): int(i) for box, i in zip(right.xyxy.tolist(), right.track_id, strict=True)}
        for box, track_id in zip(left.xyxy.tolist(), left.track_id.tolist(), strict=True):
            assert names.setdefault(track_id, by_place[tuple(box)]) == by_place[tuple(box)]
