"""SQL that both databases understand but SQLAlchemy spells by dialect, and locks that only one of them needs.

What every transaction of ingest runs goes to the driver itself, in the connection and the transaction that
SQLAlchemy holds: SQLAlchemy needs 125 us to build and compile a SELECT that SQLite answers in 2, `run` needs 20,
and `fetch` and `run_many` need 2. Errors are SQLAlchemy's all the same.
"""

import functools
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import CursorResult, FromClause, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

INGEST_LOCK = 0x666C6565_00000002
AUDIT_LOCK = 0x666C6565_00000003
RELEASE_LOCK = 0x666C6565_00000005  # 4 is of fleet_server.devices.admission
ROLLOUT_LOCK = 0x666C6565_00000006  # taken after that of ingest, and before that of the audit

_ROWS_AT_ONCE = 25
"""Rows of one INSERT: with the columns of an event fewer than 999 values, and faster than 10 or 50."""

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


def run(connection: Connection, statement: str, *values: Any) -> CursorResult[Any]:
    """Run a statement, its values marked by `?` on both databases."""
    return connection.exec_driver_sql(_marked(connection.dialect.name, statement), values)


def fetch(connection: Connection, statement: str, *values: Any) -> list[Any]:
    """Run a SELECT, its values marked by `?` on both databases; its rows are tuples."""
    cursor = on_driver(_begun(connection), _marked(connection.dialect.name, statement), values)
    found: list[Any] = cursor.fetchall()
    return found


def run_many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run a statement for each of one or more rows, its values marked by `?`."""
    on_driver(_begun(connection), _marked(connection.dialect.name, statement), rows, many=True)


def insert_new(
    connection: Connection, into: str, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]], key: str
) -> int:
    """Insert rows whose key is not in the table; how many that were.

    Args:
        connection: of a transaction.
        into: name of the table.
        columns: names, with PostgreSQL's types.
        rows: at least one; values in the order of the columns.
        key: the unique column.
    """
    names = tuple(columns)
    _begun(connection)
    if connection.dialect.name == "sqlite":
        return _insert_at_once(connection, into, names, rows, key)
    # One statement with an array for each column, in binary: half of executemany's time at 100 rows, and less
    # than half at 500. Rows in VALUES, and arrays as text, take twice as long as executemany.
    arrays = tuple(map(list, zip(*rows, strict=True)))
    done = on_driver(connection, _insert_arrays(into, names, tuple(columns.values()), key), arrays)
    return int(done.rowcount)


def _insert_at_once(
    connection: Connection, into: str, names: tuple[str, ...], rows: Sequence[tuple[Any, ...]], key: str
) -> int:
    """Many rows in a statement: each row of an executemany costs SQLite a step, and us a turn of the GIL."""
    inserted, whole = 0, len(rows) - len(rows) % _ROWS_AT_ONCE
    for first in range(0, whole, _ROWS_AT_ONCE):
        values = list(chain.from_iterable(rows[first : first + _ROWS_AT_ONCE]))
        inserted += on_driver(connection, _insert_rows(into, names, key, _ROWS_AT_ONCE), values).rowcount
    if whole < len(rows):
        statement = _insert_rows(into, names, key, 1)
        inserted += on_driver(connection, statement, rows[whole:], many=True).rowcount
    return inserted


def _begun(connection: Connection) -> Connection:
    """In a transaction, as SQLAlchemy begins one by itself."""
    if not connection.in_transaction():
        connection.begin()
    return connection


def on_driver(connection: Connection, statement: str, values: Any = (), *, many: bool = False) -> Any:
    """The driver's cursor after a statement in its own spelling; it begins no transaction.

    Raises:
        DBAPIError: the database refused; a connection that is lost is given up, as SQLAlchemy does.
    """
    cursor = connection.connection.cursor()
    try:
        if many:
            cursor.executemany(statement, values)
        else:
            cursor.execute(statement, values)
    except Exception as error:
        dialect = connection.dialect
        kind = dialect.loaded_dbapi.Error
        if not isinstance(error, kind):
            raise
        lost = dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement, None, error, kind, hide_parameters=True, connection_invalidated=lost, dialect=dialect
        ) from error
    return cursor


@functools.lru_cache(maxsize=512)
def _marked(dialect: str, statement: str) -> str:
    return statement if dialect == "sqlite" else statement.replace("?", "%s")


@functools.cache
def _insert_rows(into: str, names: tuple[str, ...], key: str, rows: int) -> str:
    places = ", ".join([f"({', '.join('?' * len(names))})"] * rows)
    return f"INSERT INTO {into} ({', '.join(names)}) VALUES {places} ON CONFLICT ({key}) DO NOTHING"  # noqa: S608


@functools.cache
def _insert_arrays(into: str, names: tuple[str, ...], types: tuple[str, ...], key: str) -> str:
    places = ", ".join(f"%b::{kind}[]" for kind in types)
    return (
        f"INSERT INTO {into} ({', '.join(names)}) SELECT * FROM unnest({places}) "  # noqa: S608 - names of ours
        f"ON CONFLICT ({key}) DO NOTHING"
    )


def take_turn(connection: Connection, lock: int) -> None:
    """Wait until no other transaction has this lock; it is given back at the end of ours.

    SQLite has one writer at a time anyway, and its transaction began with the write lock.
    """
    if connection.dialect.name != "sqlite":
        fetch(connection, "SELECT pg_advisory_xact_lock(?)", lock)


def chunks(values: list[Any]) -> list[list[Any]]:
    """The same values in lists that are short enough for one IN."""
    return [values[start : start + _MAX_BOUND] for start in range(0, len(values), _MAX_BOUND)]
