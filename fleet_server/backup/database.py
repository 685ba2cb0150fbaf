"""The database of a backup: one state of it, whatever it runs on, as one file of SQLite, and the way back.

SQLite is copied by its own backup call, in one read of its write-ahead log: whoever writes goes on. PostgreSQL is
read in one repeatable-read transaction, which sees one state as well and stops nobody. A file of SQLite can be read
in ten years without a server, is verified in the same way for both, and goes back to either of the two.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.backup.manifest import PRIVATE
from fleet_server.backup.problems import BackupDamaged, BackupFailed
from fleet_server.storage import Store, open_store, upgrade
from fleet_server.storage.engine import BUSY_TIMEOUT_MS
from fleet_server.storage.migrate import METADATA, reason

_AT_ONCE = 2000
_VERSION = "alembic_version"


def copy_out(store: Store, target: Path) -> None:
    """Copy one state of a database.

    Args:
        store: the server's; others may write meanwhile.
        target: file to make, readable by its owner alone.

    Raises:
        BackupFailed: the database cannot be read, or the copy cannot be written.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
    try:
        if store.is_sqlite:
            _copy_sqlite(Path(str(store.engine.url.database)), target)
        else:
            _copy_postgres(store, target)
        _settle(target)
    except sqlite3.Error as error:
        raise BackupFailed(f"the database cannot be copied: {error}") from None
    except SQLAlchemyError as error:
        raise BackupFailed(f"the database cannot be read: {reason(error)}") from None


def copy_in(source: Path, url: str) -> None:
    """Copy a file of SQLite with the newest schema into an empty database of PostgreSQL: all of it, or nothing.

    Raises:
        BackupFailed: the database refuses.
    """
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        with closing(sqlite3.connect(source)) as reading, psycopg.connect(address) as writing:
            for table in METADATA.sorted_tables:
                _fill_postgres(reading, writing, table)
    except psycopg.Error as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise BackupFailed(f"the database cannot be filled, and is as it was: {said[0][:200]}") from None


def is_empty(store: Store) -> bool:
    """Whether a database with the newest schema has no row."""
    with store.read() as session:
        return all(session.scalar(_any(table)) is None for table in METADATA.sorted_tables)


def read_rows(store: Store) -> dict[str, int]:
    """How many rows each table has."""
    with store.read() as session:
        return {
            table.name: int(session.scalar(sa.select(sa.func.count()).select_from(table)) or 0)
            for table in METADATA.sorted_tables
        }


def revision(store: Store) -> str:
    """Of the schema.

    Raises:
        BackupDamaged: there is none.
    """
    try:
        with store.read() as session:
            found = session.scalar(sa.text(f"SELECT version_num FROM {_VERSION}"))  # noqa: S608
    except SQLAlchemyError:
        found = None
    if found is None:
        raise BackupDamaged("the database has no schema of a fleet server")
    return str(found)


@contextmanager
def opened_copy(path: Path) -> Iterator[Store]:
    """A copy as a store; afterwards it is one file again.

    Raises:
        BackupDamaged: it is no database.
    """
    store = open_store(f"sqlite:///{path}")
    try:
        yield store
    except SQLAlchemyError as error:
        raise BackupDamaged(f"{path.name} cannot be read: {reason(error)}") from None
    finally:
        store.close()


@contextmanager
def read_only(path: Path) -> Iterator[Store]:
    """A copy as a store that writes nothing, not even beside it.

    Raises:
        BackupDamaged: it is no database.
    """
    store = Store(sa.create_engine(f"sqlite:///file:{quote(str(path))}?mode=ro&immutable=1&uri=true"))
    try:
        yield store
    except SQLAlchemyError as error:
        raise BackupDamaged(f"{path.name} cannot be read: {reason(error)}") from None
    finally:
        store.close()


def upgrade_copy(path: Path) -> None:
    """Bring a copy to the newest schema.

    Raises:
        EdgeRuntimeError: it is of a newer release, or cannot be written.
    """
    with opened_copy(path) as store:
        upgrade(store)


def finish_copy(path: Path) -> None:
    """Have a copy that was written to be one file, on the disk."""
    try:
        _settle(path)
    except sqlite3.Error as error:
        raise BackupFailed(f"the database cannot be written: {error}") from None


def faults(path: Path) -> str:
    """What SQLite finds wrong with a file; empty when nothing is."""
    address = f"file:{quote(str(path))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as found:
            text = str(found.execute("PRAGMA integrity_check(1)").fetchone()[0])
            orphan = found.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.Error as error:
        return str(error)
    if text != "ok":
        return text
    return "" if orphan is None else f"a row of {orphan[0]} refers to what is not there"


def prepared(url: str) -> Store:
    """A target database with the newest schema; close it.

    Raises:
        EdgeRuntimeError: it cannot be used.
    """
    store = open_store(url)
    try:
        upgrade(store)
    except EdgeRuntimeError:
        store.close()
        raise
    return store


def _copy_sqlite(source: Path, target: Path) -> None:
    if not source.is_file():
        raise ConfigError(f"{source} is missing: there is no database to back up")
    address = f"file:{quote(str(source))}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_MS / 1000)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(
            writing
        )  # in one step: a step that waits for writers would begin anew with each of them


def _copy_postgres(store: Store, target: Path) -> None:
    made = open_store(f"sqlite:///{target}")
    try:
        upgrade(made)
    finally:
        made.close()
    with (
        store.read() as session,
        closing(sqlite3.connect(target)) as writing,
    ):
        connection = session.connection()
        found = connection.scalar(sa.text(f"SELECT version_num FROM {_VERSION}"))  # noqa: S608
        ours = writing.execute(f"SELECT version_num FROM {_VERSION}").fetchone()[0]  # noqa: S608
        if found != ours:
            raise ConfigError(
                f"the database has schema {found} and this program {ours}: start the server once before"
            )
        writing.execute("PRAGMA foreign_keys=0")
        for table in METADATA.sorted_tables:
            statement = _insert(table)
            for rows in _pages(connection, table):
                writing.executemany(statement, rows)
        writing.commit()


def _pages(connection: sa.engine.Connection, table: sa.Table) -> Iterator[list[tuple[Any, ...]]]:
    """Rows as SQLite keeps them: JSON as text."""
    result = connection.execution_options(stream_results=True, yield_per=_AT_ONCE).execute(
        sa.select(*table.columns)
    )
    texts = [index for index, column in enumerate(table.columns) if isinstance(column.type, sa.JSON)]
    for page in result.partitions():
        yield [_plain(row, texts) for row in page]


def _plain(row: Iterable[Any], texts: list[int]) -> tuple[Any, ...]:
    values = list(row)
    for index in texts:
        values[index] = json.dumps(values[index])  # of None as well: that is how SQLAlchemy writes it
    return tuple(values)


def _fill_postgres(reading: sqlite3.Connection, writing: "psycopg.Connection[Any]", table: sa.Table) -> None:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    key = ", ".join(f'"{column.name}"' for column in table.primary_key)
    rows = reading.execute(f'SELECT {names} FROM "{table.name}" ORDER BY {key}')  # noqa: S608 - names of ours
    with writing.cursor() as cursor:
        with cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as copy:
            for row in rows:
                copy.write_row(row)
        for column in table.primary_key:
            owned = cursor.execute(
                "SELECT pg_get_serial_sequence(%s, %s)", (f'"{table.name}"', column.name)
            ).fetchone()
            if owned is not None and owned[0] is not None:
                cursor.execute(
                    f'SELECT setval(%s, (SELECT coalesce(max("{column.name}"), 0) + 1 FROM "{table.name}"), false)',  # noqa: S608
                    (owned[0],),
                )


def _insert(table: sa.Table) -> str:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    marks = ", ".join("?" * len(table.columns))
    return f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})'  # noqa: S608 - names of ours


def _any(table: sa.Table) -> Any:
    return sa.select(sa.literal(1)).select_from(table).limit(1)


def _settle(path: Path) -> None:
    """Leave one file and no log beside it, and flush it."""
    with closing(sqlite3.connect(path)) as found:
        found.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        found.execute("PRAGMA journal_mode=DELETE").close()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.chmod(PRIVATE)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
