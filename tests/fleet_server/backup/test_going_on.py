"""A server out of an old backup, and devices that have seen more than it knows: they go on with each other."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from edge_runtime.clock import NS_PER_MS, Clock, SystemClock
from edge_runtime.protocol.update import DeviceFacts, UpdateAction
from edge_runtime.updates.trust import RunningRelease
from fleet_server.backup import create, restore
from fleet_server.backup.going_on import ASSIGNMENTS_AHEAD, METADATA_AHEAD
from fleet_server.backup.manifest import read_manifest
from fleet_server.devices import DeviceProblem
from fleet_server.releases.catalog import newest_version
from fleet_server.rollouts.states import RolloutState
from fleet_server.serve.composition import broker_address, build
from fleet_server.settings import ServerSettings
from fleet_server.storage import Store
from fleet_server.storage.operator_tables import AuditRow
from tests.rigs.deliveries import FakeClock
from tests.rigs.enrolments import Asker
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.release_parties import SignedFleet, configuration
from tests.rigs.rollout_desk import rollout_desk
from tests.rigs.rollout_fleet import PaperFleet, names, stage
from tests.rigs.update_devices import device_client

DAY_S = 86_400
FACTS = DeviceFacts(architecture="x86_64", runtime="1.0.0", memory_mb=4096)


@contextmanager
def put_back(api: FleetApi, backup: Path, directory: Path, clock: Clock) -> Iterator[FleetApi]:
    """The old server is gone, and one out of a backup has its place."""
    found = restore(backup, directory, {}, database="file", clock=clock)
    settings = ServerSettings.load(found.directory, {})
    again = FleetApi(
        found.directory,
        build(settings, broker_address(settings, 8883), {}, clock=clock),
        api.clock,
        api.parts,
    )
    try:
        yield again
    finally:
        again.close()


def versions(store: Store) -> dict[str, int]:
    with store.read() as session:
        return {role: newest_version(session, role) for role in ("timestamp", "snapshot")}


def test_a_device_that_trusted_newer_metadata_takes_what_is_signed_next(tmp_path: Path) -> None:
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    for api in fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock):
        services = api.application.services
        fleet = SignedFleet.begin(tmp_path, services.store, clock=clock, desk=services.releases)
        with served(api) as url, device_client(api, url, tmp_path, "dock-1") as device:
            backup, _ = create(api.directory, tmp_path / "backups", {}, clock=clock)
            for _ in range(2):  # the server lives on, and its device with it
                clock.advance(8 * DAY_S)
                services.releases.freshness.keep()
            device.trust(tmp_path / "updates", fleet).refresh()
            seen = versions(services.store)
        saved = read_manifest(backup).metadata
        assert all(seen[role] > saved[role] for role in seen)
        with put_back(api, backup, tmp_path / "again", clock) as again:
            desk, store = again.application.services.releases, again.application.store
            assert versions(store) == {role: saved[role] + METADATA_AHEAD + 1 for role in seen}
            fleet = replace(fleet, desk=desk, store=store)
            release = fleet.publish(configuration(tmp_path / "c1"), name="base")
            with served(again) as url:
                device.url = url
                trust = device.trust(tmp_path / "updates", fleet)
                trust.refresh()
                sealed = device.assignment(
                    fleet,
                    seq=1,
                    slot="configuration",
                    action=UpdateAction.INSTALL,
                    target=release.target,
                    length=release.length,
                    sha256=release.sha256,
                )
                admitted = trust.admit(
                    sealed,
                    last_seq=0,
                    nonce=None,
                    running={"configuration": RunningRelease(None, 0, None)},
                    facts=FACTS,
                    denied=(),
                )
            assert admitted.terms == release.terms


def test_a_rollout_waits_for_people_and_the_next_one_reaches_devices_that_were_asked_since(
    tmp_path: Path,
) -> None:
    for desk in rollout_desk(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}"):
        fleet = desk.fleet
        fleet.enrol(*names(12))
        fleet.publish(1)
        first = desk.started(1, stage(5000), stage(rules={"soak_s": 100}))
        fleet.rounds(2)
        backup, _ = create(desk.api.directory, tmp_path / "backups", {}, clock=fleet.clock)
        desk.until(first, "completed")
        for counter in (2, 3):
            fleet.publish(counter)
            desk.until(desk.started(counter), "completed")
        asked = {name: device.last_seq for name, device in fleet.devices.items()}
        assert min(asked.values()) == 3
        with put_back(desk.api, backup, tmp_path / "again", fleet.clock) as again:
            after = PaperFleet(again.application.store, now_ms=fleet.now_ms)
            after.signer, after.devices = fleet.signer, fleet.devices
            view = after.show(first)
            assert {row.state for row in after.rows("SELECT state FROM desired_states")} == {"queued"}
            assert (view.state, view.reason.endswith("(restore)")) == (RolloutState.PAUSED, True)
            after.rounds(3)
            assert {name: device.last_seq for name, device in after.devices.items()} == asked
            after.service.cancel("anna", first, "devices are beyond it")
            after.publish(4)
            next_one = after.run(4)
            after.rounds(20)
            assert after.show(next_one).state is RolloutState.COMPLETED
            for device in after.devices.values():
                assert (device.running.counter, device.last_seq > ASSIGNMENTS_AHEAD) == (4, True)


def test_an_invitation_is_not_used_twice_and_what_rolls_back_is_named(tmp_path: Path) -> None:
    for desk in rollout_desk(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}"):
        fleet, services = desk.fleet, desk.api.application.services
        good = fleet.publish(1)
        fleet.publish(2, rollback_to=(good,))
        fleet.enrol("dev-1", runs=(good, 1))
        rollout = desk.started(2, stage(rules={"soak_s": 9999}))
        fleet.round()
        fleet.service.halt("anna", rollout, "worse at night")
        fleet.service.approve("ben", rollout)
        fleet.service.rollback("anna", rollout)
        token = services.registry.invite("anna", device="dock-9").token
        services.registry.invite("anna", serials=["SN-1", "SN-2"])
        backup, _ = create(desk.api.directory, tmp_path / "backups", {}, clock=fleet.clock)
        services.enrolment.enrol(Asker("dock-9").request(token))
        found = restore(backup, tmp_path / "again", {}, database="file", clock=fleet.clock)
        assert (found.gone_on.rolling_back, found.gone_on.paused) == ((rollout,), ())
        assert found.gone_on.invitations_void == 2
        settings = ServerSettings.load(found.directory, {})
        again = build(settings, broker_address(settings, 8883), {}, clock=fleet.clock)
        with pytest.raises(DeviceProblem, match="was used already"):
            again.services.enrolment.enrol(Asker("dock-9").request(token))
        with again.store.read() as session:
            said = session.scalars(select(AuditRow).where(AuditRow.action == "server.restored")).one()
            detail = json.loads(said.detail)
            assert (detail["rolling_back"], detail["invitations_void"]) == ([rollout], 2)
        again.close()
