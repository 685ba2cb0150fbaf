"""One server for each broker and database, shared by all tests; each test has devices of its own."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.road import Server, running
from tests.rigs.postgres import PostgresCluster, postgres_cluster
from tests.rigs.roads import COMBINATIONS, make_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """A PostgreSQL of its own, started by the first test that needs it."""
    yield from postgres_cluster()


@pytest.fixture(scope="session", params=COMBINATIONS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server."""
    folder = tmp_path_factory.mktemp("-".join(request.param))
    with running(make_server(request, folder, request.param)) as started:
        yield started


@pytest.fixture
def name() -> str:
    """A device's name that no other test has used."""
    return f"dev-{next(_numbers)}"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where a submitter writes."""
    return tmp_path / "journal"
