"""A release comes from the fleet server's own routes into a device's store, over a road that is cut."""

import gc
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.protocol.update import Assignment, UpdateAction, UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.bring import bring
from fleet_server.releases import catalog
from tests.rigs.cutting_relay import CuttingRelay
from tests.rigs.deliveries import FakeClock
from tests.rigs.downloads import Device
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.release_parties import SignedFleet, configuration
from tests.rigs.update_devices import DeviceClient, device_client

# The server ends in this process while asyncio still waits for the goodbyes of connections that the relay cut.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[FleetApi]:
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    yield from fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock)
    gc.collect()


@pytest.fixture
def fleet(api: FleetApi, tmp_path: Path) -> SignedFleet:
    services = api.application.services
    return SignedFleet.begin(tmp_path, services.store, clock=services.clock, desk=services.releases)


@pytest.fixture
def client(api: FleetApi, fleet: SignedFleet, tmp_path: Path) -> Iterator[DeviceClient]:
    with served(api) as url, device_client(api, url, tmp_path, "dock-1") as found:
        yield found


def assignment(release: catalog.PublishedRelease) -> Assignment:
    return Assignment(
        device="dock-1",
        key_sha256="0" * 64,
        seq=1,
        slot="configuration",
        action=UpdateAction.INSTALL,
        target=release.target,
        length=release.length,
        sha256=release.sha256,
        issued_ms=0,
        expires_ms=1,
    )


class Told:
    """Who asked for it."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []

    def progress(self, done_bytes: int, of_bytes: int) -> None:
        self.done.append((done_bytes, of_bytes))

    def cancelled(self) -> bool:
        return False


def published(fleet: SignedFleet, folder: Path, size: int) -> catalog.PublishedRelease:
    configuration(folder, "events: {labels: {person: human}}\n")
    names = {f"label {number}": os.urandom(30).hex() for number in range(size // 80)}
    (folder / "labels.json").write_text(json.dumps(names))
    return fleet.publish(folder, name="base")


def test_a_release_comes_whole_over_a_road_that_is_cut(
    client: DeviceClient, fleet: SignedFleet, tmp_path: Path
) -> None:
    """The list of files and the files, from the routes that a real server has; nothing is fetched twice."""
    release = published(fleet, tmp_path / "c", 700_000)
    rng, lock = random.Random(4), threading.Lock()
    waiting = [rng.randrange(1, 60_000) for _ in range(20)]

    def cut_after() -> int | None:
        with lock:
            return waiting.pop() if waiting else None

    port = urlsplit(client.url).port
    assert port is not None
    with CuttingRelay(port, cut_after) as relay:
        device = Device(tmp_path / "updates", relay.url, client.context)
        told = Told()
        bring(assignment(release), release.terms, device.store, _Fetching(device), told)
    assert relay.cuts >= 10
    folder = device.store.files(release.sha256)
    for file in release.bundle.files:
        assert (folder / file.path).read_bytes() == (tmp_path / "c" / file.path).read_bytes()
    assert told.done[-1] == (release.bundle.total_bytes, release.bundle.total_bytes)
    assert relay.passed <= release.bundle.total_bytes + 21 * 64 * 1024
    before = relay.passed
    bring(assignment(release), release.terms, device.store, _Fetching(device), told)
    assert relay.passed == before, "brought once, it is only looked at"


def test_a_revoked_release_is_not_found(client: DeviceClient, fleet: SignedFleet, tmp_path: Path) -> None:
    release = published(fleet, tmp_path / "c", 10_000)
    fleet.revoke(release.target)
    device = Device(tmp_path / "updates", client.url, client.context)
    with pytest.raises(UpdateRefused) as caught:
        bring(assignment(release), release.terms, device.store, _Fetching(device), Told())
    assert (caught.value.code, caught.value.again) == (UpdateCode.DOWNLOAD_NOT_FOUND, False)


class _Fetching:
    """The device's downloader, as the driver of updates uses it."""

    def __init__(self, device: Device) -> None:
        self.fetch = device.downloader().fetch
