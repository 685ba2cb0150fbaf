"""The whole room runs on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_server.storage import Store, open_store
from tests.rigs.databases import DATABASES, migrated_database, new_database
from tests.rigs.postgres import PostgresCluster, postgres_cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """A PostgreSQL of its own, started by the first test that needs it."""
    yield from postgres_cluster()


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database."""
    return new_database(request, tmp_path)


@pytest.fixture(params=DATABASES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A database with the newest schema."""
    opened = open_store(migrated_database(request, tmp_path))
    yield opened
    opened.close()
