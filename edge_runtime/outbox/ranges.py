"""Ranges of sequence numbers that will never be delivered: dense, merged, and bounded in number."""

from collections.abc import Iterable, Iterator

from edge_runtime.outbox.database import Database
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


def add_outcomes(database: Database, fate: Fate, numbers: Iterable[int]) -> None:
    """Store that these numbers ended so, joined with neighbours of the same fate."""
    for run in runs(numbers):
        first, last = run
        for begin, end, other in database.execute(_AROUND, (last + 1,)):
            if other != fate.value:
                continue
            if begin == run[1] + 1:
                database.execute("DELETE FROM outcomes WHERE first = ?", (begin,))
                last = end
            elif end == run[0] - 1:
                first = begin
        database.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?)", (first, last, fate.value))


def forget_passed(database: Database, high: int) -> None:
    """Drop what a receipt's `high` has passed: the server has closed those gaps."""
    database.execute("DELETE FROM outcomes WHERE first <= ? AND last <= ?", (high, high))


def list_outcomes(database: Database, limit: int) -> list[OutcomeRange]:
    """The oldest ranges that the server has not closed yet."""
    rows = database.execute("SELECT first, last, fate FROM outcomes ORDER BY first LIMIT ?", (limit,))
    return [OutcomeRange(first=first, last=last, fate=Fate(fate)) for first, last, fate in rows]


def bound_outcomes(database: Database, limit: int = MAX_STORED) -> int:
    """Join neighbours with nothing queued between them while there are more than `limit` ranges.

    A joined range takes the fate of its longer part and may cover numbers that were delivered; the server keeps
    what it has. The ledger stays exact: it is counted elsewhere. What remains is at most one range for each
    queued event, and those are bounded by the quota.

    Returns:
        The number of ranges that were joined away.
    """
    if database.execute("SELECT count(*) FROM outcomes")[0][0] <= limit:
        return 0
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
