"""Asking devices: each decision gets its number here, in one transaction with all that it changes.

What was asked before for the same slot is superseded in the same moment: of two rollouts, and of an offer and what
takes it back, only the newest is what a device should do.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from edge_runtime.protocol.release_values import Values
from fleet_server.releases.catalog import PublishedRelease
from fleet_server.rollouts.loaded import HOLD, INSTALL, ROLLBACK, Loaded, is_revoked
from fleet_server.rollouts.states import WORKING, MemberState, RolloutState
from fleet_server.storage.writing import run, run_many

FindRelease = Callable[[str], PublishedRelease | None]
"""The release of a bundle's SHA-256, or None."""

NO_RELEASE_BEFORE = "no-release-before"
NOT_PERMITTED = "rollback-not-permitted"
RELEASE_GONE = "release-gone"
HELD = "held"

_WORKING = ", ".join(f"'{state.value}'" for state in WORKING)


@dataclass(frozen=True, slots=True)
class Ask:
    """One decision about one device.

    Attributes:
        target, length, sha256: of the release; None for `hold`.
        values: canonical JSON; None for none.
    """

    device: str
    seq: int
    stage: int
    round: int
    action: str
    target: str | None = None
    length: int | None = None
    sha256: str | None = None
    values: str | None = None


def offer(connection: Connection, rollout: Loaded, opened: int, limit: int, now_ms: int) -> int:
    """Ask so many devices of the open stages that are there and were not asked; how many it found.

    A device that another rollout has by now is not asked, and nobody is asked to take a release that was revoked.

    Args:
        connection: of a transaction that has the turn of rollouts.
        rollout: running, or completed and still converging.
        opened: stages from 0 that are open, as a number of them.
        limit: devices at most.
        now_ms: milliseconds since 1970.
    """
    bucket = rollout.terms.opened_basis_points(now_ms)
    rows = list(run(connection, _CANDIDATES, rollout.slot, rollout.number, opened, bucket, limit))
    if not rows or is_revoked(connection, rollout.sha256):
        return 0
    asks = [
        Ask(
            row.device,
            _next(row),
            row.stage,
            row.round,
            INSTALL,
            rollout.target,
            rollout.length,
            rollout.sha256,
            _values(rollout.plan.values, row.device_values),
        )
        for row in rows
    ]
    _write(connection, rollout, asks, now_ms)
    claims = rollout.state is not RolloutState.COMPLETED  # one that is over reserves nobody
    run_many(
        connection,
        _ASKED,
        [(_next(row), now_ms, row.sha256, row.counter, claims, rollout.number, row.device) for row in rows],
    )
    return len(asks)


def has_candidates(connection: Connection, rollout: Loaded, opened: int, now_ms: int) -> bool:
    """Whether `offer` would find anybody."""
    bucket = rollout.terms.opened_basis_points(now_ms)
    first = run(connection, _CANDIDATES, rollout.slot, rollout.number, opened, bucket, 1).first()
    return first is not None and not is_revoked(connection, rollout.sha256)


def take_back(connection: Connection, rollout: Loaded, now_ms: int) -> int:
    """Take back what was offered and is not done: devices that could not have heard of it are asked nothing.

    A device that is away or stuck has its offer still, and would take it days later.
    """
    rows = list(run(connection, _OFFERED, rollout.number))
    if not rows:
        return 0
    unsigned = [(now_ms, row.device, row.seq) for row in rows if row.issued_ms is None]
    newest = [row for row in rows if row.issued_ms is not None and row.seq == row.slot_seq]
    if unsigned:
        run_many(connection, _DROP, unsigned)
    _write(connection, rollout, [_hold(row) for row in newest], now_ms)
    run_many(connection, _WITHDRAW, [(now_ms, rollout.number, row.device) for row in rows])
    return len(rows)


def send_back(connection: Connection, rollout: Loaded, find: FindRelease, limit: int, now_ms: int) -> int:
    """Ask devices that took the release, or may have, for what they ran before; how many were looked at.

    Those that have been asked something newer since, or that another rollout has by now, are its business: they
    are superseded here, and nothing is asked of them.
    """
    run(connection, _PASSED_ON, now_ms, rollout.number)
    rows = list(run(connection, _TAKEN, rollout.number, limit))
    asks: list[Ask] = []
    changes: list[tuple[Any, ...]] = []
    for row in rows:
        reason, before = _way_back(rollout, row.before_sha256, find)
        if before is not None:
            # a configuration goes back with what this device was told then: without, it would be refused
            found = (before.target, before.length, before.sha256, row.values_before)
            asks.append(Ask(row.device, _next(row), row.stage, row.round, ROLLBACK, *found))
            changes.append((ROLLBACK, MemberState.ASSIGNED.value, None, _next(row)))
            continue
        runs = row.runs == rollout.sha256
        if not runs and not row.held and row.seq == row.slot_seq:
            asks.append(_hold(row))
        changes.append((HOLD, MemberState.WITHDRAWN.value, reason if runs else HELD, row.seq))
    if rows:
        _write(connection, rollout, asks, now_ms)
        marked = [
            (*change, now_ms, rollout.number, row.device) for change, row in zip(changes, rows, strict=True)
        ]
        run_many(connection, _SENT_BACK, marked)
    return len(rows)


def _way_back(rollout: Loaded, before: str | None, find: FindRelease) -> tuple[str, PublishedRelease | None]:
    """The release to go back to, or why there is none: people signed which ones a device may go back to."""
    if before is None:
        return NO_RELEASE_BEFORE, None
    if before not in rollout.terms.rollback_to:
        return NOT_PERMITTED, None
    found = find(before)
    return ("", found) if found is not None and not found.revoked else (RELEASE_GONE, None)


def _next(row: Any) -> int:
    """The number of what a device is asked now: the first free one above those that were given.

    A device may have spoken of numbers that this server never gave, far above its own, and their ends are rows.
    They use up nothing but themselves.
    """
    return int(row.top) + 1 if row.taken is None else int(row.taken) + 1


def _hold(row: Any) -> Ask:
    return Ask(row.device, _next(row), row.stage, row.round, HOLD)


def _values(all_devices: Values, own: str | None) -> str | None:
    if own is None and not all_devices:
        return None
    return json.dumps({**all_devices, **json.loads(own or "{}")}, sort_keys=True)


def _write(connection: Connection, rollout: Loaded, asks: Sequence[Ask], now_ms: int) -> None:
    if not asks:
        return
    rows = []
    for ask in asks:
        release = (ask.target, ask.length, ask.sha256, ask.values)
        where = (rollout.number, ask.stage, ask.round, rollout.slot, ask.action)
        rows.append((ask.device, ask.seq, *where, *release, now_ms, now_ms))
    key = [(ask.device, rollout.slot) for ask in asks]
    run_many(connection, _OLDER, key)
    # what takes an offer back takes no device from another rollout that means to ask it later
    taken = [(now_ms, ask.device, rollout.slot, rollout.number) for ask in asks if ask.action != HOLD]
    if taken:
        run_many(connection, _OTHERS, taken)
    run_many(connection, _NEW, rows)
    run_many(connection, _COUNT, [(ask.seq, ask.device) for ask in asks])
    run_many(connection, _SLOT, [(ask.seq, ask.device, rollout.slot) for ask in asks])


_TAKEN_ABOVE = (
    "(SELECT min(n.seq) FROM assignments n WHERE n.device = m.device AND n.seq > u.seq "
    "AND EXISTS (SELECT 1 FROM assignments f WHERE f.device = m.device AND f.seq = u.seq + 1) "
    "AND NOT EXISTS (SELECT 1 FROM assignments x WHERE x.device = m.device AND x.seq = n.seq + 1)) AS taken"
)
"""The last of the numbers that follow on the newest one without a gap; none where the next one is free."""

_VALUES_BEFORE = (
    "(SELECT b.device_values FROM assignments b WHERE b.device = m.device AND b.slot = m.slot "
    "AND b.sha256 = m.before_sha256 AND b.state = 'healthy' ORDER BY b.seq DESC LIMIT 1) AS values_before"
)
_FREE = (
    "AND NOT EXISTS (SELECT 1 FROM rollout_members o WHERE o.device = m.device AND o.slot = m.slot "
    "AND o.live AND o.rollout <> m.rollout)"
)
_CANDIDATES = (
    f"SELECT m.device, m.stage, m.round, m.device_values, u.seq AS top, {_TAKEN_ABOVE}, s.sha256, s.counter "  # noqa: S608
    "FROM rollout_members m "
    "JOIN presence p ON p.device = m.device AND p.state = 'online' "
    "JOIN device_updates u ON u.device = m.device "
    "JOIN device_slots s ON s.device = m.device AND s.slot = ? "
    "WHERE m.rollout = ? AND m.state = 'pending' AND m.stage < ? AND m.bucket < ? "
    f"{_FREE} "
    "ORDER BY m.stage, m.since_ms LIMIT ?"
)
_OFFERED = (
    f"SELECT m.device, m.stage, m.round, m.seq, u.seq AS top, {_TAKEN_ABOVE}, s.seq AS slot_seq, a.issued_ms "  # noqa: S608
    "FROM rollout_members m "
    "JOIN device_updates u ON u.device = m.device "
    "JOIN device_slots s ON s.device = m.device AND s.slot = m.slot "
    "JOIN assignments a ON a.device = m.device AND a.seq = m.seq "
    f"WHERE m.rollout = ? AND m.action = 'install' AND (m.state IN ({_WORKING}) "
    "OR (m.state IN ('unreachable', 'stuck') AND a.live))"
)
_TAKEN = (
    f"SELECT m.device, m.stage, m.round, m.seq, m.before_sha256, u.seq AS top, {_TAKEN_ABOVE}, "  # noqa: S608
    f"s.seq AS slot_seq, {_VALUES_BEFORE}, "
    "s.sha256 AS runs, EXISTS (SELECT 1 FROM assignments h WHERE h.rollout = m.rollout "
    "AND h.device = m.device AND h.action = 'hold' AND h.round = m.round) AS held "
    "FROM rollout_members m "
    "JOIN device_updates u ON u.device = m.device "
    "JOIN device_slots s ON s.device = m.device AND s.slot = m.slot "
    "WHERE m.rollout = ? AND m.action = 'install' AND m.seq IS NOT NULL "
    "AND m.state NOT IN ('pending', 'refused', 'reverted', 'superseded', 'decommissioned') "
    "ORDER BY m.stage, m.device LIMIT ?"
)
_PASSED_ON = (
    "UPDATE rollout_members SET installed = state, installed_code = code, state = 'superseded', since_ms = ? "
    "WHERE rollout = ? AND action = 'install' AND seq IS NOT NULL "
    "AND state NOT IN ('pending', 'refused', 'reverted', 'superseded', 'decommissioned') "
    "AND (NOT EXISTS (SELECT 1 FROM device_slots s JOIN assignments n ON n.device = s.device AND n.seq = s.seq "
    "WHERE s.device = rollout_members.device AND s.slot = rollout_members.slot "
    "AND n.rollout = rollout_members.rollout) "
    "OR EXISTS (SELECT 1 FROM rollout_members o WHERE o.device = rollout_members.device "
    "AND o.slot = rollout_members.slot AND o.live AND o.rollout <> rollout_members.rollout))"
)
_OLDER = "UPDATE assignments SET live = FALSE WHERE device = ? AND slot = ? AND live"
_OTHERS = (
    "UPDATE rollout_members SET state = 'superseded', since_ms = ? WHERE device = ? AND slot = ? "  # noqa: S608
    f"AND rollout <> ? AND state IN ('pending', 'unreachable', {_WORKING})"
)
_NEW = (
    "INSERT INTO assignments (device, seq, rollout, stage, round, slot, action, target, length, sha256, "
    "device_values, decided_ms, changed_ms, state, live, due_ms, said, report_no) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'assigned', TRUE, 0, '', 0)"
)
_COUNT = "UPDATE device_updates SET seq = ? WHERE device = ?"
_SLOT = "UPDATE device_slots SET seq = ? WHERE device = ? AND slot = ?"
_ASKED = (
    "UPDATE rollout_members SET state = 'assigned', seq = ?, since_ms = ?, before_sha256 = ?, "
    "before_counter = ?, live = CASE WHEN ? THEN TRUE ELSE live END WHERE rollout = ? AND device = ?"
)
_DROP = (
    "UPDATE assignments SET live = FALSE, state = 'withdrawn', changed_ms = ? WHERE device = ? AND seq = ?"
)
_WITHDRAW = (
    "UPDATE rollout_members SET state = CASE WHEN state = 'stuck' THEN state ELSE 'withdrawn' END, since_ms = ? "
    "WHERE rollout = ? AND device = ?"
)
_SENT_BACK = (
    "UPDATE rollout_members SET installed = state, installed_code = code, action = ?, state = ?, code = ?, "
    "seq = ?, since_ms = ? WHERE rollout = ? AND device = ?"
)
