"""Many rows with few statements: each row of an `executemany` costs a step of SQLite and a turn of the GIL."""

from collections.abc import Sequence
from itertools import chain

from edge_runtime.outbox.database import Database, DatabaseFault, Row, StoreFault

_AT_ONCE = 20
"""Rows of one statement; a fixed number, so that SQLite compiles it once. It leaves 180 of at most 999 values."""


_DELETE = f"DELETE FROM queue WHERE seq IN ({', '.join('?' * _AT_ONCE)})"  # noqa: S608 - only marks


class Insert:
    """Insertion into one table.

    Args:
        table: its name.
        columns: how many it has.
    """

    def __init__(self, table: str, columns: int) -> None:
        marks = f"({', '.join('?' * columns)})"
        self._one = f"INSERT INTO {table} VALUES {marks}"  # noqa: S608 - our own names
        self._many = f"INSERT INTO {table} VALUES {', '.join([marks] * _AT_ONCE)}"  # noqa: S608

    def run(self, database: Database, rows: Sequence[Row]) -> None:
        """Insert all rows.

        Raises:
            DatabaseFault: SQLite refused.
        """
        whole = len(rows) - len(rows) % _AT_ONCE
        for first in range(0, whole, _AT_ONCE):
            database.execute(self._many, list(chain.from_iterable(rows[first : first + _AT_ONCE])))
        if whole + 1 == len(rows):
            database.execute(self._one, rows[whole])
        elif whole < len(rows):
            database.execute_many(self._one, rows[whole:])


def delete_queued(database: Database, seqs: Sequence[int]) -> None:
    """Delete rows of the queue, none of them named twice; what ends together mostly came together.

    Raises:
        DatabaseFault: SQLite refused, or one of them is not there: the order in memory is not that of the file.
    """
    first, last = min(seqs), max(seqs)
    if last - first + 1 == len(seqs):
        database.execute("DELETE FROM queue WHERE seq BETWEEN ? AND ?", (first, last))
        deleted = database.changed()
    else:
        deleted = 0
        for at in range(0, len(seqs), _AT_ONCE):
            some = seqs[at : at + _AT_ONCE]
            database.execute(_DELETE, [*some, *[-1] * (_AT_ONCE - len(some))])
            deleted += database.changed()
    if deleted != len(seqs):
        raise DatabaseFault("a queued event is missing", StoreFault.CORRUPT)
