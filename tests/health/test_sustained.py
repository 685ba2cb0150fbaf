"""The rate that holds, beside the rate that is reached."""

from itertools import islice

import pytest

from edge_runtime.health.sustained import shortest_deadline_s, sustained_rate
from sim.thermal import TOKENS_A_RUN, TOKENS_A_SECOND, runs, stepwise_phone


def test_a_device_that_does_not_throttle() -> None:
    rate = sustained_rate([30.0, 30.2, 29.9, 30.1, 30.0, 30.0])
    assert rate.settled
    assert rate.sustained_hz == 30.0
    assert rate.share == pytest.approx(30.0 / 30.2)


def test_a_phone_that_throttles_promises_what_it_holds() -> None:
    rates = [run.rate for run in islice(runs(stepwise_phone(), TOKENS_A_SECOND, TOKENS_A_RUN), 20)]
    rate = sustained_rate(rates)
    assert rate.peak_hz == pytest.approx(40.3, rel=0.01)
    assert rate.settled
    assert rate.sustained_hz == pytest.approx(22.6, rel=0.01)
    assert shortest_deadline_s(rate.sustained_hz) > 1.7 * shortest_deadline_s(rate.peak_hz)


def test_one_that_still_slows_down_promises_its_slowest() -> None:
    rates = [run.rate for run in islice(runs(stepwise_phone(), TOKENS_A_SECOND, TOKENS_A_RUN), 7)]
    rate = sustained_rate(rates)
    assert not rate.settled
    assert rate.sustained_hz == min(rates)


def test_a_short_run_has_not_settled() -> None:
    assert not sustained_rate([10.0, 10.0]).settled
    assert sustained_rate([0.0, 0.0]).share == 0.0


@pytest.mark.parametrize("windows", [[], [1.0, -1.0]])
def test_what_is_no_measurement_is_refused(windows: list[float]) -> None:
    with pytest.raises(ValueError, match="window"):
        sustained_rate(windows)


def test_a_deadline_is_two_frames_and_the_rest() -> None:
    assert shortest_deadline_s(20.0, rest_s=0.01) == pytest.approx(0.11)
    with pytest.raises(ValueError, match="nothing"):
        shortest_deadline_s(0.0)
