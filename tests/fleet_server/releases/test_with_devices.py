"""The whole road: people sign, the server serves over TLS, and a device's own trust believes it or does not."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.protocol.release import Opening
from edge_runtime.protocol.update import DeviceFacts, UpdateAction, UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import Admitted, RunningRelease, Trust
from fleet_server.releases.catalog import PublishedRelease
from fleet_server.releases.roles import ONLINE_ROLES
from tests.rigs.deliveries import FakeClock
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.release_parties import SignedFleet, configuration
from tests.rigs.update_devices import DeviceClient, device_client

FACTS = DeviceFacts(architecture="x86_64", runtime="1.0.0", memory_mb=4096)
SLOT = "configuration"
DAY_MS = 86_400_000


@dataclass
class Road:
    """A fleet, its server, and one device of it."""

    fleet: SignedFleet
    clock: FakeClock
    device: DeviceClient
    folder: Path
    made: int = 0

    def trust(self) -> Trust:
        return self.device.trust(self.folder / "updates", self.fleet)

    def publish(self, **fields: Any) -> PublishedRelease:
        self.made += 1
        folder = configuration(self.folder / f"c{self.made}", f"a: {self.made}\n")
        return self.fleet.publish(folder, name="base", **fields)

    def admit(
        self, trust: Trust, release: PublishedRelease, running: RunningRelease | None = None, **fields: Any
    ) -> Admitted:
        sealed = self.device.assignment(
            self.fleet,
            **{
                "seq": 1,
                "slot": SLOT,
                "action": UpdateAction.INSTALL,
                "target": release.target,
                "length": release.length,
                "sha256": release.sha256,
                **fields,
            },
        )
        return trust.admit(
            sealed,
            last_seq=0,
            nonce=None,
            running={SLOT: running or RunningRelease(None, 0, None)},
            facts=FACTS,
            denied=(),
        )

    def refusal(self, trust: Trust, release: PublishedRelease, **fields: Any) -> UpdateCode:
        with pytest.raises(UpdateRefused) as caught:
            self.admit(trust, release, **fields)
        return caught.value.code


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    clock.synced = True
    for api in fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock):
        yield from _opened(api, clock, tmp_path)


def _opened(api: FleetApi, clock: FakeClock, folder: Path) -> Iterator[Road]:
    services = api.application.services
    fleet = SignedFleet.begin(folder, services.store, clock=clock, desk=services.releases)
    with served(api) as url, device_client(api, url, folder, "dock-1") as device:
        yield Road(fleet, clock, device, folder)


def test_a_release_is_admitted_with_the_terms_that_people_signed(road: Road) -> None:
    release, trust = road.publish(notes="the first"), road.trust()
    trust.refresh()
    admitted = road.admit(trust, release)
    assert admitted.terms == release.terms
    assert road.device.get(_target(release)).content == release.bundle.canonical_bytes()


def _target(release: PublishedRelease) -> str:
    folder, _, name = release.target.rpartition("/")
    return f"/v1/updates/targets/{folder}/{release.sha256}.{name}"


def test_a_ring_opens_when_people_said_so(road: Road) -> None:
    """Whoever holds the director's key cannot open it sooner."""
    tomorrow = Opening(basis_points=10_000, not_before_ms=road.clock.wall_ms + DAY_MS)
    release, trust = road.publish(openings=(tomorrow,)), road.trust()
    trust.refresh()
    assert road.refusal(trust, release) is UpdateCode.RING_CLOSED
    road.clock.wall_ms += DAY_MS
    road.fleet.desk.freshness.keep()
    trust.refresh()
    assert road.admit(trust, release).terms == release.terms


def test_a_revoked_release_is_known_no_more(road: Road) -> None:
    release, trust = road.publish(), road.trust()
    trust.refresh()
    road.fleet.revoke(release.target)
    trust.refresh()
    assert road.refusal(trust, release) is UpdateCode.TARGET_UNKNOWN


def test_back_only_to_what_the_terms_name(road: Road) -> None:
    first, second, third = (road.publish() for _ in range(3))
    trust = road.trust()
    trust.refresh()
    running = RunningRelease(third.sha256, 3, third.terms)
    assert road.admit(trust, second, running, action=UpdateAction.ROLLBACK).terms == second.terms
    assert road.refusal(trust, first, running=running, action=UpdateAction.ROLLBACK) in (
        UpdateCode.ROLLBACK_NOT_PERMITTED,
        UpdateCode.COUNTER,
    )


def test_every_rotation_is_followed_from_the_root_of_the_enrolment(road: Road) -> None:
    trust = road.trust()
    trust.refresh()
    dan = road.fleet.people.join("dan")
    road.fleet.rotate("ada", "ben", "dan", people=[dan.person], without=["cara"])
    for _ in range(3):
        road.fleet.desk.renew_keys(ONLINE_ROLES, "admin")
        road.fleet.rotate("ada", "dan", online=True)
    release = road.publish()
    trust.refresh()
    assert road.admit(trust, release).terms == release.terms
    fresh = road.device.trust(road.folder / "reinstalled", road.fleet)
    fresh.refresh()
    assert road.admit(fresh, release).terms == release.terms


def test_an_assignment_of_a_director_that_was_replaced_is_refused(road: Road) -> None:
    release, trust = road.publish(), road.trust()
    trust.refresh()
    stolen = road.fleet.trusted().keyids("director")
    road.fleet.desk.renew_keys(["director"], "admin")
    road.fleet.rotate(online=True)
    trust.refresh()
    assert road.admit(trust, release).terms == release.terms
    from edge_runtime.protocol.envelope import seal
    from edge_runtime.protocol.update import ASSIGNMENT_TYPE, Assignment

    forged = Assignment(
        device="dock-1",
        key_sha256=road.device.key_sha256,
        seq=9,
        slot=SLOT,
        action=UpdateAction.INSTALL,
        target=release.target,
        length=release.length,
        sha256=release.sha256,
        issued_ms=road.clock.wall_ms,
        expires_ms=road.clock.wall_ms + DAY_MS,
    )
    with pytest.raises(UpdateRefused) as caught:
        trust.admit(
            seal(forged, ASSIGNMENT_TYPE, road.fleet.desk.keys.director(stolen)),
            last_seq=0,
            nonce=None,
            running={SLOT: RunningRelease(None, 0, None)},
            facts=FACTS,
            denied=(),
        )
    assert caught.value.code is UpdateCode.DIRECTOR_SIGNATURE


def test_months_pass_and_a_device_that_comes_back_is_served(road: Road) -> None:
    trust = road.trust()
    trust.refresh()
    for _ in range(80):
        road.clock.wall_ms += DAY_MS // 2
        road.fleet.desk.freshness.keep()
    release = road.publish()
    trust.refresh()
    assert road.admit(trust, release).terms == release.terms


def test_a_server_that_lost_its_freshness_is_believed_no_longer(road: Road) -> None:
    release, trust = road.publish(), road.trust()
    trust.refresh()
    road.clock.wall_ms += 3 * DAY_MS
    with pytest.raises(UpdateRefused):
        trust.refresh()
    assert road.refusal(trust, release) in (UpdateCode.METADATA_EXPIRED, UpdateCode.EXPIRED, UpdateCode.CLOCK)
    road.fleet.desk.freshness.keep()
    trust.refresh()
    assert road.admit(trust, release).terms == release.terms


def test_what_a_thief_has_shown_is_passed_by(road: Road) -> None:
    """The runbook: versions that devices saw are reported, the server goes on above them."""
    from fleet_server.releases import catalog, shelf
    from fleet_server.releases.online import snapshot_of, timestamp_of

    release, trust, desk = road.publish(), road.trust(), road.fleet.desk
    trusted, now = road.fleet.trusted(), road.clock.wall_ms
    with road.fleet.store.write() as session:  # somebody with the server's keys and database
        documents = shelf.documents_of(session, trusted)
        end = now + DAY_MS
        snapshot = snapshot_of(
            trusted, documents, 500, desk.keys.signer("snapshot", trusted.keyids("snapshot")), end
        )
        stamp = timestamp_of(
            snapshot, 500, 900, desk.keys.signer("timestamp", trusted.keyids("timestamp")), end
        )
        saved = {role: catalog.metadata(session, role) for role in ("snapshot", "timestamp")}
        shelf.put_metadata(session, "snapshot", snapshot, now)
        shelf.put_metadata(session, "timestamp", stamp, now)
    trust.refresh()
    with road.fleet.store.write() as session:  # the database is restored from a backup
        from sqlalchemy import delete

        from fleet_server.storage.release_tables import MetadataRow

        session.execute(delete(MetadataRow).where(MetadataRow.role.in_(["snapshot", "timestamp"])))
        for role, body in saved.items():
            shelf.put_metadata(session, role, body or b"", now)
    with pytest.raises(UpdateRefused) as caught:
        trust.refresh()
    assert caught.value.code is UpdateCode.METADATA_ROLLBACK
    desk.freshness.recover(500, 900, "admin")
    trust.refresh()
    assert road.admit(trust, release).terms == release.terms
