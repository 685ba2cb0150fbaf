"""Token buckets on a clock that the test moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_server.http.limits import Buckets, Rate, address_name

S = 1_000_000_000


def test_a_burst_and_then_the_rate() -> None:
    buckets = Buckets(Rate(per_s=2.0, burst=3))
    assert [buckets.take("a", 0) for _ in range(4)] == [0, 0, 0, 1]
    assert buckets.take("a", S // 2) == 0
    assert buckets.take("a", S // 2) == 1


def test_one_name_does_not_pay_for_another() -> None:
    buckets = Buckets(Rate(per_s=1.0, burst=1))
    assert [buckets.take(name, 0) for name in ("a", "b", "a")] == [0, 0, 1]


def test_the_number_of_buckets_is_bounded() -> None:
    buckets = Buckets(Rate(per_s=1.0, burst=1), most=100)
    for number in range(10_000):
        buckets.take(str(number), 0)
    assert len(buckets) == 100


@given(
    per_s=st.floats(0.1, 100),
    burst=st.integers(1, 50),
    steps=st.lists(st.integers(0, 2 * S), min_size=1, max_size=100),
)
def test_never_more_than_burst_and_rate_together(per_s: float, burst: int, steps: list[int]) -> None:
    buckets, now, taken = Buckets(Rate(per_s, burst)), 0, 0
    for step in steps:
        now += step
        taken += buckets.take("a", now) == 0
    assert taken <= burst + now / S * per_s + 1e-6


@given(per_s=st.floats(0.1, 100), burst=st.integers(1, 5))
def test_the_wait_that_is_told_is_enough(per_s: float, burst: int) -> None:
    buckets = Buckets(Rate(per_s, burst))
    for _ in range(burst):
        assert buckets.take("a", 0) == 0
    wait = buckets.take("a", 0)
    assert wait >= 1
    assert buckets.take("a", wait * S) == 0


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        (None, "local"),
        ("testclient", "testclient"),
    ],
)
def test_names_of_addresses(host: str | None, name: str) -> None:
    assert address_name(host) == name
