"""Ranges of sequence numbers that will never be delivered: dense, merged, and bounded in number."""

from collections.abc import Iterable, Iterator

from edge_runtime.outbox.books import Books
from edge_runtime.outbox.database import Database, Row
from edge_runtime.protocol.delivery import OutcomeRange
from edge_runtime.protocol.vocabulary import Fate

MAX_STORED = 65_536
"""Above this number neighbours with nothing queued between them are joined, whatever their fates."""

_AROUND = "SELECT first, last, fate FROM outcomes WHERE first <= ? ORDER BY first DESC LIMIT 2"
"""The range that begins behind a run, if there is one, and the one before the run."""


def runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Maximal runs of consecutive numbers, each as (first, last), in ascending order.

    >>> list(runs([5, 3, 4, 9]))
    [(3, 5), (9, 9)]
    """
    first = last = None
    for number in sorted(numbers):
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last


def add_outcomes(database: Database, books: Books, fate: Fate, numbers: Iterable[int]) -> None:
    """Store that these numbers ended so.

    The newest run stands in the books, which every transaction writes anyway, and grows there: a full queue gives
    up one number after the other. It moves to the table when another run begins.
    """
    for first, last in runs(numbers):
        if fate.value == books.run_fate and first == books.run_last + 1:
            books.run_last = last
        else:
            store_run(database, books)
            books.run_first, books.run_last, books.run_fate = first, last, fate.value


def store_run(database: Database, books: Books) -> None:
    """Move the newest run to the table, where it is joined with neighbours of the same fate."""
    first, last, fate = books.run_first, books.run_last, books.run_fate
    if not fate:
        return
    for begin, end, other in database.execute(_AROUND, (last + 1,)):
        if other != fate:
            continue
        if begin == books.run_last + 1:
            database.execute("DELETE FROM outcomes WHERE first = ?", (begin,))
            last = end
        elif end == books.run_first - 1:
            first = begin
    database.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?)", (first, last, fate))
    forget_run(books)


def forget_run(books: Books) -> None:
    """Nobody needs the newest run any more."""
    books.run_first, books.run_last, books.run_fate = 0, 0, ""


def forget_passed(database: Database, books: Books) -> None:
    """Drop what a receipt's `high` has passed: the server has closed those gaps."""
    high = books.passed
    database.execute("DELETE FROM outcomes WHERE first <= ? AND last <= ?", (high, high))
    if books.run_last <= high:
        forget_run(books)


def list_outcomes(database: Database, books: Books, limit: int) -> list[OutcomeRange]:
    """The oldest ranges that the server has not closed yet."""
    rows: list[Row] = database.execute(
        "SELECT first, last, fate FROM outcomes ORDER BY first LIMIT ?", (limit,)
    )
    if books.run_fate:
        rows = sorted([*rows, (books.run_first, books.run_last, books.run_fate)])
    joined: list[Row] = []
    for first, last, fate in rows:
        if joined and joined[-1][1] == first - 1 and joined[-1][2] == fate:
            joined[-1] = (joined[-1][0], last, fate)
        else:
            joined.append((first, last, fate))
    return [OutcomeRange(first=first, last=last, fate=Fate(fate)) for first, last, fate in joined[:limit]]


def bound_outcomes(database: Database, books: Books, limit: int = MAX_STORED) -> int:
    """Join neighbours with nothing queued between them while there are more than `limit` ranges.

    A joined range takes the fate of its longer part and may cover numbers that were delivered; the server keeps
    what it has. The ledger stays exact: it is counted elsewhere. What remains is at most one range for each
    queued event, and those are bounded by the quota.

    Returns:
        The number of ranges that were joined away.
    """
    if database.execute("SELECT count(*) FROM outcomes")[0][0] <= limit:
        return 0
    store_run(database, books)
    kept: list[list[object]] = []
    joined = 0
    for first, last, fate in database.execute("SELECT first, last, fate FROM outcomes ORDER BY first"):
        if kept and not _queued_between(database, int(str(kept[-1][1])), first):
            longer = int(str(kept[-1][1])) - int(str(kept[-1][0])) >= last - first
            kept[-1] = [kept[-1][0], last, kept[-1][2] if longer else fate]
            joined += 1
        else:
            kept.append([first, last, fate])
    database.execute("DELETE FROM outcomes")
    database.execute_many("INSERT INTO outcomes VALUES (?, ?, ?)", kept)
    return joined


def _queued_between(database: Database, after: int, before: int) -> bool:
    return bool(database.execute("SELECT 1 FROM queue WHERE seq > ? AND seq < ? LIMIT 1", (after, before)))
