"""Settled numbers against a plain dictionary of number to fate."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fleet_server.ingest.ranges import Progress, Run, joined, ranges_of, settle

_FATES = ("delivered", "expired", "evicted")
_RUNS = st.builds(
    lambda first, length, fate: Run(first, first + length, fate),
    st.integers(1, 40),
    st.integers(0, 6),
    st.sampled_from(_FATES),
)
_STEPS = st.lists(st.lists(_RUNS, max_size=4), max_size=12)


@given(_STEPS)
def test_it_agrees_with_a_dictionary(steps: list[list[Run]]) -> None:
    known: dict[int, str] = {}
    folded: Counter[str] = Counter()
    progress = Progress()
    for step in steps:
        fresh: Counter[str] = Counter()
        for run in joined(step):
            for number in range(run.first, run.last + 1):
                if number not in known:
                    known[number] = run.fate
                    fresh[run.fate] += 1
        result = settle(progress, step)
        progress = result.progress
        folded += result.folded
        assert result.settled == fresh

        high = 0
        while high + 1 in known:
            high += 1
        assert progress.high == high
        assert folded == Counter(known[number] for number in range(1, high + 1))
        beyond = {n: run.fate for run in progress.runs for n in range(run.first, run.last + 1)}
        assert beyond == {n: fate for n, fate in known.items() if n > high}
        assert all(progress.is_settled(n) == (n in known) for n in range(1, 60))
        assert joined(progress.runs) == list(progress.runs)


@given(st.lists(st.integers(1, 60)))
def test_ranges_hold_exactly_their_numbers(numbers: list[int]) -> None:
    ranges = ranges_of(numbers)
    assert [n for first, last in ranges for n in range(first, last + 1)] == sorted(set(numbers))
    assert all(later[0] > earlier[1] + 1 for earlier, later in itertools.pairwise(ranges))


def test_a_device_that_gives_up_what_was_committed_changes_nothing() -> None:
    delivered = settle(Progress(), [Run(3, 5, "delivered")]).progress
    result = settle(delivered, [Run(1, 6, "expired")])
    assert result.settled == {"expired": 3}
    assert result.folded == {"expired": 3, "delivered": 3}
    assert result.progress == Progress(6)


def test_the_largest_number_costs_nothing() -> None:
    last = (1 << 63) - 1
    result = settle(Progress(), [Run(1, last, "lost")])
    assert result.progress == Progress(last)
    assert result.folded == {"lost": last}
