"""Questions about devices: who they are, what they last said, and their balance."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.operation import Health
from edge_runtime.protocol.wire import WireError
from fleet_server.operators.balance import EpochBalance, compare, goes_on_from
from fleet_server.operators.places import in_two_places
from fleet_server.storage.device_tables import CertificateRow, DeviceRow, HealthRow, HeldListRow, PresenceRow
from fleet_server.storage.event_tables import EpochRow, FateCountRow, SettledRow

LEDGER_FIELDS = ("accepted", "queued", "delivered", "expired", "evicted", "rejected", "lost")


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One device, and what is known of it.

    Attributes:
        state: `active`, `pending`, `revoked` or `removed`.
        presence: `online`, `offline`, or None when it never connected.
        since_ms: of the presence.
        not_after_ms: when its newest active certificate ends.
        pending_key: sha256 of a public key that waits to be accepted, or None.
        health: as it last sent it; None while it never did, or in a version that cannot be read.
        health_ms: when that arrived.
        held: items that wait for a person, as far as policy lets the server know.
        two_places: it connects from two machines, which share its identity.
        stale_sessions: births and wills of older sessions that came late and were passed over.
    """

    id: str
    state: str
    serial: str | None
    labels: dict[str, str]
    created_ms: int
    changed_ms: int
    presence: str | None
    reason: str | None
    since_ms: int | None
    runtime: str | None
    not_after_ms: int | None
    pending_key: str | None
    health: Health | None
    health_ms: int | None
    held: int
    two_places: bool
    stale_sessions: int


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """One certificate of a device."""

    serial: str
    state: str
    key_sha256: str
    not_after_ms: int | None
    created_ms: int


def devices(
    session: Session, *, after: str = "", limit: int = 1000, only: str | None = None, state: str | None = None
) -> list[DeviceStatus]:
    """Devices by id.

    Args:
        session: to read in.
        after: only ids beyond this one, to read on.
        limit: the most that are given.
        only: this one alone.
        state: only devices in this state; removed ones are given only when asked for.
    """
    query = select(DeviceRow).where(DeviceRow.id > after).order_by(DeviceRow.id).limit(limit)
    if only is not None:
        query = query.where(DeviceRow.id == only)
    elif state is not None:
        query = query.where(DeviceRow.state == state)
    else:
        query = query.where(DeviceRow.state != "removed")
    rows = list(session.scalars(query))
    ids = [row.id for row in rows]
    presence = {
        row.device: row for row in session.scalars(select(PresenceRow).where(PresenceRow.device.in_(ids)))
    }
    health = {row.device: row for row in session.scalars(select(HealthRow).where(HealthRow.device.in_(ids)))}
    lists = session.scalars(select(HeldListRow).where(HeldListRow.device.in_(ids)))
    held = {row.device: row.total for row in lists}
    ends, pending = _certificates(session, ids)
    return [
        _status(
            row,
            presence.get(row.id),
            health.get(row.id),
            held=held.get(row.id, 0),
            not_after_ms=ends.get(row.id),
            pending_key=pending.get(row.id),
        )
        for row in rows
    ]


def certificates(session: Session, device: str) -> list[CertificateStatus]:
    """Every certificate that a device ever had or asked for, newest first."""
    rows = session.scalars(
        select(CertificateRow).where(CertificateRow.device == device).order_by(CertificateRow.id.desc())
    )
    return [
        CertificateStatus(row.serial, row.state, row.key_sha256, row.not_after_ms, row.created_ms)
        for row in rows
    ]


def balance(session: Session, device: str | None = None) -> list[EpochBalance]:
    """Every epoch of every device, or of one, by device and then from old to new."""
    epochs = select(EpochRow).order_by(EpochRow.device, EpochRow.epoch)
    counts = select(FateCountRow)
    runs = select(SettledRow)
    if device is not None:
        epochs = epochs.where(EpochRow.device == device)
        counts = counts.where(FateCountRow.device == device)
        runs = runs.where(SettledRow.device == device)
    settled: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for count in session.scalars(counts):
        _add(settled[count.device, count.epoch], count.fate, count.count)
    for run in session.scalars(runs):
        _add(settled[run.device, run.epoch], run.fate, run.last - run.first + 1)
    rows = list(session.scalars(epochs))
    ledgers = [Ledger(**{name: getattr(row, name) for name in LEDGER_FIELDS}) for row in rows]
    found: list[EpochBalance] = []
    before: dict[str, int] = {}
    for at, (row, ledger) in enumerate(zip(rows, ledgers, strict=True)):
        goes_on = at > 0 and rows[at - 1].device == row.device and goes_on_from(ledger, ledgers[at - 1])
        if not goes_on:
            before = {}
        is_closed = (
            at + 1 < len(rows) and rows[at + 1].device == row.device and goes_on_from(ledgers[at + 1], ledger)
        )
        here = settled.get((row.device, row.epoch), {})
        found.append(
            compare(
                row.device,
                row.epoch,
                ledger,
                here,
                high=row.high,
                reported_ms=row.reported_ms,
                before=before,
                is_closed=is_closed,
            )
        )
        before = dict(before)
        for fate, number in here.items():
            _add(before, fate, number)
    return found


def _add(counts: dict[str, int], fate: str, count: int) -> None:
    counts[fate] = counts.get(fate, 0) + count


def _certificates(session: Session, ids: Iterable[str]) -> tuple[dict[str, int], dict[str, str]]:
    rows = session.scalars(
        select(CertificateRow)
        .where(CertificateRow.device.in_(list(ids)), CertificateRow.state.in_(("active", "pending")))
        .order_by(CertificateRow.id)
    )
    ends: dict[str, int] = {}
    pending: dict[str, str] = {}
    for row in rows:
        if row.state == "pending":
            pending[row.device] = row.key_sha256
        elif row.not_after_ms is not None:
            ends[row.device] = max(row.not_after_ms, ends.get(row.device, 0))
    return ends, pending


def _status(
    row: DeviceRow,
    presence: PresenceRow | None,
    health: HealthRow | None,
    *,
    held: int,
    not_after_ms: int | None,
    pending_key: str | None,
) -> DeviceStatus:
    said, health_ms = _health(health), health.received_ms if health is not None else None
    return DeviceStatus(
        id=row.id,
        state=row.state,
        serial=row.serial,
        labels=dict(row.labels),
        created_ms=row.created_ms,
        changed_ms=row.changed_ms,
        presence=presence.state if presence is not None else None,
        reason=presence.reason if presence is not None else None,
        since_ms=presence.since_ms if presence is not None else None,
        runtime=presence.runtime if presence is not None else None,
        not_after_ms=not_after_ms,
        pending_key=pending_key,
        health=said,
        health_ms=health_ms,
        held=held,
        two_places=in_two_places(presence, said, health_ms),
        stale_sessions=presence.stale_ignored if presence is not None else 0,
    )


def _health(row: HealthRow | None) -> Health | None:
    if row is None:
        return None
    try:
        return Health.decode(row.body)
    except WireError:
        return None
