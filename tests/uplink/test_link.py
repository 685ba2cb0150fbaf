"""Link signals: known series give known values, and silence becomes unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.uplink.link import KNOWN_HALF_LIVES, DecayingMean, LinkMeter

S = NS_PER_S


def test_one_half_life_halves_a_sample() -> None:
    mean = DecayingMean(10.0)
    mean.add(100.0, 0)
    mean.add(0.0, 10 * S)
    assert mean.value(10 * S) == pytest.approx(100 * 0.5 / 1.5)


def test_samples_of_one_instant_weigh_the_same() -> None:
    mean = DecayingMean(10.0)
    for value in (10.0, 20.0, 60.0):
        mean.add(value, 5 * S)
    assert mean.value(5 * S) == pytest.approx(30.0)


def test_unknown_before_the_first_sample_and_after_so_many_half_lives() -> None:
    mean = DecayingMean(2.0)
    assert mean.value(0) is None
    assert mean.age_s(0) is None
    mean.add(7.0, 0)
    assert mean.value(KNOWN_HALF_LIVES * 2 * S) == pytest.approx(7.0)
    assert mean.value(KNOWN_HALF_LIVES * 2 * S + 1) is None
    assert mean.age_s(3 * S) == 3.0


def test_a_sample_without_weight_is_none() -> None:
    mean = DecayingMean(2.0)
    mean.add(7.0, 0, weight=0.0)
    assert mean.value(0) is None


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 100 * S)), min_size=1, max_size=30))
def test_the_mean_lies_between_the_extremes(samples: list[tuple[float, int]]) -> None:
    mean, now = DecayingMean(10.0), 0
    for value, step in samples:
        now += step
        mean.add(value, now)
    found = mean.value(now)
    assert found is not None
    values = [value for value, _ in samples]
    assert min(values) - 1e-6 * (1 + max(values)) <= found <= max(values) + 1e-6 * (1 + max(values))


def test_meter_measures_round_trip_bandwidth_and_loss() -> None:
    meter = LinkMeter(10.0)
    assert meter.signals(0).age_s is None
    meter.sent(0)
    meter.sent(0)
    meter.receipted(0, 1000, S, idle=False)
    meter.receipted(0, 3000, 2 * S, idle=True)
    signals = meter.signals(2 * S)
    assert signals.bytes_per_s is not None
    assert 1000 < signals.bytes_per_s < 3000
    assert signals.loss == 0.0
    assert signals.round_trip_ms is not None
    assert 1000 < signals.round_trip_ms < 2000
    meter.missed(2 * S)
    loss = meter.signals(2 * S).loss
    assert loss is not None
    assert 0.2 < loss < 0.5
    later = meter.signals(62 * S)
    assert (later.round_trip_ms, later.loss, later.bytes_per_s) == (None, None, None)
    assert later.age_s == 60.0


def test_idle_time_is_no_slowness() -> None:
    meter = LinkMeter(10.0)
    meter.sent(0)
    meter.receipted(0, 1000, S, idle=True)
    meter.sent(11 * S)
    meter.receipted(11 * S, 1000, 12 * S, idle=True)
    assert meter.signals(12 * S).bytes_per_s == pytest.approx(1000)
    meter.sent(12 * S)
    meter.idle()
    meter.receipted(12 * S, 1000, 14 * S, idle=True)
    assert meter.signals(14 * S).bytes_per_s == pytest.approx(1000)
