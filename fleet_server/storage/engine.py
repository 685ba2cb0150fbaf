"""Opening the database: SQLite by default, PostgreSQL by URL, the same schema and the same calls.

SQLite runs in WAL with `synchronous=FULL`: what was receipted must survive a power cut. A writing transaction
takes the write lock when it begins, so that two processes wait for each other instead of failing half-way.
PostgreSQL is given up on when it does not answer: a half-open connection must not stop ingest for hours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from edge_runtime.errors import ConfigError
from fleet_server.storage.writing import on_driver

BUSY_TIMEOUT_MS = 10_000
_POSTGRES = {
    "connect_timeout": 5,
    "tcp_user_timeout": 15_000,  # ms; a cut cable is noticed after this
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "application_name": "fleet",
    "options": "-c lock_timeout=10s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s",
}
_SQLITE: dict[str, str | int] = {
    "journal_mode": "wal",
    "synchronous": 2,  # FULL: what was receipted survives a power cut
    "foreign_keys": 1,
    "journal_size_limit": 64 * 1024 * 1024,
}
_PAGE_BYTES = 8192
"""Of a new file; an older one keeps its own. Events of 1 KB fill it better than 4096 bytes: fewer are written."""

_READ_ONLY = "fleet_read_only"


class Store:
    """One database.

    Args:
        engine: from `open_store`.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file rather than a server."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session in one transaction: committed at the end, rolled back by an exception."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database and takes no write lock."""
        options: dict[str, Any] = {_READ_ONLY: True}
        if not self.is_sqlite:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self.engine.connect().execution_options(**options) as connection:
            with Session(connection, expire_on_commit=False) as session:
                yield session
            connection.rollback()

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()


def open_store(url: str) -> Store:
    """Open a database; its schema is brought up to date by `fleet_server.storage.migrate.upgrade`.

    Args:
        url: `sqlite:////path/fleet.db` or `postgresql://user@host/name`.

    Raises:
        ConfigError: the URL is of neither kind; its text is not repeated, because it may hold a password.
    """
    try:
        parsed = make_url(url)
    except (
        ArgumentError,
        ValueError,
    ):  # a password without its @ stands where a port should: int() would say it
        raise ConfigError("the database URL cannot be read; see docs/fleet.md for examples") from None
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        engine = create_engine(parsed, hide_parameters=True, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    elif kind == "postgresql":
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            hide_parameters=True,  # an error of the database must not bring content into a log
            connect_args={**_POSTGRES, **parsed.query},
        )
    else:
        raise ConfigError(f"the database kind {kind} is not supported: use sqlite or postgresql")
    return Store(engine)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun by _begin_sqlite alone
    connection.execute(f"PRAGMA page_size={_PAGE_BYTES}").close()
    for pragma, wanted in _SQLITE.items():
        # SQLite ignores in silence what it does not know or cannot do, WAL on a network file system among it
        connection.execute(f"PRAGMA {pragma}={wanted}").close()
        found = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        if found != wanted:
            raise ConfigError(f"SQLite keeps {pragma} at {found} here; put the database on a local disk")


def _begin_sqlite(connection: Connection) -> None:
    read_only = connection.get_execution_options().get(_READ_ONLY, False)
    on_driver(connection, "BEGIN" if read_only else "BEGIN IMMEDIATE")
