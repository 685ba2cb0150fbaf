"""A fleet on paper: `fleet` on SQLite, `either` on both databases, for one test of each statement."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_server.storage import Store, open_store
from tests.rigs.databases import migrated_database
from tests.rigs.rollout_fleet import PaperFleet


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(migrated_database(request, tmp_path, "sqlite"))
    yield opened
    opened.close()


@pytest.fixture
def fleet(sqlite: Store) -> PaperFleet:
    return PaperFleet(sqlite)


@pytest.fixture
def either(store: Store) -> PaperFleet:
    return PaperFleet(store)
