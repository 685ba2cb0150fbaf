"""The seam to SQLite: four calls, and faults by name.

The standard library's `sqlite3` serves devices. The power-cut test drives the very same outbox through another
implementation that records every write and every sync.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from edge_runtime.outbox.records import OutboxError

Row = tuple[Any, ...]

# sqlite3 looks for an adapter of every value but int, float, str and bytearray, and where it finds none it asks the
# value and the protocol for theirs, which raises and drops an AttributeError: half a microsecond for each key, body
# and NULL. These return what they are given.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), lambda nothing: nothing)


class StoreFault(str, Enum):
    """What kind of thing is wrong with the database.

    Attributes:
        FULL: no room on the disk, or the database has reached its hard limit.
        UNWRITABLE: read-only, or the disk fails.
        CORRUPT: the file is damaged, or is none of ours.
        OTHER: a defect.
    """

    FULL = "full"
    UNWRITABLE = "unwritable"
    CORRUPT = "corrupt"
    OTHER = "other"


class DatabaseFault(OutboxError):
    """SQLite refused; the text is its own.

    Attributes:
        fault: what kind of thing is wrong.
    """

    def __init__(self, text: str, fault: StoreFault | None = None) -> None:
        super().__init__(text)
        self.fault = fault_of(text) if fault is None else fault


class Database(Protocol):
    """One connection, used by one thread at a time, in autocommit mode."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return all its rows.

        Raises:
            DatabaseFault: SQLite refused.
        """
        ...

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each of `rows`.

        Raises:
            DatabaseFault: SQLite refused.
        """
        ...

    def changed(self) -> int:
        """Rows that the last INSERT, UPDATE or DELETE changed."""
        ...

    def close(self) -> None:
        """Let go of the file; never raises."""
        ...


Connect = Callable[[Path | None], Database]
"""Opens a database file, or one in memory for None. Raises DatabaseFault."""


class StandardDatabase:
    """A connection of the standard library.

    Args:
        path: the file, or None for a database in memory.

    Raises:
        DatabaseFault: it cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        try:
            self._connection = sqlite3.connect(
                ":memory:" if path is None else path,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                timeout=2,
            )
        except sqlite3.Error as error:
            raise DatabaseFault(str(error)) from error
        self._cursor = self._connection.cursor()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return all its rows."""
        try:
            return self._cursor.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise DatabaseFault(str(error)) from error

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each of `rows`."""
        try:
            self._cursor.executemany(sql, rows)
        except sqlite3.Error as error:
            raise DatabaseFault(str(error)) from error

    def changed(self) -> int:
        """Rows that the last INSERT, UPDATE or DELETE changed."""
        return self._cursor.rowcount

    def close(self) -> None:
        """Let go of the file."""
        try:
            self._cursor.close()
            self._connection.close()
        except sqlite3.Error:
            pass  # what was committed is safe, and there is nobody to tell


_TEXTS = {
    StoreFault.FULL: ("database or disk is full",),
    StoreFault.UNWRITABLE: ("readonly database", "disk i/o error", "unable to open database", "is locked"),
    StoreFault.CORRUPT: (
        "malformed",
        "not a database",
        "no such table",
        "no such column",
        "unsupported file",
    ),
}


def fault_of(text: str) -> StoreFault:
    """What kind of fault SQLite's message names; Python 3.10 has no error codes."""
    lower = text.lower()
    for fault, parts in _TEXTS.items():
        if any(part in lower for part in parts):
            return fault
    return StoreFault.OTHER
