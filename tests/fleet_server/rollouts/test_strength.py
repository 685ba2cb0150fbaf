"""The bound on the share of bad devices, against exact sums of binomial terms."""

from fractions import Fraction
from math import comb, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_server.rollouts.strength import CONFIDENCE, upper_bound


def chance(judged: int, bad: int, share: float) -> float:
    """That at most `bad` of `judged` are bad, exactly."""
    p = Fraction(share)
    return float(sum(comb(judged, k) * p**k * (1 - p) ** (judged - k) for k in range(bad + 1)))


@pytest.mark.parametrize(("judged", "bad"), [(1, 0), (5, 4), (10, 0), (10, 3), (60, 1), (200, 150), (300, 6)])
def test_at_the_bound_so_few_bad_ones_have_a_chance_of_five_percent(judged: int, bad: int) -> None:
    assert isclose(chance(judged, bad, upper_bound(judged, bad)), 1 - CONFIDENCE, rel_tol=1e-6)


@pytest.mark.parametrize("judged", [20, 100, 1000, 100_000])
def test_without_a_bad_one_it_is_the_rule_of_three(judged: int) -> None:
    assert isclose(upper_bound(judged, 0), 3 / judged, rel_tol=0.08)


@pytest.mark.parametrize(("judged", "bad", "bound"), [(0, 0, 1.0), (3, 3, 1.0), (100_000, 2000, 0.02075)])
def test_ends_and_large_numbers(judged: int, bad: int, bound: float) -> None:
    assert isclose(upper_bound(judged, bad), bound, rel_tol=1e-3)


@given(st.integers(1, 5000), st.integers(0, 100))
def test_it_lies_above_what_was_seen_and_falls_with_more_devices(judged: int, bad: int) -> None:
    bad = min(bad, judged)
    assert bad / judged <= upper_bound(judged, bad) <= 1
    assert upper_bound(judged + 50, bad) <= upper_bound(judged, bad) + 1e-9
    assert upper_bound(judged, min(bad + 1, judged)) >= upper_bound(judged, bad) - 1e-9
