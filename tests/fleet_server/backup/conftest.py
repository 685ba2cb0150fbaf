"""A server's application with everything that a backup has to hold, on both databases."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.backup import create, restore
from fleet_server.backup.manifest import Manifest
from fleet_server.backup.restore import Restored
from fleet_server.serve.composition import Application, open_application
from fleet_server.storage import open_store
from fleet_server.storage.migrate import METADATA
from tests.rigs.databases import DATABASES, new_database
from tests.rigs.deliveries import DeviceRig, FakeClock, grant
from tests.rigs.fleet_api import FleetApi, fleet_api
from tests.rigs.release_parties import SignedFleet, configuration

PICTURE = b"a picture" * 5000
DIGEST = hashlib.sha256(PICTURE).hexdigest()


@dataclass
class Site:
    """One server and one device.

    Attributes:
        fleet: its people and releases.
        dock: a device that delivered three events, one of them with evidence.
        empty: makes an empty database of the same kind to restore into; its URL, `file` for SQLite.
    """

    api: FleetApi
    fleet: SignedFleet
    dock: DeviceRig
    folder: Path
    empty: Callable[[], str]

    @property
    def kept(self) -> Path:
        return self.folder / "backups"

    def back_up(self, **options: Any) -> tuple[Path, Manifest]:
        return create(self.api.directory, self.kept, {}, clock=self.api.clock, **options)

    def restored(self, backup: Path, directory: Path) -> Restored:
        return restore(backup, directory, {}, database=self.empty(), clock=self.api.clock)

    def opened(self, found: Restored) -> Application:
        return open_application(found.directory, {})


def tables(url: str) -> Mapping[str, list[tuple[Any, ...]]]:
    """All rows of a database."""
    store = open_store(url)
    with store.read() as session:
        found = {
            name: sorted((tuple(map(_plain, row)) for row in session.execute(table.select())), key=repr)
            for name, table in METADATA.tables.items()
        }
    store.close()
    return found


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.fixture(scope="package", params=DATABASES)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that has something of everything, and to which its tests only add."""
    yield from made_site(request, tmp_path_factory.mktemp("site"))


@pytest.fixture
def own_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """One that a test may change, on SQLite."""
    yield from made_site(request, tmp_path, "sqlite")


def made_site(request: pytest.FixtureRequest, folder: Path, kind: str | None = None) -> Iterator[Site]:
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    is_file = (kind or request.param) == "sqlite"

    def empty() -> str:
        return "file" if is_file else new_database(request, folder, "postgresql")

    for api in fleet_api(folder, new_database(request, folder, kind), clock=clock):
        services = api.application.services
        fleet = SignedFleet.begin(folder, services.store, clock=clock, desk=services.releases)
        fleet.publish(configuration(folder / "c1"), name="base")
        api.add_device("dock-1")
        dock = DeviceRig("dock-1")
        api.deliver(dock, {"rule": "first"}, {"rule": "second"})
        api.take(dock.bundle(dock.item(decision={"evidence": grant(DIGEST, len(PICTURE))})))
        services.evidence.append("dock-1", DIGEST, 0, PICTURE)
        yield Site(api, fleet, dock, folder, empty)
