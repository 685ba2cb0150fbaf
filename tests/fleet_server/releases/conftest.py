"""Signed fleets over a database."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.releases.roles import Preset
from fleet_server.storage import Store, open_store, upgrade
from tests.rigs.deliveries import FakeClock
from tests.rigs.release_parties import SignedFleet, small_package


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves when told, from now on."""
    made = FakeClock()
    made.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    return made


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    """For what has nothing to do with the database."""
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}")
    upgrade(store)
    yield store
    store.close()


@pytest.fixture
def fleet(tmp_path: Path, sqlite: Store, clock: FakeClock) -> SignedFleet:
    """A team of three."""
    return SignedFleet.begin(tmp_path, sqlite, clock=clock)


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
