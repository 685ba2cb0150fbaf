"""`fleet serve` keeps what it signs itself fresh, from its first breath on."""

import time
from pathlib import Path

import httpx
from tuf.api.metadata import Metadata, Timestamp

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.audit import Audit
from fleet_server.releases.desk import ReleaseDesk
from fleet_server.releases.roles import milliseconds
from fleet_server.settings import ServerSettings
from fleet_server.storage import open_store
from tests.rigs.deliveries import FakeClock
from tests.rigs.fleet_server import FleetServer, RealDevice
from tests.rigs.release_parties import SignedFleet, configuration

DAY_MS = 86_400_000


def test_a_server_that_was_off_for_three_days_signs_anew_and_serves(tmp_path: Path) -> None:
    server = FleetServer(tmp_path / "data")
    settings = ServerSettings.load(server.directory, {})
    now_ms = SystemClock().wall().unix_ns // NS_PER_MS
    clock = FakeClock()
    clock.wall_ms = now_ms - 3 * DAY_MS
    store = open_store(settings.database_url)
    desk = ReleaseDesk(settings.paths, store, settings.releases, audit=Audit(clock), clock=clock)
    fleet = SignedFleet.begin(tmp_path, store, clock=clock, desk=desk)
    release = fleet.publish(configuration(tmp_path / "c"), name="base")
    store.close()
    with server:
        device = RealDevice.enrol(server, "dock-1")
        with httpx.Client(
            base_url=server.url, verify=device.credentials.client_context(), trust_env=False
        ) as client:
            found = _fresh(client, now_ms)
            assert found.signed.version == 3, "two were made when people published"
            path = f"/v1/updates/targets/configurations/base/1/{release.sha256}.bundle.json"
            assert client.get(path).content == release.bundle.canonical_bytes()
        warned = [warning["subject"] for warning in server.ask("/v1/health")["warnings"]]
        assert not [subject for subject in warned if subject.startswith("releases")]


def _fresh(client: httpx.Client, now_ms: int, within_s: float = 20.0) -> "Metadata[Timestamp]":
    deadline = time.monotonic() + within_s
    while True:
        answer = client.get("/v1/updates/metadata/timestamp.json")
        assert answer.status_code == 200, answer.text
        found: Metadata[Timestamp] = Metadata.from_bytes(answer.content)
        if milliseconds(found.signed.expires) > now_ms:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.1)
