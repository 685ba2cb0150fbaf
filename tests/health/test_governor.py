"""The governor as a pure function: tables, and what holds for any sequence of readings."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.health.governor import (
    LADDER,
    GovernorSettings,
    GovernorState,
    Level,
    ThermalReading,
    start,
    step,
)

SETTINGS = GovernorSettings(limit_c=95.0)


def after(
    temperatures: Iterable[float | None],
    settings: GovernorSettings = SETTINGS,
    state: GovernorState | None = None,
    throttled: bool | None = None,
) -> list[GovernorState]:
    """States after one reading a second; None is a reading without a value."""
    state = state or start(0, settings)
    states = []
    now_ns = max(state.since_ns, state.taken_ns)
    for celsius in temperatures:
        now_ns += NS_PER_S
        state, level = step(now_ns, state, ThermalReading(celsius, now_ns, throttled), settings)
        assert level == settings.ladder[state.index]
        states.append(state)
    return states


def test_a_cool_device_works_fully() -> None:
    assert {state.index for state in after([40.0] * 500)} == {0}


def test_it_acts_before_the_limit_by_where_the_temperature_goes() -> None:
    """0.5 C a second at 78 C is 88 C in 20 s: less work at once, 17 C below the limit."""
    rising = after([60 + 0.5 * second for second in range(60)])
    first = next(second for second, state in enumerate(rising) if state.index > 0)
    assert 60 + 0.5 * first < SETTINGS.limit_c - SETTINGS.warm_margin_c
    steady = after([84.0] * 300)
    assert steady[-1].index == 0
    assert "within 20 s" in rising[first].why


def test_each_level_is_given_its_time_and_a_falling_temperature_waits() -> None:
    states = after([86.0] * 40)
    changes = [second for second in range(1, 40) if states[second].index != states[second - 1].index]
    assert states[0].index == 1
    assert [second - before for before, second in itertools.pairwise(changes)] == [6] * (len(changes) - 1)
    falling = after([90 - 0.05 * second for second in range(80)])
    assert falling[-1].index <= 2


def test_close_to_the_limit_two_levels_go_each_second() -> None:
    assert [state.index for state in after([92.0] * 5)] == [2, 4, 6, 7, 7]


def test_hardware_that_throttles_already_is_believed_whatever_the_sensor_says() -> None:
    assert [state.index for state in after([50.0, 50.0, 50.0], throttled=True)] == [2, 4, 6]
    assert [state.index for state in after([None, None], throttled=True)] == [2, 4]
    assert {state.index for state in after([50.0] * 5, throttled=False)} == {0}


def test_levels_come_back_slowly_and_only_when_it_is_cool() -> None:
    hot = after([86.0])[-1]
    between = after([83.0] * 400, state=replace(hot, slope=0.0))
    assert {state.index for state in between} == {1}  # above 81, below 85: neither down nor up
    cool = after([70.0] * 59, state=hot)
    assert {state.index for state in cool} == {1}
    assert after([70.0] * 61, state=hot)[-1].index == 0


def test_what_was_given_back_too_early_waits_twice_as_long_the_next_time() -> None:
    dwell = []
    state = after([86.0])[-1]
    for _ in range(7):
        assert state.index == 1
        dwell.append(state.dwell_s)
        cool = after([70.0] * (int(state.dwell_s) + 1), state=state)
        assert cool[-3].index == 1
        assert cool[-1].index == 0
        state = after([86.0], state=replace(cool[-1], slope=0.0))[-1]
    assert dwell == [60.0, 120.0, 240.0, 480.0, 960.0, 1800.0, 1800.0]
    forgiven = after([70.0] * 3700, state=state)[-1]
    assert (forgiven.index, forgiven.dwell_s) == (0, 60.0)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_an_unknown_temperature_is_not_a_cool_one(value: float | None) -> None:
    states = after([60.0, *[value] * 20])
    assert [state.index for state in states[:6]] == [0] * 6  # as long as the last one is fresh
    assert states[7].index == SETTINGS.careful_level
    assert states[-1].index == SETTINGS.careful_level
    assert "no temperature" in states[-1].why


def test_a_sensor_that_never_answers_leads_to_careful_work() -> None:
    states = after([None] * 10)
    assert states[3].index == 0
    assert states[-1].index == SETTINGS.careful_level


def test_a_reading_that_only_gets_older_is_unknown() -> None:
    state = start(0, SETTINGS)
    reading = ThermalReading(50.0, NS_PER_S)
    for second in range(1, 20):
        state, _ = step(second * NS_PER_S, state, reading, SETTINGS)
    assert state.index == SETTINGS.careful_level


def test_unknown_never_gives_work_back() -> None:
    state = after([92.0] * 4)[-1]
    assert {found.index for found in after([None] * 600, state=state)} == {7}


def test_a_known_temperature_after_a_gap_has_no_slope() -> None:
    state = after([40.0, *[None] * 100])[-1]
    later = after([70.0], state=replace(state, since_ns=120 * NS_PER_S))[-1]
    assert later.slope == 0.0


def test_readings_from_the_future_and_the_past_are_left_out() -> None:
    state = after([50.0])[-1]
    future, _ = step(2 * NS_PER_S, state, ThermalReading(94.0, 5 * NS_PER_S), SETTINGS)
    assert (future.index, future.celsius) == (0, 50.0)
    past, _ = step(2 * NS_PER_S, state, ThermalReading(94.0, 0), SETTINGS)
    assert (past.index, past.celsius) == (0, 50.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"limit_c": 20.0}, "limit_c"),
        ({"limit_c": math.nan}, "limit_c"),
        ({"warm_margin_c": 1.0, "urgent_margin_c": 1.0}, "warm_margin_c"),
        ({"urgent_margin_c": 11.0}, "urgent_margin_c"),
        ({"cool_margin_c": 10.5}, "cool_margin_c"),
        ({"horizon_s": -1.0}, "horizon_s"),
        ({"slope_s": 0.0}, "slope_s"),
        ({"lower_dwell_s": 0.0}, "lower_dwell_s"),
        ({"restore_dwell_s": 1.0}, "restore_dwell_s"),
        ({"longest_restore_dwell_s": 1.0}, "longest_restore_dwell_s"),
        ({"unknown_after_s": 0.0}, "unknown_after_s"),
        ({"careful_level": 8}, "careful_level"),
        ({"ladder": (Level(1.0),), "careful_level": 0}, "two levels"),
        ({"ladder": (Level(1.0), Level(0.0)), "careful_level": 0}, "above 0"),
        ({"ladder": (Level(0.5), Level(1.0)), "careful_level": 0}, "must not rise"),
        ({"ladder": (Level(1.0, 1), Level(0.5, 0)), "careful_level": 0}, "must not fall"),
    ],
)
def test_settings_out_of_range_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GovernorSettings(**values)


READINGS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(-300, 300), st.just(math.nan)),
        st.integers(-3, 200),  # tenths of a second since the last step
        st.sampled_from([None, False, True]),
    ),
    max_size=80,
)


@given(READINGS)
def test_for_any_readings(readings: list[tuple[float | None, int, bool | None]]) -> None:
    state, now_ns = start(0, SETTINGS), 0
    for celsius, tenths, throttled in readings:
        now_ns += tenths * NS_PER_S // 10
        before = state
        state, level = step(now_ns, state, ThermalReading(celsius, now_ns, throttled), SETTINGS)
        assert 0 <= state.index < len(LADDER)
        assert level == LADDER[state.index]
        assert math.isfinite(state.slope)
        assert SETTINGS.restore_dwell_s <= state.dwell_s <= SETTINGS.longest_restore_dwell_s
        if state.index < before.index:  # work is given back one level at a time, late, and only when cool
            assert state.index == before.index - 1
            assert celsius is not None
            assert celsius <= SETTINGS.limit_c - SETTINGS.cool_margin_c
            assert throttled is not True
            assert state.since_ns - before.since_ns >= before.dwell_s * NS_PER_S
        if celsius is not None and celsius >= SETTINGS.limit_c and tenths > 0 and before.taken_ns < now_ns:
            assert state.index >= before.index


@given(READINGS, st.floats(0, 90), st.floats(0, 60))
def test_hotter_is_never_more_work(
    readings: list[tuple[float | None, int, bool | None]], celsius: float, more: float
) -> None:
    state, now_ns = start(0, SETTINGS), 0
    for value, tenths, throttled in readings:
        now_ns += tenths * NS_PER_S // 10
        state, _ = step(now_ns, state, ThermalReading(value, now_ns, throttled), SETTINGS)
    now_ns += NS_PER_S
    cooler, _ = step(now_ns, state, ThermalReading(celsius, now_ns), SETTINGS)
    hotter, _ = step(now_ns, state, ThermalReading(celsius + more, now_ns), SETTINGS)
    assert hotter.index >= cooler.index
