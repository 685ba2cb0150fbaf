"""Questions about committed events: a page of them, one of them, and what came after a number."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent
from edge_runtime.protocol.event import EventRecord
from edge_runtime.protocol.vocabulary import Severity
from edge_runtime.protocol.wire import WireError
from fleet_server.storage.event_tables import EventMinuteRow, EventRow, EvidenceRow

MAX_PAGE = 1000
_SEVERITIES = list(Severity)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are meant; None is no restriction.

    Attributes:
        since_ms, until_ms: when the server committed it, milliseconds since 1970; the first included, the
            second not.
    """

    device: str | None = None
    camera: str | None = None
    rule: str | None = None
    kind: str | None = None
    severity_at_least: Severity | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def apply(self, query: Select[Any]) -> Select[Any]:
        """The query with these restrictions; every value is a bound parameter."""
        for column, value in (
            (EventRow.device, self.device),
            (EventRow.camera, self.camera),
            (EventRow.rule, self.rule),
            (EventRow.kind, self.kind),
        ):
            if value is not None:
                query = query.where(column == value)
        if self.severity_at_least is not None:
            query = query.where(EventRow.severity >= self.severity_at_least.rank)
        if self.since_ms is not None:
            first = EventMinuteRow.first_since(self.since_ms)
            query = query.where(EventRow.received_ms >= self.since_ms, EventRow.id >= first)
        if self.until_ms is not None:
            last = EventMinuteRow.last_before(self.until_ms)
            query = query.where(EventRow.received_ms < self.until_ms, EventRow.id <= last)
        return query


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One committed event revision.

    Attributes:
        id: order of arrival.
        key: of the delivery, 32 hexadecimal digits.
        event, decision: as the device sent them; None where a newer protocol wrote what this one cannot read.
    """

    id: int
    key: str
    device: str
    epoch: str
    seq: int
    received_ms: int
    at_ms: int
    synced: bool
    severity: Severity
    kind: str
    rule: str
    camera: str
    state: str
    revision: int
    data_class: str
    evidence_sha256: str | None
    event: EventRecord | None
    decision: DecisionReceipt | None


def newest(
    session: Session, wanted: EventFilter, limit: int, before_id: int | None = None
) -> list[StoredEvent]:
    """The newest events that are meant, newest first.

    Args:
        session: to read in.
        wanted: which are meant.
        limit: 1 to `MAX_PAGE`.
        before_id: only older ones than this, to read on.
    """
    query = wanted.apply(select(EventRow)).order_by(EventRow.id.desc()).limit(min(limit, MAX_PAGE))
    if before_id is not None:
        query = query.where(EventRow.id < before_id)
    return _stored(session, query)


def after(session: Session, wanted: EventFilter, after_id: int, limit: int) -> list[StoredEvent]:
    """Events that are meant and came after a number, oldest first."""
    query = wanted.apply(select(EventRow)).where(EventRow.id > after_id).order_by(EventRow.id)
    return _stored(session, query.limit(min(limit, MAX_PAGE)))


def one(session: Session, key: bytes | int) -> StoredEvent | None:
    """The event of a delivery key or of a number, or None."""
    matches = EventRow.id == key if isinstance(key, int) else EventRow.key == key
    found = _stored(session, select(EventRow).where(matches))
    return found[0] if found else None


def reference(text: str) -> bytes | int:
    """What a text names an event by: 32 hexadecimal digits are a key, fewer decimal ones a number."""
    return bytes.fromhex(text) if len(text) == 32 else int(text)


def evidence_of(session: Session, event: StoredEvent) -> EvidenceRow | None:
    """The evidence that the event's decision names, and how far its upload is."""
    if event.evidence_sha256 is None:
        return None
    return session.get(EvidenceRow, (event.device, event.evidence_sha256))


def newest_id(session: Session) -> int:
    """Number of the newest event; 0 while there is none."""
    return session.scalar(select(func.max(EventRow.id))) or 0


def _stored(session: Session, query: Select[Any]) -> list[StoredEvent]:
    return [_event(row) for row in session.scalars(query)]


def _event(row: EventRow) -> StoredEvent:
    try:
        approved = ApprovedEvent.decode(row.body)
    except WireError:
        approved = None
    return StoredEvent(
        id=row.id,
        key=row.key.hex(),
        device=row.device,
        epoch=row.epoch,
        seq=row.seq,
        received_ms=row.received_ms,
        at_ms=row.at_ms,
        synced=row.synced,
        severity=_SEVERITIES[row.severity],
        kind=row.kind,
        rule=row.rule,
        camera=row.camera,
        state=row.state,
        revision=row.revision,
        data_class=row.data_class,
        evidence_sha256=row.evidence_sha256,
        event=approved.event if approved is not None else None,
        decision=approved.decision if approved is not None else None,
    )
