"""What a server that was put back has to do before devices meet it: they may have seen more than it knows.

A device never takes signed metadata of a lower version than it trusted, nor an assignment whose number is not above
the last it heard. A server that went on where its backup ends would give both again, with another content, and be
refused for months. It goes on far above instead. What people had stopped since must not run again by itself, so
every rollout that ran is paused. What the broker kept is gone with it, so all of that is published again.
"""

from dataclasses import dataclass

from edge_runtime.clock import NS_PER_MS, Clock
from fleet_server.audit import Audit
from fleet_server.backup.manifest import Manifest
from fleet_server.devices.states import bump
from fleet_server.director.issuing import Director
from fleet_server.director.signing import PublishedSigning
from fleet_server.paths import ServerPaths
from fleet_server.releases import catalog, shelf
from fleet_server.releases.desk import ReleaseDesk
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.releases.roles import SNAPSHOT, TIMESTAMP
from fleet_server.rollouts.service import RolloutService
from fleet_server.rollouts.states import RolloutState
from fleet_server.settings import ServerSettings
from fleet_server.storage.engine import Store
from fleet_server.storage.writing import ROLLOUT_LOCK, run, take_turn

METADATA_AHEAD = 100_000
"""Versions that are left out: a server that signs every half hour needs six years for so many."""

ASSIGNMENTS_AHEAD = 10_000
"""Numbers that are left out on each device; it was not asked so often since the backup."""

ACTOR = "restore"
_REASON = "the server was restored from a backup: what was decided since is not known"
_AHEAD = "UPDATE device_updates SET seq = seq + ?"
_VOID = "UPDATE invitations SET uses_left = 0 WHERE uses_left > 0"
_AGAIN = "UPDATE desired_states SET state = 'queued', changed_ms = ? WHERE state <> 'cleared'"


@dataclass(frozen=True, slots=True)
class GoneOn:
    """What was done.

    Attributes:
        versions: of the signed metadata that is the server's own, from now on; empty before the ceremony.
        paused: rollouts that ran and now wait for a person.
        rolling_back: rollouts that go on sending devices back; nobody can pause that.
        invitations_void: enrolment tokens that were good and are not any more.
        published_again: devices whose desired state goes out again.
    """

    versions: dict[str, int]
    paused: tuple[str, ...]
    rolling_back: tuple[str, ...]
    invitations_void: int
    published_again: int


def go_on(
    store: Store, paths: ServerPaths, settings: ServerSettings, manifest: Manifest, clock: Clock
) -> GoneOn:
    """Make a restored database one with which devices can go on.

    Args:
        store: with the newest schema; nobody else has it.
        paths: where its keys lie.
        settings: of the server.
        manifest: of the backup, for the audit.
        clock: of the machine.

    Raises:
        EdgeRuntimeError: a key is missing, or the database cannot be written.
    """
    audit = Audit(clock)
    desk = ReleaseDesk(paths, store, settings.releases, audit=audit, clock=clock)
    rollouts = RolloutService(
        store, clock, audit.record, Director(store, PublishedSigning(OnlineKeys(paths)))
    )
    versions = _sign_ahead(store, desk)
    paused, rolling_back = _pause(rollouts), _rolling_back(rollouts)
    now_ms = clock.wall().unix_ns // NS_PER_MS
    with store.write() as session:
        connection = session.connection()
        take_turn(connection, ROLLOUT_LOCK)
        run(connection, _AHEAD, ASSIGNMENTS_AHEAD)
        void = run(connection, _VOID).rowcount
        again = run(connection, _AGAIN, now_ms).rowcount
        bump(session)
        detail: dict[str, object] = {
            "backup": manifest.id,
            "point_ms": manifest.point_ms,
            "audit_head": manifest.audit_head,
            "paused": list(paused),
            "rolling_back": list(rolling_back),
            "invitations_void": void,
            "assignments_ahead": ASSIGNMENTS_AHEAD,
            **{f"{role}_version": version for role, version in versions.items()},
        }
        audit.record(session, ACTOR, "server.restored", manifest.id, detail)
    return GoneOn(versions, paused, rolling_back, void, again)


def _sign_ahead(store: Store, desk: ReleaseDesk) -> dict[str, int]:
    with store.read() as session:
        if shelf.published(session) is None:
            return {}
        newest = {role: catalog.newest_version(session, role) for role in (SNAPSHOT, TIMESTAMP)}
    return desk.freshness.recover(
        newest[SNAPSHOT] + METADATA_AHEAD, newest[TIMESTAMP] + METADATA_AHEAD, ACTOR
    )


def _pause(rollouts: RolloutService) -> tuple[str, ...]:
    paused: list[str] = []
    while running := rollouts.rollouts(state=RolloutState.RUNNING):
        for rollout in running:
            rollouts.pause(ACTOR, rollout.id, _REASON)
            paused.append(rollout.id)
    return tuple(paused)


def _rolling_back(rollouts: RolloutService) -> tuple[str, ...]:
    found: list[str] = []
    while page := rollouts.rollouts(state=RolloutState.ROLLING_BACK, before=found[-1] if found else None):
        found.extend(rollout.id for rollout in page)
    return tuple(found)
