"""One running server for each kind of broker, shared by the attacks; each has devices of its own."""

import itertools
from collections.abc import Iterator

import pytest

from sim.road import Server, running
from tests.rigs.postgres import PostgresCluster, postgres_cluster
from tests.rigs.roads import make_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """A PostgreSQL of its own, started by the first test that needs it."""
    yield from postgres_cluster()


@pytest.fixture(scope="session", params=["nats", pytest.param("mosquitto", marks=pytest.mark.trial)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server that is to stay up whatever is done to it."""
    folder = tmp_path_factory.mktemp(f"attacked-{request.param}")
    with running(make_server(request, folder, (request.param, "sqlite"))) as started:
        yield started


@pytest.fixture
def name() -> str:
    """A device's name that no other test has used."""
    return f"dev-{next(_numbers)}"
