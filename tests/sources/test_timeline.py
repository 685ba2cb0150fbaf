"""Bug kind 10: stamps that reset, jump, wrap or are missing; and 24: gaps are counted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.sources.timeline import WRAPS_NS, Stamp, Timeline

MS = 1_000_000
S = 1000 * MS
SIZE = (640, 480)


def run(timeline: Timeline, *frames: tuple[int | None, int]) -> list[Stamp]:
    """(pts in ms, arrival in ms) → stamps."""
    return [timeline.stamp(None if pts is None else pts * MS, at * MS, SIZE) for pts, at in frames]


def test_media_time_is_the_stamp_since_the_first_frame() -> None:
    stamps = run(Timeline(live=True), (5000, 0), (5040, 41), (5640, 640))
    assert stamps == [Stamp(0, 0, 0), Stamp(0, 1, 40 * MS), Stamp(0, 2, 640 * MS)]


@pytest.mark.parametrize("live", [True, False])
def test_a_reset_of_the_stamps_is_a_new_epoch_and_time_goes_on(live: bool) -> None:
    stamps = run(Timeline(live=live), (9000, 0), (9100, 100), (0, 200), (100, 300), (200, 400))
    assert [(s.epoch, s.sequence) for s in stamps] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert [s.media_ns // MS for s in stamps] == [0, 100, 0, 100, 200]


def test_a_small_step_back_is_jitter_and_stands_still() -> None:
    stamps = run(Timeline(live=True), (0, 0), (100, 100), (60, 200), (100, 210), (140, 220))
    assert {s.epoch for s in stamps} == {0}
    assert [s.media_ns // MS for s in stamps] == [0, 100, 100, 100, 140]


def test_gaps_of_a_recording_are_respected_however_fast_it_is_read() -> None:
    stamps = run(Timeline(live=False), (0, 0), (100, 1), (700, 2), (3_600_700, 3))
    assert [s.media_ns // MS for s in stamps] == [0, 100, 700, 3_600_700]
    assert stamps[-1].epoch == 0


def test_a_live_stream_that_leaps_ahead_of_the_clock_begins_anew() -> None:
    stamps = run(Timeline(live=True), (0, 0), (40, 40), (3_600_000, 80), (3_600_040, 120))
    assert [(s.epoch, s.media_ns // MS) for s in stamps] == [(0, 0), (0, 40), (1, 0), (1, 40)]


def test_a_live_stream_that_was_silent_for_long_has_not_leapt() -> None:
    stamps = run(Timeline(live=True), (0, 0), (60_000, 60_000))
    assert stamps[-1] == Stamp(0, 1, 60 * S)


@pytest.mark.parametrize("wrap_ns", WRAPS_NS)
@pytest.mark.parametrize("live", [True, False])
def test_counters_wrap_without_a_new_epoch(wrap_ns: int, live: bool) -> None:
    timeline = Timeline(live=live)
    stamps = [
        timeline.stamp((wrap_ns - 60 * MS + i * 40 * MS) % wrap_ns, i * 40 * MS, SIZE) for i in range(6)
    ]
    assert [s.epoch for s in stamps] == [0] * 6
    assert [s.media_ns // MS for s in stamps] == [0, 40, 80, 120, 160, 200]


def test_a_counter_wraps_again_and_again() -> None:
    wrap, timeline = WRAPS_NS[0], Timeline(live=False)
    step = 9 * S
    count = 3 * wrap // step
    last = [timeline.stamp(i * step % wrap, 0, SIZE) for i in range(count)][-1]
    assert (last.epoch, last.media_ns) == (0, (count - 1) * step)


def test_missing_stamps_of_a_camera_are_measured_on_arrival() -> None:
    stamps = run(Timeline(live=True), (None, 0), (None, 95), (None, 300), (7000, 400), (7050, 450))
    assert [s.media_ns // MS for s in stamps] == [0, 95, 300, 400, 450]


def test_missing_stamps_of_a_recording_take_its_nominal_rate() -> None:
    stamps = run(
        Timeline(live=False, interval_ns=100 * MS), (None, 0), (None, 1), (1000, 2), (None, 3), (1200, 4)
    )
    assert [s.media_ns // MS for s in stamps] == [0, 100, 200, 300, 400]


def test_reopening_begins_an_epoch_only_where_the_last_one_held_a_frame() -> None:
    timeline = Timeline(live=True)
    timeline.begin()
    assert run(timeline, (0, 0)) == [Stamp(0, 0, 0)]
    timeline.begin()
    timeline.begin()
    assert run(timeline, (500, 900)) == [Stamp(1, 0, 0)]


def test_a_change_of_size_begins_an_epoch() -> None:
    timeline = Timeline(live=True)
    first = timeline.stamp(0, 0, (640, 480))
    second = timeline.stamp(40 * MS, 40 * MS, (1280, 720))
    assert (first.epoch, second) == (0, Stamp(1, 0, 0))


@settings(max_examples=60, deadline=None)
@given(
    st.booleans(),
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(10**15), 10**15)),
            st.integers(0, 10**11),
            st.sampled_from([(2, 2), (4, 4)]),
        ),
        max_size=60,
    ),
)
def test_whatever_the_stamps_time_never_runs_back_within_an_epoch(
    live: bool, frames: list[tuple[int | None, int, tuple[int, int]]]
) -> None:
    timeline = Timeline(live=live)
    now, before = 0, None
    for pts, wait, size in frames:
        now += wait
        stamp = timeline.stamp(pts, now, size)
        if before is None or stamp.epoch != before.epoch:
            assert (stamp.sequence, stamp.media_ns) == (0, 0)
            assert before is None or stamp.epoch == before.epoch + 1
        else:
            assert stamp.sequence == before.sequence + 1
            assert stamp.media_ns >= before.media_ns
        before = stamp
