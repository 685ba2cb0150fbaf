"""One clock across epochs that never runs backwards and stands still while nobody watches."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.events.timeline import Moment, Timeline

S = NS_PER_S


def advance(timeline: Timeline, epoch: int, sequence: int, media_s: float, capture_s: float) -> Moment:
    moment = timeline.advance(
        epoch=epoch, sequence=sequence, capture_ns=round(capture_s * S), media_ns=round(media_s * S)
    )
    assert moment is not None
    return moment


def test_within_an_epoch_media_time_counts_not_arrival() -> None:
    timeline = Timeline()
    advance(timeline, 0, 0, 0, 100)
    moment = advance(timeline, 0, 7, 5, 100.2)  # a file read faster than it plays
    assert (moment.observed_ns, moment.measured_ns, moment.run) == (5 * S, 5 * S, 0)


def test_a_new_epoch_is_bridged_by_capture_time_and_not_observed() -> None:
    timeline = Timeline()
    advance(timeline, 0, 0, 500, 100)
    moment = advance(timeline, 1, 0, 0, 103)  # its media time begins again
    assert (moment.observed_ns, moment.measured_ns, moment.run) == (0, 3 * S, 1)
    assert advance(timeline, 1, 1, 1, 104).observed_ns == S


def test_an_outage_is_measured_and_not_observed() -> None:
    timeline = Timeline()
    advance(timeline, 0, 0, 0, 100)
    advance(timeline, 0, 1, 1, 101)
    timeline.pause()
    back = advance(timeline, 0, 2, 11, 111)
    assert (back.observed_ns, back.measured_ns, back.run) == (S, 11 * S, 1)
    assert advance(timeline, 0, 3, 12, 112).observed_ns == 2 * S


def test_one_failed_inference_does_not_begin_observation_anew() -> None:
    timeline = Timeline()
    advance(timeline, 0, 0, 0, 100)
    timeline.pause()
    assert advance(timeline, 0, 2, 0.08, 100.08).run == 0


def test_what_is_not_newer_is_not_evaluated() -> None:
    timeline = Timeline()
    advance(timeline, 1, 5, 1, 100)
    for epoch, sequence in ((1, 5), (1, 4), (0, 99)):
        assert timeline.advance(epoch=epoch, sequence=sequence, capture_ns=0, media_ns=9 * S) is None
    assert timeline.last is not None
    assert timeline.last.sequence == 5


steps = st.lists(
    st.tuples(
        st.booleans(),  # a new epoch
        st.booleans(),  # an outage before it
        st.integers(-(10**10), 10**10),  # capture step
        st.integers(-(10**10), 10**10),  # media step
    ),
    max_size=30,
)


@given(steps)
def test_neither_clock_runs_backwards_whatever_the_timestamps_do(
    frames: list[tuple[bool, bool, int, int]],
) -> None:
    timeline = Timeline()
    epoch, sequence, capture, media = 0, 0, 10**12, 10**12
    seen = [timeline.advance(epoch=epoch, sequence=sequence, capture_ns=capture, media_ns=media)]
    for new, out, capture_step, media_step in frames:
        epoch, sequence = (epoch + 1, 0) if new else (epoch, sequence + 1)
        capture, media = capture + capture_step, media + media_step
        if out:
            timeline.pause()
        seen.append(timeline.advance(epoch=epoch, sequence=sequence, capture_ns=capture, media_ns=media))
    moments = [moment for moment in seen if moment is not None]
    assert len(moments) == len(frames) + 1
    for before, after in pairwise(moments):
        assert before.observed_ns <= after.observed_ns
        assert before.measured_ns <= after.measured_ns
        assert after.observed_ns - before.observed_ns <= after.measured_ns - before.measured_ns
