"""Rates in the hand of a test: never above the limit, never given up for our own slowness."""

import random

import hypothesis
import hypothesis.strategies as st
import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.updates.download import DownloadRules
from edge_runtime.updates.download.pace import MinimumRate, RateLimit
from edge_runtime.updates.download.rules import retry_wait_s


@hypothesis.given(
    rate=st.integers(1000, 10_000_000),
    pieces=st.lists(st.tuples(st.integers(1, 65_536), st.floats(0, 2)), min_size=1, max_size=200),
)
def test_no_more_than_the_limit_over_any_stretch(rate: int, pieces: list[tuple[int, float]]) -> None:
    """After its rest, every stretch of pieces has taken as long as the limit says, but for half a second."""
    limit, now = RateLimit(rate), 10 * NS_PER_S
    marks = [(now, 0)]
    total = 0
    for count, took in pieces:
        now += round(took * NS_PER_S)
        now += round(limit.rest_s(count, now) * NS_PER_S)
        total += count
        marks.append((now, total))
    for at, (began, before) in enumerate(marks):
        for ended, after in marks[at + 1 :]:
            assert after - before <= rate * ((ended - began) / NS_PER_S + 0.5) + 65_536 + 1


def test_without_a_limit_nothing_waits() -> None:
    assert RateLimit(None).rest_s(1 << 40, 0) == 0.0


def test_a_limit_does_not_slow_a_link_that_is_slower() -> None:
    limit = RateLimit(1000)
    assert all(
        limit.rest_s(1000, second * NS_PER_S) == pytest.approx(0.5, abs=0.5) for second in range(2, 50)
    )


def test_too_slow_is_said_once_a_window() -> None:
    rate = MinimumRate(100, 10.0, None)
    rate.begin(0, 0)
    assert not rate.is_too_slow(0, 9 * NS_PER_S)
    assert rate.is_too_slow(999, 10 * NS_PER_S)
    assert not rate.is_too_slow(999, 11 * NS_PER_S)
    assert not rate.is_too_slow(1999, 20 * NS_PER_S)
    assert rate.is_too_slow(2000, 30 * NS_PER_S)


def test_our_own_limit_is_nobody_elses_fault() -> None:
    rate = MinimumRate(1000, 10.0, 100)
    rate.begin(0, 0)
    assert not rate.is_too_slow(900, 10 * NS_PER_S)


def test_waits_double_up_to_their_ceiling_and_never_come_in_step() -> None:
    rules, rng = DownloadRules(first_wait_s=5.0, longest_wait_s=900.0), random.Random(1)
    for failures in range(1, 70):
        ceiling = min(900.0, 5.0 * 2.0 ** (failures - 1))
        drawn = [retry_wait_s(rules, failures, None, rng) for _ in range(50)]
        assert all(ceiling / 2 <= wait <= ceiling for wait in drawn)
        assert len(set(drawn)) == 50


@pytest.mark.parametrize(("asked", "least"), [(60.0, 60.0), (0.0, 2.5), (1e9, 900.0)])
def test_a_server_is_obeyed_up_to_a_point(asked: float, least: float) -> None:
    rules, rng = DownloadRules(first_wait_s=5.0, longest_wait_s=900.0), random.Random(1)
    drawn = [retry_wait_s(rules, 1, asked, rng) for _ in range(50)]
    assert all(least <= wait <= 900.0 * 1.25 for wait in drawn)
    assert max(drawn) - min(drawn) > 0
