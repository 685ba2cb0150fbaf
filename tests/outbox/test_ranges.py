"""Ranges of numbers that will never be delivered: merged, exact, and bounded."""

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.outbox.books import Books
from edge_runtime.outbox.database import StandardDatabase
from edge_runtime.outbox.ranges import add_outcomes, bound_outcomes, forget_passed, list_outcomes, runs
from edge_runtime.outbox.schema import create, prepare
from edge_runtime.protocol.vocabulary import Fate
from tests.rigs.outbox import BootClock, opened, quiet_settings, submission


def fresh() -> StandardDatabase:
    database = StandardDatabase(None)
    prepare(database, quiet_settings(), in_memory=True)
    create(database, Books("e"))
    return database


@given(st.lists(st.integers(1, 60)))
def test_runs_cover_the_numbers_and_nothing_else(numbers: list[int]) -> None:
    found = list(runs(set(numbers)))
    assert [n for first, last in found for n in range(first, last + 1)] == sorted(set(numbers))
    assert all(after[0] > before[1] + 1 for before, after in itertools.pairwise(found))


@given(
    st.lists(
        st.tuples(st.sampled_from((Fate.EXPIRED, Fate.EVICTED)), st.sets(st.integers(1, 40), max_size=8))
    )
)
def test_stored_ranges_are_maximal_and_exact(steps: list[tuple[Fate, set[int]]]) -> None:
    database, books, truth = fresh(), Books("e"), dict[int, Fate]()
    for fate, numbers in steps:
        new = {n for n in numbers if n not in truth}
        truth |= dict.fromkeys(new, fate)
        add_outcomes(database, books, fate, new)
    found = list_outcomes(database, books, 1000)
    database.close()
    assert {n: r.fate for r in found for n in range(r.first, r.last + 1)} == truth
    for before, after in itertools.pairwise(found):
        assert before.last < after.first
        assert not (before.last + 1 == after.first and before.fate is after.fate)


def test_what_a_receipt_passed_is_forgotten() -> None:
    database, books = fresh(), Books("e")
    add_outcomes(database, books, Fate.EXPIRED, [1, 2, 3, 7, 8])
    books.passed = 7
    forget_passed(database, books)
    assert [(found.first, found.last) for found in list_outcomes(database, books, 10)] == [(7, 8)]
    add_outcomes(database, books, Fate.EXPIRED, [10])  # what stood in the books is in the table now
    books.passed = 8
    forget_passed(database, books)
    assert [(found.first, found.last) for found in list_outcomes(database, books, 10)] == [(10, 10)]
    books.passed = 10
    forget_passed(database, books)
    assert list_outcomes(database, books, 10) == []
    database.close()


def test_too_many_ranges_are_joined_but_never_over_what_is_queued(tmp_path: Path) -> None:
    with opened(tmp_path, BootClock()) as outbox:
        outbox.put([submission(n) for n in range(6)])  # numbers 1 to 6 are queued
    database, books = StandardDatabase(tmp_path / "outbox.db"), Books("e")
    for n in range(10, 50, 2):
        add_outcomes(database, books, Fate.EXPIRED if n % 4 else Fate.EVICTED, [n])
    add_outcomes(database, books, Fate.EVICTED, range(50, 80))
    database.execute("UPDATE queue SET seq = 31 WHERE seq = 6")
    assert bound_outcomes(database, books, limit=100) == 0
    assert bound_outcomes(database, books, limit=10) == 19
    assert [(found.first, found.last, found.fate) for found in list_outcomes(database, books, 10)] == [
        (10, 30, Fate.EXPIRED),
        (32, 79, Fate.EVICTED),
    ]
    database.close()
