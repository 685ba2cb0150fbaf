"""Forgetting: events and their keys after the time that the settings state, in short transactions.

A key must outlive every resend of its event, or the event would be stored twice. That is why the time is at least
the longest time to live plus the longest time that a device may be switched off (`RetentionSettings` insists). How
far an outbox file is settled is never forgotten while it is the device's newest one: a device that comes back after
a year still gets its `high`. By a clock that leapt nothing is forgotten (`clock_doubt`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import and_, delete, exists, func, select
from sqlalchemy.orm import Session, aliased

from fleet_server.evidence import EvidenceStore
from fleet_server.ingest.clock_doubt import LEAP_MS
from fleet_server.settings import RetentionSettings
from fleet_server.storage.device_tables import CommandRow, HeldRow
from fleet_server.storage.engine import Store
from fleet_server.storage.event_tables import (
    MINUTE_MS,
    EpochRow,
    EventMinuteRow,
    EventRow,
    EvidenceRow,
    FateCountRow,
    SettledRow,
)
from fleet_server.storage.writing import INGEST_LOCK, take_turn

_DAY_MS = 24 * 3600 * 1000
_AT_ONCE = 500
_ENDED = ("done", "failed", "expired")


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a run deleted."""

    events: int = 0
    evidence: int = 0
    epochs: int = 0
    commands: int = 0
    held: int = 0


def forget_old(
    store: Store,
    evidence: EvidenceStore,
    settings: RetentionSettings,
    now_ms: int,
    stopping: Callable[[], bool] = lambda: False,
) -> Forgotten:
    """Delete what is older than the settings let it be.

    Args:
        store: the database.
        evidence: whose files go with their events.
        settings: how long things are kept.
        now_ms: the wall clock, milliseconds since 1970; it must be synchronised, and believed.
        stopping: asked between transactions.
    """
    before_ms = now_ms - settings.days * _DAY_MS
    events = pieces = 0
    while not stopping():
        with store.write() as session:
            found = _forget_events(session, evidence, before_ms)
        events, pieces = events + found[0], pieces + found[1]
        if found[0] < _AT_ONCE:
            break
    with store.write() as session:
        _forget_minutes(session)
        return Forgotten(
            events,
            pieces,
            _forget_epochs(session, before_ms),
            _forget_commands(session, now_ms - settings.held_commands_days * _DAY_MS),
            _forget_held(session, now_ms - _DAY_MS),
        )


def leapt(session: Session, wall_ms: int) -> bool:
    """Whether the wall clock may have leapt, as far as the events tell: a gap among them, or since the newest.

    Events that came while the clock was ahead look like a gap too: they do not make it right.

    Args:
        session: reads.
        wall_ms: the wall clock, milliseconds since 1970.
    """
    now, longest = wall_ms // MINUTE_MS, LEAP_MS // MINUTE_MS
    newest = session.scalar(select(func.max(EventMinuteRow.minute)).where(EventMinuteRow.minute <= now))
    if newest is None:
        return False
    before = func.lag(EventMinuteRow.minute).over(order_by=EventMinuteRow.minute)
    gaps = (
        select((EventMinuteRow.minute - before).label("gap")).where(EventMinuteRow.minute <= now).subquery()
    )
    return now - newest > longest or (session.scalar(select(func.max(gaps.c.gap))) or 0) > longest


def _forget_events(session: Session, evidence: EvidenceStore, before_ms: int) -> tuple[int, int]:
    """The oldest events of one transaction, and the evidence that no other event names."""
    take_turn(session.connection(), INGEST_LOCK)
    # the newest row stays: ids must go on growing, because readers follow them
    newest = select(func.max(EventRow.id)).scalar_subquery()
    query = (
        select(EventRow.id, EventRow.device, EventRow.evidence_sha256)
        .where(
            EventRow.received_ms < before_ms,
            EventRow.id <= EventMinuteRow.last_before(before_ms),
            EventRow.id < newest,
        )
        .order_by(EventRow.id)
        .limit(_AT_ONCE)
    )
    rows = list(session.execute(query))
    session.execute(delete(EventRow).where(EventRow.id.in_([row.id for row in rows])))
    pieces = 0
    for device, sha256 in {(row.device, row.evidence_sha256) for row in rows if row.evidence_sha256}:
        needed = select(EventRow.id).where(EventRow.evidence_sha256 == sha256, EventRow.device == device)
        if session.scalar(needed.limit(1)) is None and session.get(EvidenceRow, (device, sha256)) is not None:
            evidence.forget(session, device, sha256)
            pieces += 1
    return len(rows), pieces


def _forget_minutes(session: Session) -> None:
    """Minutes whose events are gone."""
    take_turn(session.connection(), INGEST_LOCK)
    oldest = select(func.min(EventRow.id)).scalar_subquery()
    session.execute(delete(EventMinuteRow).where(EventMinuteRow.last_id < oldest))


def _forget_epochs(session: Session, before_ms: int) -> int:
    """Outbox files that a newer one of their device replaced long ago, and whose events are gone."""
    newer = aliased(EpochRow)
    query = (
        select(EpochRow.device, EpochRow.epoch)
        .where(
            EpochRow.seen_ms < before_ms,
            exists().where(newer.device == EpochRow.device, newer.seen_ms > EpochRow.seen_ms),
            ~exists().where(EventRow.device == EpochRow.device, EventRow.epoch == EpochRow.epoch),
        )
        .limit(_AT_ONCE)
    )
    found = list(session.execute(query))
    for device, epoch in found:
        for kind in (SettledRow, FateCountRow, EpochRow):
            session.execute(delete(kind).where(and_(kind.device == device, kind.epoch == epoch)))
    return len(found)


def _forget_commands(session: Session, before_ms: int) -> int:
    rows = delete(CommandRow).where(CommandRow.state.in_(_ENDED), CommandRow.expires_ms < before_ms)
    return len(session.scalars(rows.returning(CommandRow.id)).all())


def _forget_held(session: Session, before_ms: int) -> int:
    rows = delete(HeldRow).where(HeldRow.expires_ms < before_ms)
    return len(session.scalars(rows.returning(HeldRow.key)).all())
