"""Many rows with few statements: each row of an `executemany` costs a step of SQLite and a turn of the GIL."""

from collections.abc import Sequence
from itertools import chain

from edge_runtime.outbox.database import Database, DatabaseFault, Row, StoreFault

_AT_ONCE = 20
"""Rows of one deletion; a fixed number, so that SQLite compiles it once."""

_DELETE = f"DELETE FROM queue WHERE seq IN ({', '.join('?' * _AT_ONCE)})"  # noqa: S608 - only marks

_ANY = "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PLAIN = "(?, ?, ?, ?, ?, 0, NULL, ?, ?)"
_SIZES = {size: "INSERT INTO queue VALUES " + ", ".join([_PLAIN] * size) for size in (50, 10, 1)}  # noqa: S608 - only marks
"""Rows of one insertion, largest first, each with seven values of at most 999."""


def insert_queued(database: Database, rows: Sequence[Row]) -> None:
    """Insert rows of the queue.

    Nearly all have no evidence and were not tried, which binds two values less. Python's sqlite3 looks for an
    adapter of bytes, and for none of a bytearray.

    Raises:
        DatabaseFault: SQLite refused.
    """
    plain = [
        (seq, bytearray(key), severity, added, deadline, crc, bytearray(body))
        for seq, key, severity, added, deadline, tries, evidence, crc, body in rows
        if evidence is None and not tries
    ]
    if len(plain) < len(rows):
        database.execute_many(_ANY, [row for row in rows if row[6] is not None or row[5]])
    done = 0
    for size, statement in _SIZES.items():
        while len(plain) - done >= size:
            database.execute(statement, list(chain.from_iterable(plain[done : done + size])))
            done += size


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
