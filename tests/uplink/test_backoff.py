"""Waits between connects: jitter, cap, short sessions, quarrels, a fleet that comes back."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.uplink.backoff import Ending, Reconnect, ReconnectSettings

S = NS_PER_S


class Highest(random.Random):
    """Draws the end of every interval, so that a wait shows its ceiling."""

    def uniform(self, a: float, b: float) -> float:
        return b


def make(**settings: float) -> Reconnect:
    return Reconnect(ReconnectSettings(**settings), Highest())  # type: ignore[arg-type]


def test_failures_double_the_ceiling_up_to_the_cap() -> None:
    reconnect = make()
    waits = [reconnect.wait_s(Ending.UNREACHABLE, 0.0, i * S) for i in range(12)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


@given(st.integers(0, 2**32), st.lists(st.sampled_from([Ending.UNREACHABLE, Ending.REFUSED]), max_size=400))
def test_waits_are_never_negative_nor_above_the_cap(seed: int, endings: list[Ending]) -> None:
    reconnect = Reconnect(ReconnectSettings(), random.Random(seed))
    for at, ending in enumerate(endings):
        assert 0.0 <= reconnect.wait_s(ending, 0.0, at * S) <= 300.0


def test_full_jitter_spreads_over_the_whole_interval() -> None:
    waits = []
    for seed in range(400):
        reconnect = Reconnect(ReconnectSettings(), random.Random(seed))
        reconnect.failures = 5
        waits.append(reconnect.wait_s(Ending.UNREACHABLE, 0.0, 0))
    assert min(waits) < 2
    assert max(waits) > 30
    assert 14 < sum(waits) / len(waits) < 18


@pytest.mark.parametrize(
    ("lived_s", "failures"),
    [(0.5, 4), (9.9, 4), (10.0, 3), (59.0, 3), (60.0, 0), (4000.0, 0)],
)
def test_a_short_session_counts_as_failure_and_a_stable_one_clears(lived_s: float, failures: int) -> None:
    reconnect = make()
    for _ in range(3):
        reconnect.wait_s(Ending.UNREACHABLE, 0.0, 0)
    reconnect.wait_s(Ending.LOST, lived_s, 5000 * S)
    assert reconnect.failures == failures


def test_a_loop_of_short_sessions_slows_down_and_raises_the_alarm() -> None:
    reconnect, now = make(), 0
    waits = []
    for _ in range(3):
        waits.append(reconnect.wait_s(Ending.LOST, 0.2, now))
        now += S
    assert waits[:2] == [1, 2]
    assert waits[2] >= 60
    assert reconnect.quarrel


def test_kicks_that_lie_far_apart_are_no_quarrel() -> None:
    reconnect, now = make(), 0
    for _ in range(10):
        reconnect.wait_s(Ending.LOST, 5.0, now)
        now += 40 * S
    assert not reconnect.quarrel


def test_a_broker_that_was_away_in_between_did_not_kick() -> None:
    reconnect, now = make(), 0
    for _ in range(10):
        reconnect.wait_s(Ending.LOST, 3.0, now)
        reconnect.wait_s(Ending.UNREACHABLE, 0.0, now + S)
        now += 4 * S
    assert not reconnect.quarrel


def test_a_broker_that_turns_us_away_in_between_was_there_all_along() -> None:
    reconnect, now = make(), 0
    for _ in range(3):
        reconnect.wait_s(Ending.LOST, 1.0, now)
        reconnect.wait_s(Ending.TURNED_AWAY, 0.0, now + S)
        now += 4 * S
    assert reconnect.quarrel


def test_session_taken_over_waits_a_minute_until_a_stable_session_clears_it() -> None:
    reconnect = Reconnect(ReconnectSettings(), random.Random(1))
    assert 60 <= reconnect.wait_s(Ending.TAKEN_OVER, 30.0, 0) <= 120
    assert reconnect.quarrel
    reconnect.stable(59.0)
    assert reconnect.quarrel
    reconnect.stable(60.0)
    assert not reconnect.quarrel


def test_the_alarm_stays_for_an_hour_after_the_last_takeover_although_sessions_look_stable() -> None:
    reconnect = Reconnect(ReconnectSettings(), random.Random(1))
    assert not reconnect.alarm(0)
    for _ in range(2):
        reconnect.wait_s(Ending.TAKEN_OVER, 300.0, 1000 * S)
        reconnect.stable(60.0)
    assert not reconnect.quarrel
    assert reconnect.takeovers == 2
    assert reconnect.alarm(4600 * S)
    assert not reconnect.alarm(4601 * S)


def test_a_fleet_comes_back_over_a_spread_of_time() -> None:
    spread = 10_000 / 150
    waits = [
        Reconnect(ReconnectSettings(fleet=10_000), random.Random(seed)).wait_s(Ending.LOST, 3600.0, 0)
        for seed in range(600)
    ]
    assert max(waits) <= spread
    in_first_tenth = sum(wait < spread / 10 for wait in waits) / len(waits)
    assert 0.05 < in_first_tenth < 0.16


def test_own_endings_and_first_failures_are_not_spread() -> None:
    assert make(fleet=100_000).wait_s(Ending.UNREACHABLE, 0.0, 0) == 1.0
    assert make(fleet=100_000).wait_s(Ending.OWN, 3600.0, 0) == 1.0
