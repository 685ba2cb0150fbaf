"""Loading and writing what reports may change: for a batch of devices, a few statements each way."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from edge_runtime.protocol.update import Running, StateReport
from fleet_server.rollouts.absorbing import (
    DeviceBooks,
    KnownAssignment,
    KnownDevice,
    KnownMember,
    KnownSlot,
)
from fleet_server.rollouts.states import MemberState
from fleet_server.storage.writing import chunks, run, run_many

MOST_UNKNOWN = 64
"""Ends of assignments that this server did not make, of one device: more a device cannot be told of at once."""

_PAIRS = 400
"""Pairs in one list of VALUES: SQLite takes 500 terms of a compound at most."""


def load(connection: Connection, reports: Sequence[tuple[str, StateReport]]) -> dict[str, DeviceBooks]:
    """What is known of the devices that report, as far as these reports may change it."""
    devices = sorted({device for device, _ in reports})
    books = {device: DeviceBooks(KnownDevice(device)) for device in devices}
    for some in chunks(devices):
        marks = ", ".join("?" * len(some))
        for row in run(connection, _DEVICES.format(marks), *some):
            books[row.device].known = KnownDevice(*row)
        for row in run(connection, _SLOTS.format(marks), *some):
            running = Running.model_construct(sha256=row.sha256, counter=row.counter, package=row.package)
            books[row.device].slots[row.slot] = KnownSlot(running, row.seq, row.report_no)
    slots = {(device, report.slot) for device, report in reports}
    wanted = {(device, report.seq) for device, report in reports if report.seq > 0}
    wanted |= {(d, books[d].slots[s].seq) for d, s in slots if s in books[d].slots and books[d].slots[s].seq}
    _load_assignments(connection, books, sorted(wanted))
    _look_back(connection, books, reports)
    for some in chunks(devices):  # those of other slots too: a nonce is for all of them
        for row in run(connection, _LIVE.format(", ".join("?" * len(some))), *some):
            _add(books, row)
    _load_members(connection, books)
    return books


def write(connection: Connection, books: dict[str, DeviceBooks], now_ms: int) -> None:
    """Write down what changed."""
    many = functools.partial(_run_some, connection)
    known = [book.known for book in books.values() if book.known.changed]
    many(_KEEP_DEVICE, [_device_values(one, now_ms) for one in known])
    many(
        _KEEP_SLOT,
        [
            (device, name, s.running.sha256, s.running.counter, s.running.package, s.seq, s.report_no, now_ms)
            for device, book in books.items()
            for name, s in book.slots.items()
            if s.changed
        ],
    )
    assignments = [
        (device, a) for device, book in books.items() for a in book.assignments.values() if a.changed
    ]
    fresh = [(device, a) for device, a in assignments if a.fresh]
    many(_NEW_ASSIGNMENT, [_new_values(device, a, now_ms) for device, a in fresh])
    many(_FORGET_UNKNOWN, [(device, device, MOST_UNKNOWN) for device in sorted({d for d, _ in fresh})])
    many(
        _KEEP_ASSIGNMENT, [_assignment_values(device, a, now_ms) for device, a in assignments if not a.fresh]
    )
    many(_DUE_AGAIN, [(device, a.seq) for device, a in assignments if a.due and a.live])
    many(_SETTLED, [(now_ms, device, a.seq) for device, a in assignments if a.settled and not a.fresh])
    _write_members(connection, books, now_ms)


def _load_assignments(
    connection: Connection, books: dict[str, DeviceBooks], wanted: list[tuple[str, int]]
) -> None:
    for start in range(0, len(wanted), _PAIRS):
        pairs = wanted[start : start + _PAIRS]
        values = [value for pair in pairs for value in pair]
        for row in run(connection, _assignments_sql(len(pairs)), *values):
            _add(books, row)


def _look_back(
    connection: Connection, books: dict[str, DeviceBooks], reports: Sequence[tuple[str, StateReport]]
) -> None:
    """Of slots that say that something else runs than before: all since the assignment that was well last."""
    changed = sorted(
        {
            (device, report.slot)
            for device, report in reports
            if (slot := books[device].slots.get(report.slot)) is not None
            and slot.running.sha256 != report.running.sha256
        }
    )
    for start in range(0, len(changed), _PAIRS):
        pairs = changed[start : start + _PAIRS]
        values = [value for pair in pairs for value in pair]
        for row in run(connection, _since_well_sql(len(pairs)), *values):
            _add(books, row)
    for device, name in changed:
        books[device].whole.add(name)


def _add(books: dict[str, DeviceBooks], row: Any) -> None:
    found = KnownAssignment(
        row.seq,
        row.slot,
        row.rollout,
        row.round,
        row.action,
        row.sha256,
        bool(row.live),
        MemberState(row.state),
        row.code,
        row.said,
        row.left_as,
        row.report_no,
        row.terminal_no,
    )
    books[row.device].assignments.setdefault(row.seq, found)


def _load_members(connection: Connection, books: dict[str, DeviceBooks]) -> None:
    wanted = sorted(
        {
            (device, a.rollout)
            for device, book in books.items()
            for a in book.assignments.values()
            if a.rollout is not None
        }
    )
    for start in range(0, len(wanted), _PAIRS):
        pairs = wanted[start : start + _PAIRS]
        values = [value for pair in pairs for value in pair]
        for row in run(connection, _members_sql(len(pairs)), *values):
            member = KnownMember(row.seq, row.round, MemberState(row.state), row.code)
            books[row.device].members[row.rollout] = member


def _write_members(connection: Connection, books: dict[str, DeviceBooks], now_ms: int) -> None:
    heard = [
        (device, rollout, member)
        for device, book in books.items()
        for rollout, member in book.members.items()
        if member.heard
    ]
    _run_some(
        connection,
        _MOVED,
        [(m.state.value, m.code, now_ms, now_ms, rollout, device) for device, rollout, m in heard if m.moved],
    )
    _run_some(
        connection,
        _HEARD,
        [(m.code, now_ms, rollout, device) for device, rollout, m in heard if not m.moved],
    )
    _run_some(connection, _TOUCHED, sorted({(now_ms, rollout) for _, rollout, m in heard if m.moved}))


def _run_some(connection: Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    found = list(rows)
    if found:
        run_many(connection, statement, found)


def _device_values(one: KnownDevice, now_ms: int) -> tuple[Any, ...]:
    newest = (one.device, one.seq, one.report_no, one.boot_id, one.at_ms, one.nonce)
    return (*newest, one.facts, now_ms, one.time_floor_ms)


def _assignment_values(device: str, one: KnownAssignment, now_ms: int) -> tuple[Any, ...]:
    said = (one.live, one.state.value, one.code, one.said, one.left_as, one.report_no, one.terminal_no)
    return (*said, one.moved, now_ms, device, one.seq)


def _new_values(device: str, one: KnownAssignment, now_ms: int) -> tuple[Any, ...]:
    said = (one.state.value, one.code, one.said, one.left_as, one.report_no, one.terminal_no)
    return (device, one.seq, one.slot, one.action, *said, now_ms, now_ms, now_ms)


@functools.lru_cache(maxsize=512)
def _assignments_sql(pairs: int) -> str:
    values = ", ".join(["(?, CAST(? AS BIGINT))"] * pairs)
    return (
        f"WITH wanted (device, seq) AS (VALUES {values}) "  # noqa: S608 - marks alone
        f"SELECT {_COLUMNS} FROM wanted w JOIN assignments a ON a.device = w.device AND a.seq = w.seq"
    )


@functools.lru_cache(maxsize=512)
def _since_well_sql(pairs: int) -> str:
    values = ", ".join(["(?, ?)"] * pairs)
    return (
        f"WITH wanted (device, slot) AS (VALUES {values}) "  # noqa: S608 - marks alone
        f"SELECT {_COLUMNS} FROM wanted w JOIN assignments a ON a.device = w.device AND a.slot = w.slot "
        "WHERE a.seq >= (SELECT max(h.seq) FROM assignments h WHERE h.device = w.device AND h.slot = w.slot "
        "AND h.state = 'healthy' AND h.action IN ('install', 'rollback'))"
    )


@functools.lru_cache(maxsize=512)
def _members_sql(pairs: int) -> str:
    values = ", ".join(["(?, CAST(? AS BIGINT))"] * pairs)
    return (
        f"WITH wanted (device, rollout) AS (VALUES {values}) "  # noqa: S608 - marks alone
        "SELECT m.device, m.rollout, m.seq, m.round, m.state, m.code FROM wanted w "
        "JOIN rollout_members m ON m.rollout = w.rollout AND m.device = w.device"
    )


_COLUMNS = (
    "a.device, a.seq, a.slot, a.rollout, a.round, a.action, a.sha256, a.live, a.state, a.code, a.said, "
    "a.left_as, a.report_no, a.terminal_no"
)
_DEVICES = (
    "SELECT device, seq, report_no, boot_id, at_ms, nonce, facts, time_floor_ms FROM device_updates "
    "WHERE device IN ({})"
)
_SLOTS = (
    "SELECT device, slot, sha256, counter, package, seq, report_no FROM device_slots WHERE device IN ({})"
)
_LIVE = f"SELECT {_COLUMNS} FROM assignments a WHERE a.live AND a.device IN ({{}})"  # noqa: S608
_KEEP_DEVICE = (
    "INSERT INTO device_updates (device, seq, report_no, boot_id, at_ms, nonce, facts, reported_ms, "
    "time_floor_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (device) DO UPDATE SET seq = excluded.seq, "
    "report_no = excluded.report_no, boot_id = excluded.boot_id, at_ms = excluded.at_ms, "
    "nonce = excluded.nonce, facts = excluded.facts, reported_ms = excluded.reported_ms, "
    "time_floor_ms = excluded.time_floor_ms"
)
_KEEP_SLOT = (
    "INSERT INTO device_slots (device, slot, sha256, counter, package, seq, report_no, reported_ms) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (device, slot) DO UPDATE SET sha256 = excluded.sha256, "
    "counter = excluded.counter, package = excluded.package, report_no = excluded.report_no, "
    "reported_ms = excluded.reported_ms"
)
_NEW_ASSIGNMENT = (
    "INSERT INTO assignments (device, seq, slot, action, state, code, said, left_as, report_no, terminal_no, "
    "decided_ms, changed_ms, settled_ms, due_ms, live, round) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, FALSE, 0)"
)
_FORGET_UNKNOWN = (
    "DELETE FROM assignments WHERE device = ? AND action = 'unknown' AND seq NOT IN (SELECT seq FROM assignments "
    "WHERE device = ? AND action = 'unknown' ORDER BY settled_ms DESC, seq DESC LIMIT ?)"
)
_KEEP_ASSIGNMENT = (
    "UPDATE assignments SET live = ?, state = ?, code = ?, said = ?, left_as = ?, report_no = ?, "
    "terminal_no = ?, changed_ms = CASE WHEN ? THEN ? ELSE changed_ms END WHERE device = ? AND seq = ?"
)
_DUE_AGAIN = "UPDATE assignments SET due_ms = 0 WHERE device = ? AND seq = ?"
_SETTLED = "UPDATE assignments SET settled_ms = ? WHERE device = ? AND seq = ?"
_MOVED = (
    "UPDATE rollout_members SET state = ?, code = ?, since_ms = ?, heard_ms = ? "
    "WHERE rollout = ? AND device = ?"
)
_HEARD = "UPDATE rollout_members SET code = ?, heard_ms = ? WHERE rollout = ? AND device = ?"
_TOUCHED = "UPDATE rollouts SET touched_ms = ? WHERE number = ?"
