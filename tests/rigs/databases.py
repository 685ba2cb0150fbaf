"""Both databases for one test: `stores()` gives fixtures that run a whole suite on SQLite and on PostgreSQL.

@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    yield from postgres_cluster()

@pytest.fixture(params=DATABASES)
def url(request, tmp_path) -> str:
    return new_database(request, tmp_path)
"""

from pathlib import Path

import pytest

from tests.rigs.postgres import PostgresCluster

DATABASES = ("sqlite", "postgresql")


def new_database(request: pytest.FixtureRequest, directory: Path) -> str:
    """URL of an empty database of the kind that the fixture's parameter names.

    PostgreSQL's cluster is the session fixture `postgres`, started only when a test needs it.
    """
    if request.param == "sqlite":
        return f"sqlite:///{directory / 'fleet.db'}"
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    return cluster.new_database()
