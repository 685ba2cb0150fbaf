"""From decisions to signed assignments: whatever is due is signed, outside of any transaction, and then put down.

A decision has its number before it is signed. A server that is killed in between signs the same number later; one
that is killed between signing and writing signs it again. Nothing that was not written down was ever published.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.release_values import Declared, value_problem
from edge_runtime.protocol.update import ASSIGNMENT_TYPE, Assignment
from fleet_server.director.desired import queue
from fleet_server.director.signing import Signing, SigningNow
from fleet_server.releases.catalog import declared_values
from fleet_server.storage import Store
from fleet_server.storage.writing import ROLLOUT_LOCK, chunks, run, run_many, take_turn

LIFE_MS = 7 * 86_400_000
RENEW_BEFORE_MS = 2 * 86_400_000
AT_ONCE = 2000
"""Signatures of one batch: a third of a second of one core."""

_LATER_MS = 60_000
"""What cannot be signed now is tried again after this."""

_log = logging.getLogger("fleet_server.director")


@dataclass(frozen=True, slots=True)
class _Signed:
    device: str
    seq: int
    rollout: int | None
    sealed: bytes
    issued_ms: int
    expires_ms: int
    key_sha256: str
    nonce: str | None
    director: str


class Director:
    """Signs what is due. Thread-safe, and several may run: one alone is enough.

    Args:
        store: the database.
        signing: says what to sign with.
        life_ms: for how long a signature is good; it is renewed `renew_before_ms` before its end.
        at_once: signatures of one batch.
    """

    def __init__(
        self,
        store: Store,
        signing: SigningNow,
        *,
        life_ms: int = LIFE_MS,
        renew_before_ms: int = RENEW_BEFORE_MS,
        at_once: int = AT_ONCE,
    ) -> None:
        self._store, self._signing = store, signing
        self._life_ms, self._renew_before_ms, self._at_once = life_ms, renew_before_ms, at_once
        self._unsignable: set[tuple[str, int]] = set()

    def sign_due(self, now_ms: int) -> int:
        """Sign one batch of what is due, and write down what its devices should see; how many that were.

        What has no key yet, or cannot be put into an envelope, is tried again a minute later and stops no other.

        Raises:
            ReleaseRefused: nothing is published, or this server has not the director's key.
            sqlalchemy.exc.SQLAlchemyError: the database is away; the same is due at the next call.
        """
        with self._store.read() as session:
            connection = session.connection()
            rows = list(run(connection, _DUE, now_ms, self._at_once))
            if not rows:
                return 0
            keys = newest_keys(connection, sorted({row.device for row in rows}))
            signing = self._signing(connection)
            values = declared_values(connection, {row.target for row in rows if row.target is not None})
        tried = [(row, self._try_sign(row, keys.get(row.device), signing, values, now_ms)) for row in rows]
        signed = [one for _, one in tried if one is not None]
        later = [(now_ms + _LATER_MS, row.device, row.seq) for row, one in tried if one is None]
        with self._store.engine.begin() as connection:
            take_turn(connection, ROLLOUT_LOCK)
            self._write(connection, signed, now_ms)
            if later:
                run_many(connection, _POSTPONE, later)
        return len(signed)

    def have_other_keys_signed(self, limit: int = 10_000) -> int:
        """Make due what is not yet taken up and was signed for a key that its device no longer has.

        So is what another director's key signed: its devices refuse it once they know the new one.

        Raises:
            ReleaseRefused: something is offered, and this server has not the director's key.
        """
        with self._store.read() as session:
            connection = session.connection()
            rows = [tuple(row) for row in run(connection, _OTHER_KEY, limit)]
            if run(connection, _ANY_OFFERED).first() is not None:
                director = self._signing(connection).signer.public_key.keyid
                rows += [tuple(row) for row in run(connection, _OTHER_DIRECTOR, director, limit)]
        if rows:
            with self._store.engine.begin() as connection:
                take_turn(connection, ROLLOUT_LOCK)
                run_many(connection, _MAKE_DUE, rows)
        return len(rows)

    def _try_sign(
        self, row: Any, key_sha256: str | None, signing: Signing, values: Mapping[str, Declared], now_ms: int
    ) -> _Signed | None:
        """None where the device has no key, or where this one cannot be signed, which is said once."""
        if key_sha256 is None:
            return None
        try:
            return self._sign(row, key_sha256, signing, values.get(row.target, {}), now_ms)
        except ValueError as error:
            # what is in the row fits no assignment, no envelope, or not what people signed
            if (row.device, row.seq) not in self._unsignable:
                self._unsignable.add((row.device, row.seq))
                _log.error("assignment %d of %s cannot be signed: %s", row.seq, row.device, error)
            return None

    def _sign(self, row: Any, key_sha256: str, signing: Signing, declared: Declared, now_ms: int) -> _Signed:
        expires_ms = now_ms + self._life_ms
        assignment = Assignment(
            device=row.device,
            key_sha256=key_sha256,
            seq=row.seq,
            slot=row.slot,
            action=row.action,
            rollout=None if row.rollout is None else f"r{row.rollout}",
            stage=row.stage,
            target=row.target,
            length=row.length,
            sha256=row.sha256,
            root_version=signing.root_version,
            snapshot_version=signing.snapshot_version,
            issued_ms=now_ms,
            expires_ms=expires_ms,
            nonce=row.nonce,
            values=json.loads(row.device_values) if row.device_values else {},
        )
        if row.target is not None and (problem := value_problem(declared, assignment.values)) is not None:
            raise ValueError(problem)
        sealed = seal(assignment, ASSIGNMENT_TYPE, signing.signer)
        return _Signed(
            row.device,
            row.seq,
            row.rollout,
            sealed,
            now_ms,
            expires_ms,
            key_sha256,
            assignment.nonce,
            signing.signer.public_key.keyid,
        )

    def _write(self, connection: Connection, signed: Sequence[_Signed], now_ms: int) -> None:
        if not signed:
            return
        nonces = self._nonces(connection, sorted({one.device for one in signed}))
        rows = []
        for one in signed:
            # a report that came in while this was signed brought a newer nonce: it is signed again at once
            due_ms = one.expires_ms - self._renew_before_ms if nonces.get(one.device) == one.nonce else 0
            key = (due_ms, one.device, one.seq)
            said = (one.sealed, one.issued_ms, one.expires_ms, one.key_sha256, one.nonce, one.director)
            rows.append((*said, *key))
        run_many(connection, _PUT_DOWN, rows)
        members = [(now_ms, one.rollout, one.device, one.seq) for one in signed if one.rollout is not None]
        if members:
            run_many(connection, _OFFER, members)
        queue(connection, {one.device for one in signed}, now_ms)

    def _nonces(self, connection: Connection, devices: list[str]) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for some in chunks(devices):
            marks = ", ".join("?" * len(some))
            found.update((row.device, row.nonce) for row in run(connection, _NONCES.format(marks), *some))
        return found


def newest_keys(connection: Connection, devices: list[str]) -> dict[str, str]:
    """Digest of the key of each device's newest active certificate; devices without one are left out."""
    found: dict[str, str] = {}
    for some in chunks(devices):
        marks = ", ".join("?" * len(some))
        for row in run(connection, _KEYS.format(marks), *some):
            found[row.device] = row.key_sha256  # in order of age: the newest stays
    return found


_DUE = (
    "SELECT a.device, a.seq, a.rollout, a.stage, a.slot, a.action, a.target, a.length, a.sha256, "
    "a.device_values, u.nonce FROM assignments a JOIN device_updates u ON u.device = a.device "
    "WHERE a.live AND a.due_ms <= ? ORDER BY a.due_ms LIMIT ?"
)
_KEYS = "SELECT device, key_sha256 FROM certificates WHERE device IN ({}) AND state = 'active' ORDER BY id"
_NONCES = "SELECT device, nonce FROM device_updates WHERE device IN ({})"
_PUT_DOWN = (
    "UPDATE assignments SET sealed = ?, issued_ms = ?, expires_ms = ?, key_sha256 = ?, nonce = ?, director = ?, "
    "due_ms = ?, "
    "state = CASE WHEN state = 'assigned' THEN 'offered' ELSE state END WHERE device = ? AND seq = ? AND live"
)
_OFFER = (
    "UPDATE rollout_members SET state = 'offered', since_ms = ? "
    "WHERE rollout = ? AND device = ? AND seq = ? AND state = 'assigned'"
)
_POSTPONE = "UPDATE assignments SET due_ms = ? WHERE device = ? AND seq = ? AND live"
_OTHER_KEY = (
    "SELECT a.device, a.seq FROM assignments a WHERE a.live AND a.state = 'offered' AND a.due_ms > 0 "
    "AND a.key_sha256 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM certificates c WHERE c.device = a.device "
    "AND c.state = 'active' AND c.key_sha256 = a.key_sha256) LIMIT ?"
)
_OFFERED = "FROM assignments a WHERE a.live AND a.state = 'offered' AND a.due_ms > 0"
_ANY_OFFERED = f"SELECT 1 {_OFFERED} LIMIT 1"
_OTHER_DIRECTOR = f"SELECT a.device, a.seq {_OFFERED} AND (a.director IS NULL OR a.director <> ?) LIMIT ?"
_MAKE_DUE = "UPDATE assignments SET due_ms = 0 WHERE device = ? AND seq = ? AND live"
