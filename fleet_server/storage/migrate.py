"""Bringing a database's schema up to date: Alembic's revisions, run inside the program, in one transaction.

It runs at every start, does nothing when nothing is to be done, and two processes that start together wait for
each other. A database that a newer release has changed is refused, because this release would misread it.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.storage import device_tables, event_tables, operator_tables, release_tables, rollout_tables
from fleet_server.storage.base import Base
from fleet_server.storage.engine import Store

METADATA = Base.metadata
TABLE_MODULES = (device_tables, event_tables, operator_tables, release_tables, rollout_tables)
"""Named so that every table is known to `METADATA` before it is compared."""

_SCRIPTS = Path(__file__).parent / "migrations"
_LOCK = 0x666C6565_00000001  # "flee": PostgreSQL's advisory lock for changes of the schema


class SchemaTooNew(ConfigError):
    """A newer release has changed this database."""


class StoreUnavailable(EdgeRuntimeError):
    """The database cannot be opened; the text says why, without its URL."""


def upgrade(store: Store) -> None:
    """Make the schema, or bring it up to date.

    Raises:
        SchemaTooNew: the database is of a newer release.
        StoreUnavailable: it cannot be reached or written.
    """
    try:
        with store.engine.begin() as connection:
            if not store.is_sqlite:  # SQLite's transaction holds the write lock already
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            scripts = _scripts()
            found = MigrationContext.configure(connection).get_current_revision()
            if found == scripts.get_current_head():
                return
            _require_known(found)
            upgrade_to(connection, "head")
    except SQLAlchemyError as error:
        raise StoreUnavailable(f"the database cannot be used: {reason(error)}") from None


def upgrade_to(connection: Connection, revision: str) -> None:
    """Run the revisions up to one of them, in the connection's transaction."""
    command.upgrade(_config(connection), revision)


def revisions() -> tuple[str, ...]:
    """Revisions of the schema that this release knows, the newest first."""
    return tuple(script.revision for script in _scripts().walk_revisions())


def differences(connection: Connection) -> list[object]:
    """What distinguishes the tables in the database from those in the code; empty when nothing does."""
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, METADATA))


def reason(error: SQLAlchemyError) -> str:
    """The database's own words in one line, without statement, parameters or URL."""
    origin = getattr(error, "orig", None)
    lines = str(origin if origin is not None else type(error).__name__).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(_SCRIPTS))


def _require_known(found: str | None) -> None:
    if found is not None and found not in revisions():
        raise SchemaTooNew(
            f"the database has schema {found}, made by a newer release: install that one, or restore a backup"
        )
