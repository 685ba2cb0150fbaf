"""From an operator's act to the broker's: a real database, a real NATS, and a live connection that is cut."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from fleet_server.authority import RevokedCertificate
from fleet_server.authority.authority import private_pem
from fleet_server.broker import (
    BrokerError,
    BrokerFollower,
    BrokerState,
    BrokerStatus,
    BrokerUser,
    EmbeddedBroker,
)
from fleet_server.broker.embedded import EmbeddedSettings
from fleet_server.broker.follow import EXPIRY_S
from fleet_server.storage import Store, open_store, upgrade
from tests.rigs.brokers import Recorder, accepts, wait_until
from tests.rigs.enrolments import Asker, Office, serial_of
from tests.rigs.pki import Credentials, MovableClock
from tests.rigs.site import Site, connect_to


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'fleet.db'}")
    upgrade(store)
    yield store
    store.close()


def credentials(site: Site, asker: Asker, pem: str | None) -> Credentials:
    serial = serial_of(pem)
    certificate, key = site.root / f"{serial}.pem", site.root / f"{serial}.key"
    certificate.write_text(pem or "")
    key.write_bytes(private_pem(asker.key))
    return Credentials(asker.name or "", serial, certificate, key, site.authority_file)


def test_a_revocation_reaches_the_live_connection(sqlite: Store, tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    office = Office.at(sqlite, site.authority, site.clock)
    settings = EmbeddedSettings(
        directory=site.root / "broker",
        server=site.server,
        ingest=site.ingest,
        authority=site.authority_file,
        host="127.0.0.1",
        port=0,
    )
    broker = EmbeddedBroker(settings, SystemClock())
    follower = BrokerFollower(sqlite, broker, lambda: site.ingest_user, site.clock)
    follower.start()
    connections: list[Recorder] = []
    try:
        asker, other = Asker(name="dev-1"), Asker(name="dev-2")
        parties = []
        for device in (asker, other):
            answer = office.service.enrol(device.request(office.registry.invite("alice").token))
            parties.append(credentials(site, device, answer.certificate))
        for party in parties:
            assert wait_until(lambda party=party: _connects(broker, party, connections), 5)
        began = time.monotonic()
        office.registry.revoke("bob", "dev-1")
        assert wait_until(lambda: bool(connections[0].reasons), 3)
        assert time.monotonic() - began < 2, "the broker is told within 250 ms and obeys at once"
        assert not accepts(broker.port, parties[0])
        assert connections[1].reasons == []
        # a new key of the same device, accepted: the old one is out at once
        again = Asker(name="dev-2")
        token = office.registry.invite("alice").token
        office.service.enrol(again.request(token))
        assert not wait_until(lambda: bool(connections[1].reasons), 0.6), "pending changes nothing"
        office.registry.approve("bob", "dev-2")
        assert wait_until(lambda: bool(connections[1].reasons), 3)
        answer = office.service.enrol(again.request(token))
        assert _connects(broker, credentials(site, again, answer.certificate), connections)
    finally:
        for recorder in connections:
            recorder.close()
        follower.stop()
    assert broker.status().state is BrokerState.STOPPED


def _connects(broker: EmbeddedBroker, party: Credentials, kept: list[Recorder]) -> bool:
    if not accepts(broker.port, party):
        return False
    kept.append(connect_to(broker.port, party))
    return kept[-1].accepted is True


class Listening:
    """A broker that writes down what it is told, and can refuse."""

    def __init__(self) -> None:
        self.told: list[set[str]] = []
        self.refuses = False
        self.breaks = False

    def start(self, users: list[BrokerUser], revoked: list[RevokedCertificate]) -> None:
        self.apply(users, revoked)

    def apply(self, users: list[BrokerUser], revoked: list[RevokedCertificate]) -> None:
        if self.refuses:
            raise BrokerError("it does not run")
        if self.breaks:
            raise RuntimeError("a defect")
        self.told.append({user.name for user in users})

    def status(self) -> BrokerStatus:
        return BrokerStatus(BrokerState.RUNNING)

    def stop(self) -> None:
        self.told.append(set())


def test_what_ran_out_is_told_and_what_was_refused_is_told_again(sqlite: Store, tmp_path: Path) -> None:
    clock = MovableClock()
    office = Office(sqlite, tmp_path, clock)
    office.service.enrol(Asker(name="dev-1").request(office.registry.invite("alice").token))
    listening = Listening()
    follower = BrokerFollower(sqlite, listening, lambda: BrokerUser("fleet-ingest", "1"), clock)  # type: ignore[arg-type]
    follower.start()
    try:
        assert listening.told == [{"fleet-ingest", "dev-1"}]
        listening.refuses = True
        office.service.enrol(Asker(name="dev-2").request(office.registry.invite("alice").token))
        assert wait_until(lambda: follower.trouble == "it does not run")
        listening.refuses = False
        assert wait_until(lambda: listening.told[-1] == {"fleet-ingest", "dev-1", "dev-2"})
        assert wait_until(lambda: follower.trouble == "")
        listening.breaks = True
        office.registry.revoke("bob", "dev-2")
        assert wait_until(lambda: follower.trouble == "a defect of the server: RuntimeError")
        listening.breaks = False
        assert wait_until(lambda: listening.told[-1] == {"fleet-ingest", "dev-1"})
        clock.pass_days(31)
        clock.pass_s(EXPIRY_S + 1)
        assert wait_until(lambda: listening.told[-1] == {"fleet-ingest"})
    finally:
        follower.stop()
    assert listening.told[-1] == set()
