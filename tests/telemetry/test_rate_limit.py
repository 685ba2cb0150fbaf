from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.telemetry import RateLimit


def test_a_burst_passes_and_the_rest_is_counted_on_the_next_line() -> None:
    limit = RateLimit(burst=2, period_s=10)
    assert [limit.admit("a", 0) for _ in range(5)] == [0, 0, None, None, None]
    assert limit.admit("a", 10 * NS_PER_S) == 3
    assert limit.admit("a", 10 * NS_PER_S) == 0


def test_keys_do_not_disturb_each_other() -> None:
    limit = RateLimit(burst=1, period_s=10)
    assert limit.admit("a", 0) == 0
    assert limit.admit("b", 0) == 0
    assert limit.admit("a", 1) is None


def test_memory_is_bounded() -> None:
    limit = RateLimit(burst=1, period_s=10)
    for key in range(10_000):
        limit.admit(key, 0)
    assert len(limit._windows) <= 2048


@given(
    steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3 * NS_PER_S)), max_size=200),
    burst=st.integers(1, 4),
)
def test_every_line_is_written_or_counted(steps: list[tuple[str, int]], burst: int) -> None:
    limit = RateLimit(burst=burst, period_s=2)
    now, written, reported = 0, 0, 0
    for key, advance in steps:
        now += advance
        outcome = limit.admit(key, now)
        if outcome is not None:
            written += 1
            reported += outcome
    # One more line per key, a window later, says what was held back last.
    later = [limit.admit(key, now + 2 * NS_PER_S) for key in "ab"]
    assert written + reported + sum(count or 0 for count in later) == len(steps)
