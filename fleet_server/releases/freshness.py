"""Keeping the server's own metadata fresh, and saying long before what only people can renew.

Freshness is all that the online keys are for: a stolen one can repeat what people signed, and no more.
"""

from dataclasses import dataclass

from sqlalchemy.orm import Session
from tuf.api.metadata import Metadata

from edge_runtime.clock import NS_PER_MS, Clock
from fleet_server.audit import Audit
from fleet_server.releases import catalog, shelf
from fleet_server.releases.online import Lives, is_due, snapshot_of, timestamp_of, version_after
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.repository import Trusted
from fleet_server.releases.roles import DAY_MS, OFFLINE_ROLES, SNAPSHOT, TIMESTAMP, warning_days
from fleet_server.settings import ReleaseSettings
from fleet_server.storage.engine import Store
from fleet_server.storage.writing import RELEASE_LOCK, take_turn

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Ending:
    """Metadata that somebody has to look after.

    Attributes:
        role: whose.
        text: what to do, for people.
    """

    role: str
    text: str


class Freshness:
    """Signs snapshot and timestamp.

    Args:
        store: the database.
        keys: the server's own.
        settings: for how long what they sign is good.
        audit: where a jump of versions is written down.
        clock: says what is due.
    """

    def __init__(
        self, store: Store, keys: OnlineKeys, settings: ReleaseSettings, audit: Audit, clock: Clock
    ) -> None:
        self._store, self._keys, self._audit, self._clock = store, keys, audit, clock
        self.lives = Lives(settings.snapshot_days * DAY_MS, settings.timestamp_hours * _HOUR_MS)

    def keep(self) -> list[str]:
        """Make anew what is due; the roles that were.

        Raises:
            ReleaseRefused: the server has lost a key of its own.
        """
        now_ms = self._clock.wall().unix_ns // NS_PER_MS
        with self._store.read() as session:
            trusted = shelf.published(session)
            if trusted is None or not self._due(session, trusted, now_ms):
                return []
        with self._store.write() as session:
            take_turn(session.connection(), RELEASE_LOCK)
            trusted = shelf.published(session)
            if trusted is None:
                return []
            due = self._due(session, trusted, now_ms)  # another server may have been faster
            if due:
                self._put(session, trusted, now_ms, with_snapshot=SNAPSHOT in due)
        return due

    def sign(self, session: Session, trusted: Trusted, now_ms: int) -> None:
        """Snapshot and timestamp of what was just published, in the caller's transaction."""
        self._put(session, trusted, now_ms, with_snapshot=True)

    def recover(self, snapshot: int, timestamp: int, by: str) -> dict[str, int]:
        """Go on above versions that devices were shown by a thief of the online keys; the new versions.

        Devices never go back to a lower version, so the honest server has to pass by the thief.

        Args:
            snapshot: the highest version of a snapshot that a device has seen.
            timestamp: the same of a timestamp.
            by: who asks, for the audit.

        Raises:
            ReleaseRefused: there is no repository, or no room above these versions.
        """
        now_ms = self._clock.wall().unix_ns // NS_PER_MS
        with self._store.write() as session:
            take_turn(session.connection(), RELEASE_LOCK)
            trusted = shelf.published(session)
            if trusted is None:
                raise ReleaseRefused("no_repository", "there is no repository yet")
            found = self._put(
                session, trusted, now_ms, with_snapshot=True, snapshot=snapshot + 1, timestamp=timestamp + 1
            )
            self._audit.record(session, by, "release.recover", "repository", dict(found))
        return found

    def _due(self, session: Session, trusted: Trusted, now_ms: int) -> list[str]:
        return [
            role
            for role in (SNAPSHOT, TIMESTAMP)
            if is_due(trusted, role, catalog.metadata(session, role), now_ms, self.lives.of(role))
        ]

    def _put(
        self,
        session: Session,
        trusted: Trusted,
        now_ms: int,
        *,
        with_snapshot: bool,
        snapshot: int = 0,
        timestamp: int = 0,
    ) -> dict[str, int]:
        body = catalog.metadata(session, SNAPSHOT)
        if with_snapshot or body is None:
            version = version_after(body, snapshot)
            signer = self._keys.signer(SNAPSHOT, trusted.keyids(SNAPSHOT))
            documents = shelf.documents_of(session, trusted)
            body = snapshot_of(trusted, documents, version, signer, now_ms + self.lives.snapshot_ms)
            shelf.put_metadata(session, SNAPSHOT, body, now_ms)
        else:
            version = int(Metadata.from_bytes(body).signed.version)
        stamp = version_after(catalog.metadata(session, TIMESTAMP), timestamp)
        signer = self._keys.signer(TIMESTAMP, trusted.keyids(TIMESTAMP))
        made = timestamp_of(body, version, stamp, signer, now_ms + self.lives.timestamp_ms)
        shelf.put_metadata(session, TIMESTAMP, made, now_ms)
        return {SNAPSHOT: version, TIMESTAMP: stamp}


def endings(ends: dict[str, int], now_ms: int, lives: Lives) -> list[Ending]:
    """What somebody has to look after, the most urgent first. Pure.

    Args:
        ends: when the newest metadata of each role runs out, see `shelf.ends`.
        now_ms: the time.
        lives: of the server's own metadata.
    """
    found: list[tuple[int, Ending]] = []
    for role, end in ends.items():
        left = end - now_ms
        if role in OFFLINE_ROLES and left < warning_days(role) * DAY_MS:
            text = f"{_left(left)}: people sign it anew with fleet keys renew --role {role}"
            found.append((left, Ending(role, text)))
        elif role not in OFFLINE_ROLES and left < lives.of(role) // 4:
            text = f"{_left(left)}, and the server should have made it anew: its log says why it did not"
            found.append((left, Ending(role, text)))
    return [ending for _, ending in sorted(found, key=lambda one: one[0])]


def _left(left_ms: int) -> str:
    if left_ms <= 0:
        return "its signed metadata has run out, and no device installs anything until it is renewed"
    hours = left_ms // _HOUR_MS
    span = f"{hours // 24} days" if hours >= 48 else f"{hours} h"
    return f"its signed metadata runs out in {span}"
