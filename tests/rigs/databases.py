"""Both databases for one test: `DATABASES` as a fixture's parameters runs a whole suite on SQLite and PostgreSQL.

@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    yield from postgres_cluster()

@pytest.fixture(params=DATABASES)
def database_url(request, tmp_path) -> str:
    return new_database(request, tmp_path)           # empty; `migrated_database` has the newest schema
"""

import functools
import shutil
import tempfile
from pathlib import Path

import psycopg
import pytest

from fleet_server.storage import open_store, upgrade
from fleet_server.storage.migrate import METADATA
from tests.rigs.postgres import PostgresCluster

DATABASES = ("sqlite", "postgresql")


def new_database(request: pytest.FixtureRequest, directory: Path, kind: str | None = None) -> str:
    """URL of an empty database of a kind in `DATABASES`; the fixture's parameter names it when None.

    PostgreSQL's cluster is the session fixture `postgres`, started only when a test needs it.
    """
    if (kind or request.param) == "sqlite":
        return f"sqlite:///{directory / 'fleet.db'}"
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    return cluster.new_database()


def migrated_database(request: pytest.FixtureRequest, directory: Path, kind: str | None = None) -> str:
    """An empty database with the newest schema, without migrating for every test.

    SQLite: a copy of a file. PostgreSQL: the same database again with its rows deleted, which takes milliseconds
    where a new one takes a quarter of a second; a test that changes the schema wants `new_database`.
    """
    if (kind or request.param) == "sqlite":
        return migrated_file(directory)
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    url = _migrated_in(cluster)
    _empty(url)
    return url


def put_schema(url: str) -> None:
    """Have an SQLite file that is not there yet begin with the newest schema: migrating takes long."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_migrated_file())


def migrated_file(directory: Path) -> str:
    """URL of an SQLite database with the newest schema; `migrated_database` for tests without fixtures."""
    target = directory / "fleet.db"
    target.write_bytes(_migrated_file())
    return f"sqlite:///{target}"


@functools.lru_cache(maxsize=1)
def _migrated_file() -> bytes:
    folder = Path(tempfile.mkdtemp(prefix="fleet-schema-"))
    try:
        _migrate(f"sqlite:///{folder / 'fleet.db'}")
        return (folder / "fleet.db").read_bytes()
    finally:
        shutil.rmtree(folder)


@functools.lru_cache(maxsize=1)
def _migrated_in(cluster: PostgresCluster) -> str:
    url = cluster.new_database()
    _migrate(url)
    return url


def _empty(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SET session_replication_role = replica"
        )  # the audit log forbids DELETE by a trigger
        connection.execute("; ".join(f'DELETE FROM "{name}"' for name in METADATA.tables))


def _migrate(url: str) -> None:
    store = open_store(url)
    upgrade(store)
    store.close()  # the last connection to an SQLite file also empties its write-ahead log
