import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.sources.backoff import FullJitter


def test_the_ceiling_doubles_up_to_the_maximum() -> None:
    backoff = FullJitter(0.5, 3.0, random.Random(1))
    ceilings = []
    for _ in range(6):
        ceilings.append(backoff.ceiling_s)
        backoff.failed()
    assert ceilings == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0]


@given(st.integers(), st.integers(1, 200))
def test_waits_are_drawn_from_all_of_the_range(seed: int, failures: int) -> None:
    backoff = FullJitter(0.1, 20.0, random.Random(seed))
    for _ in range(failures):
        ceiling = backoff.ceiling_s
        assert 0.0 <= backoff.failed() <= ceiling


def test_jitter_is_full_and_repeatable() -> None:
    first = FullJitter(1.0, 1.0, random.Random(7))
    again = FullJitter(1.0, 1.0, random.Random(7))
    waits = [first.failed() for _ in range(2000)]
    assert waits == [again.failed() for _ in range(2000)]
    assert sum(waits) / len(waits) == pytest.approx(0.5, abs=0.03)
    assert min(waits) < 0.02
    assert max(waits) > 0.98


def test_only_a_session_that_outlived_its_wait_counts_as_recovered() -> None:
    backoff = FullJitter(1.0, 64.0, random.Random(0))
    for _ in range(4):
        backoff.failed(lived_s=0.5)
    assert backoff.ceiling_s == 16.0
    backoff.failed(lived_s=17.0)
    assert backoff.ceiling_s == 2.0


def test_a_refused_password_waits_long_at_once() -> None:
    backoff = FullJitter(0.5, 30.0, random.Random(0))
    waits = [backoff.failed(refused=True) for _ in range(50)]
    assert max(waits) > 20.0
    assert backoff.ceiling_s == 30.0
