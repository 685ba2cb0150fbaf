import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.sources.state import TRANSITIONS, SourceSignal, SourceState, step

OPEN = [state for state in SourceState if not state.final]


def test_every_state_answers_every_signal() -> None:
    assert set(TRANSITIONS) == {(state, signal) for state in SourceState for signal in SourceSignal}


@pytest.mark.parametrize("state", OPEN)
def test_stop_ends_every_open_state(state: SourceState) -> None:
    assert step(state, SourceSignal.STOP) is SourceState.ENDED


@pytest.mark.parametrize(
    ("state", "signal", "target"),
    [
        (SourceState.STARTING, SourceSignal.FRAME, SourceState.RUNNING),
        (SourceState.STARTING, SourceSignal.SILENCE, SourceState.STALLED),
        (SourceState.STARTING, SourceSignal.LOST, SourceState.RECONNECTING),
        (SourceState.STARTING, SourceSignal.REFUSED, SourceState.FAILED),
        (SourceState.RUNNING, SourceSignal.SILENCE, SourceState.STALLED),
        (SourceState.RUNNING, SourceSignal.EXHAUSTED, SourceState.ENDED),
        (SourceState.STALLED, SourceSignal.FRAME, SourceState.RUNNING),
        (SourceState.STALLED, SourceSignal.LOST, SourceState.RECONNECTING),
        (SourceState.RECONNECTING, SourceSignal.SILENCE, SourceState.RECONNECTING),
        (SourceState.RECONNECTING, SourceSignal.FRAME, SourceState.RUNNING),
        (SourceState.RECONNECTING, SourceSignal.GIVE_UP, SourceState.FAILED),
        (SourceState.FAILED, SourceSignal.STOP, SourceState.FAILED),
        (SourceState.ENDED, SourceSignal.FRAME, SourceState.ENDED),
    ],
)
def test_table(state: SourceState, signal: SourceSignal, target: SourceState) -> None:
    assert step(state, signal) is target


@given(st.lists(st.sampled_from(SourceSignal)))
def test_whatever_happens_stop_comes_to_a_final_state_that_stays(signals: list[SourceSignal]) -> None:
    state = SourceState.STARTING
    for signal in signals:
        was_final = state.final
        after = step(state, signal)
        assert not was_final or after is state
        assert (after is SourceState.RUNNING) == (not was_final and signal is SourceSignal.FRAME)
        state = after
    assert step(state, SourceSignal.STOP).final
