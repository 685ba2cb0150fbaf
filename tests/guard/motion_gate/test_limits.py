"""Limits: absolute, rate, window, and what a body may be doing when no command came."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.guard.motion_gate.limits import AxisLimits, Bounds, Profile, Table
from edge_runtime.guard.motion_gate.reasons import Reason

MS = 1_000_000
S = 1_000 * MS
LIMITS = AxisLimits(low=-1.0, high=2.0, rise_per_s=1.0, step_ns=100 * MS, window_ns=500 * MS, window_rise=0.3)
FREE = LIMITS._replace(low=-1e9, high=1e9, rise_per_s=1e9, window_rise=1e9)


def profile(safe: float = 0.0, most_per_s: int = 1000) -> Profile:
    return Profile(
        axes={"v": safe, "w": 0.0},
        actions={"drive": frozenset({"v", "w"}), "move": frozenset({"v"})},
        risky=frozenset(),
        tables=(),
        longest_ttl_ns=S,
        most_per_s=most_per_s,
        refusals=5,
        refusals_ns=S,
        states=frozenset(),
        longest_approval_ns=S,
    )


def table(limits: AxisLimits = LIMITS, other: AxisLimits = FREE) -> Table:
    return Table("normal", frozenset({"drive", "move"}), {"v": limits, "w": other})


class Body:
    """Commands given at times in ms, each good for so long."""

    def __init__(self, limits: AxisLimits = LIMITS, safe: float = 0.0, most_per_s: int = 1000) -> None:
        self.bounds = Bounds(profile(safe, most_per_s), 0)
        self.table = table(limits)

    def refusal(self, at_ms: float, value: float) -> Reason | None:
        return self.bounds.refusal(round(at_ms * MS), self.table, {"v": value})

    def passes(self, at_ms: float, value: float, ttl_ms: float = 10_000) -> None:
        assert self.refusal(at_ms, value) is None, (at_ms, value)
        self.bounds.passed(round(at_ms * MS), {"v": value}, round((at_ms + ttl_ms) * MS))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers(value: float) -> None:
    body = Body(FREE)
    assert body.refusal(10, value) is Reason.NOT_FINITE
    assert body.bounds.refusal(10 * MS, body.table, {"v": 0.0, "w": value}) is Reason.NOT_FINITE


@pytest.mark.parametrize(
    ("value", "reason"),
    [(-1.0, None), (2.0, None), (-1.0000001, Reason.ABSOLUTE), (2.0000001, Reason.ABSOLUTE), (0.0, None)],
)
def test_the_range_has_its_ends_in_it(value: float, reason: Reason | None) -> None:
    assert Body(FREE._replace(low=-1.0, high=2.0)).refusal(10, value) is reason


def test_each_axis_has_its_own_range() -> None:
    body = Body(FREE)
    body.table = table(FREE, FREE._replace(high=0.5))
    assert body.bounds.refusal(10 * MS, body.table, {"v": 1.0, "w": 0.5}) is None
    assert body.bounds.refusal(10 * MS, body.table, {"v": 1.0, "w": 0.6}) is Reason.ABSOLUTE
    body.table = table(FREE, FREE._replace(rise_per_s=1.0))
    assert body.bounds.refusal(10 * MS, body.table, {"v": 1.0, "w": 0.5}) is Reason.RATE


def test_the_rate_counts_from_what_was_passed_last() -> None:
    body = Body(LIMITS._replace(window_rise=9))
    assert body.refusal(50, 0.0500001) is Reason.RATE
    body.passes(50, 0.05)
    body.passes(100, 0.1)
    assert body.refusal(150, 0.1500001) is Reason.RATE
    body.passes(150, 0.15)
    body.passes(160, 0.16)


def test_in_the_moment_of_the_safe_value_nothing_else_may_pass() -> None:
    body = Body(LIMITS._replace(window_rise=9))
    assert body.refusal(0, 0.0) is None
    assert body.refusal(0, 0.0000001) is Reason.RATE


def test_a_long_silence_allows_no_leap() -> None:
    body = Body(LIMITS._replace(window_rise=9))
    assert body.refusal(5000, 0.1000001) is Reason.RATE
    body.passes(5000, 0.1)
    assert body.refusal(9000, 0.2000001) is Reason.RATE
    body.passes(9000, 0.2)


def test_going_back_is_free_and_the_other_side_counts_from_rest() -> None:
    body = Body(LIMITS._replace(window_rise=9))
    for at in range(1, 11):
        body.passes(at * 100, at * 0.0999)
    assert body.refusal(1001, 0.2) is None
    assert body.refusal(1001, 0.0) is None
    assert body.refusal(1001, -0.001) is None
    assert body.refusal(1001, -0.00101) is Reason.RATE
    body.passes(1001, 0.3)
    assert body.refusal(1011, 0.3100001) is Reason.RATE
    body.passes(1011, 0.31)


@pytest.mark.parametrize("safe", [-5.0, 0.25, 3.0])
def test_growth_is_away_from_the_safe_value(safe: float) -> None:
    limits = LIMITS._replace(low=-10, high=10, window_rise=9, rise_per_s=1.25)
    body = Body(limits, safe)
    assert body.refusal(100, safe + 0.125) is None
    assert body.refusal(100, safe + 0.126) is Reason.RATE
    assert body.refusal(100, safe - 0.125) is None
    assert body.refusal(100, safe - 0.126) is Reason.RATE
    body.passes(100, safe - 0.125)
    assert body.refusal(200, safe - 0.25) is None
    assert body.refusal(200, safe - 0.251) is Reason.RATE
    assert body.refusal(200, safe) is None


def test_the_window_bounds_growth_within_it() -> None:
    body = Body(LIMITS._replace(rise_per_s=1000, high=9))
    body.passes(100, 0.3)
    assert body.refusal(599, 0.301) is Reason.WINDOW
    assert body.refusal(600, 0.6) is None  # 0.3 has been held for the whole window
    assert body.refusal(600, 0.601) is Reason.WINDOW
    body.passes(600, 0.5)
    assert body.refusal(1099, 0.6) is None
    assert body.refusal(1099, 0.601) is Reason.WINDOW  # within it stood 0.3
    assert body.refusal(1100, 0.8) is None
    assert body.refusal(1100, 0.801) is Reason.WINDOW


def test_a_dip_within_the_window_counts() -> None:
    body = Body(LIMITS._replace(rise_per_s=1000, high=9))
    body.passes(100, 0.25)
    body.passes(700, 0.5)
    body.passes(800, 0.125)
    body.passes(900, 0.375)
    assert body.refusal(1200, 0.43) is Reason.WINDOW
    assert body.refusal(1200, 0.425) is None
    assert body.refusal(1399, 0.43) is Reason.WINDOW
    assert body.refusal(1400, 0.67) is None


def test_a_change_of_sides_within_the_window_counts_as_rest() -> None:
    body = Body(LIMITS._replace(rise_per_s=1000, low=-9, high=9))
    body.passes(100, 0.25)
    body.passes(200, -0.25)
    assert body.refusal(300, 0.3) is None
    assert body.refusal(300, 0.31) is Reason.WINDOW
    assert body.refusal(300, -0.3) is None
    assert body.refusal(300, -0.31) is Reason.WINDOW


def test_when_its_time_to_live_has_ended_the_body_is_taken_to_rest() -> None:
    body = Body(LIMITS._replace(window_rise=0.2))
    body.passes(100, 0.1, ttl_ms=50)
    assert body.refusal(150, 0.15) is None
    assert body.refusal(150.1, 0.1002) is Reason.RATE  # from rest, in 50.1 ms
    assert body.refusal(150.1, 0.05) is None
    body.passes(200, 0.1, ttl_ms=300)
    body.passes(300, 0.2, ttl_ms=300)
    assert body.refusal(400, 0.3) is Reason.WINDOW  # within it rested
    assert body.refusal(600, 0.2) is None
    assert body.refusal(601, 0.2) is Reason.RATE


def test_a_command_that_follows_at_the_end_of_the_one_before_leaves_no_rest_between() -> None:
    body = Body(LIMITS._replace(rise_per_s=1000, high=9, window_ns=100 * MS))
    body.passes(100, 0.3, ttl_ms=100)
    body.passes(200, 0.5)
    assert body.refusal(250, 0.6) is None
    assert body.refusal(250, 0.601) is Reason.WINDOW


def test_a_rest_begins_anew() -> None:
    body = Body(LIMITS._replace(rise_per_s=1000, high=9))
    body.passes(100, 0.3)
    body.passes(600, 0.6)
    body.bounds.rest(1000 * MS)
    assert body.refusal(1001, 0.3) is None
    assert body.refusal(1001, 0.31) is Reason.WINDOW
    body = Body(LIMITS._replace(window_rise=9))
    body.bounds.rest(1000 * MS)
    assert body.refusal(1050, 0.05) is None
    assert body.refusal(1050, 0.051) is Reason.RATE


def test_commands_come_one_after_another() -> None:
    body = Body(FREE, most_per_s=50)
    body.passes(0, 0.0)
    assert body.refusal(19.999, 0.0) is Reason.TOO_SOON
    body.passes(20, 0.0)
    body.bounds.rest(25 * MS)
    assert body.refusal(39, 0.0) is Reason.TOO_SOON  # a rest allows no more of them
    assert body.refusal(40, 0.0) is None
    assert Body(FREE, most_per_s=1).refusal(0, 0.0) is None
    thirds = Body(FREE, most_per_s=3)
    thirds.passes(0, 0.0)
    assert thirds.refusal(333.333332, 0.0) is Reason.TOO_SOON
    assert thirds.refusal(333.333333, 0.0) is None


def test_an_axis_that_no_command_named_stays() -> None:
    body = Body(LIMITS._replace(window_rise=9))
    body.bounds.passed(0, {"v": 0.0, "w": 5.0}, 10 * S)
    body.passes(100, 0.1)
    body.passes(200, 0.2)
    assert (
        body.bounds.refusal(201 * MS, table(FREE, FREE._replace(rise_per_s=1.0)), {"v": 0.2, "w": 5.1})
        is None
    )
    assert (
        body.bounds.refusal(201 * MS, table(FREE, FREE._replace(rise_per_s=1.0)), {"v": 0.2, "w": 5.11})
        is Reason.RATE
    )


def test_what_is_remembered_is_bounded() -> None:
    body = Body(FREE)
    for at in range(5000):
        body.passes(at, at % 7, ttl_ms=0.5)
    assert len(body.bounds._axes["v"]._held) <= 2 * 1000 + 2
    assert body.refusal(5001, 3.0) is None


steps = st.lists(
    st.tuples(st.integers(1, 400), st.floats(-1.5, 1.5), st.integers(1, 600), st.booleans()),
    min_size=1,
    max_size=30,
)


def distance(held: list[tuple[int, float, int]], when: int, value: float) -> float:
    """How far the body was from rest at a time, on the side of a value."""
    current = 0.0
    for began, what, until in held:
        if began <= when:
            current = what if when <= until else 0.0
    return abs(current) if current * value > 0 else 0.0


@given(steps)
def test_whatever_is_asked_the_body_never_outgrows_its_limits(
    steps: list[tuple[int, float, int, bool]],
) -> None:
    """Against a plain model: what the body did at each millisecond, taken at its worst."""
    limits = AxisLimits(-1.0, 1.0, 0.7, 120 * MS, 300 * MS, 0.4)
    bounds, now = Bounds(profile(), 0), 0
    held: list[tuple[int, float, int]] = []  # at, value, until
    passed_at = 0
    for pause, value, ttl, rests in steps:
        now += pause
        if rests:
            bounds.rest(now * MS)
            held.append((now, 0.0, now + 10_000_000))
            passed_at = now
        reason = bounds.refusal(now * MS, table(limits), {"v": value})

        last = distance(held, now, value)
        moments = range(max(0, now - 300), now + 1)
        least = min(distance(held, when, value) for when in moments)
        if not -1.0 <= value <= 1.0:
            assert reason is Reason.ABSOLUTE
        elif abs(value) > last + 0.7 * (min(now - passed_at, 120) / 1000) + 1e-9:
            assert reason is Reason.RATE
        elif abs(value) > least + 0.4 + 1e-9:
            assert reason is Reason.WINDOW
        elif reason is not None:
            near = abs(abs(value) - last - 0.7 * (min(now - passed_at, 120) / 1000)) < 1e-9
            assert near or abs(abs(value) - least - 0.4) < 1e-9
        if reason is None:
            bounds.passed(now * MS, {"v": value}, (now + ttl) * MS)
            held.append((now, value, now + ttl))
            passed_at = now
