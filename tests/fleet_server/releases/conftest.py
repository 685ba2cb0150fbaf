"""Signed fleets over a database."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.releases.roles import Preset
from fleet_server.storage import Store, open_store
from tests.rigs.databases import migrated_database
from tests.rigs.deliveries import FakeClock
from tests.rigs.release_parties import SignedFleet, small_package


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves when told, from now on."""
    made = FakeClock()
    made.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    return made


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """For what has nothing to do with the database."""
    folder = tmp_path / "store"
    folder.mkdir()
    store = open_store(migrated_database(request, folder, "sqlite"))
    yield store
    store.close()


@pytest.fixture(scope="session")
def ceremony(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a team of three whose ceremony was held, to be copied: it takes a third of a second."""
    folder = tmp_path_factory.mktemp("ceremony")
    store = open_store(migrated_database(request, folder, "sqlite"))
    SignedFleet.begin(folder, store)
    store.close()
    return folder


@pytest.fixture
def fleet(tmp_path: Path, ceremony: Path, clock: FakeClock) -> Iterator[SignedFleet]:
    """A team of three."""
    made = SignedFleet.again(ceremony, tmp_path, clock)
    yield made
    made.store.close()


@pytest.fixture
def begin(tmp_path: Path, sqlite: Store, clock: FakeClock) -> Callable[[Preset], SignedFleet]:
    """A fleet with another preset."""
    return lambda preset: SignedFleet.begin(tmp_path, sqlite, preset=preset, clock=clock)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Packages that are fit; each is made once for all tests, which leave it as it is."""
    folder = tmp_path_factory.mktemp("packages")
    made: dict[str, Path] = {}

    def package(**fields: object) -> Path:
        key = repr(sorted(fields.items()))
        if key not in made:
            made[key] = small_package(folder / f"p{len(made)}", **fields)  # type: ignore[arg-type]
        return made[key]

    return package
