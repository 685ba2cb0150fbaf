"""The application on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.databases import DATABASES, migrated_database
from tests.rigs.fleet_api import FleetApi, fleet_api


@pytest.fixture(params=DATABASES)
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FleetApi]:
    """An application with a clock that stands still."""
    yield from fleet_api(tmp_path, migrated_database(request, tmp_path))


@pytest.fixture
def small_api(tmp_path: Path) -> Iterator[FleetApi]:
    """One on SQLite, for what has nothing to do with the database."""
    yield from fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}")
