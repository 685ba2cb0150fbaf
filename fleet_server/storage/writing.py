"""SQL that both databases understand but SQLAlchemy spells by dialect, and locks that only one of them needs."""

from typing import Any

from sqlalchemy import FromClause, Table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

INGEST_LOCK = 0x666C6565_00000002
AUDIT_LOCK = 0x666C6565_00000003

_MAX_BOUND = 500
"""Keys in one IN list: SQLite before 3.32 binds 999 values, and short statements are parsed sooner."""


def table(kind: Any) -> Table:
    """The table of a declarative class."""
    found: FromClause = kind.__table__
    assert isinstance(found, Table)
    return found


def insert(connection: Connection, into: Table) -> Any:
    """INSERT with ON CONFLICT, in the connection's dialect."""
    return (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(into)


def take_turn(connection: Connection, lock: int) -> None:
    """Wait until no other transaction has this lock; it is given back at the end of ours.

    SQLite has one writer at a time anyway, and its transaction began with the write lock.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})


def chunks(values: list[Any]) -> list[list[Any]]:
    """The same values in lists that are short enough for one IN."""
    return [values[start : start + _MAX_BOUND] for start in range(0, len(values), _MAX_BOUND)]
