"""Writing and verifying the audit log in the database.

An entry is written in the transaction of the act itself: both happen, or neither. Writers take turns from the first
entry of a transaction to its end, so that two of them cannot follow the same entry; the unique column `previous`
would refuse the second.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from fleet_server.audit.chain import GENESIS, canonical, entry_hash, fitting
from fleet_server.storage.operator_tables import AuditRow
from fleet_server.storage.writing import AUDIT_LOCK, take_turn

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Whether the log is whole.

    Attributes:
        entries: that were read, up to the first that does not fit.
        head: hash of the last entry that fits, hexadecimal. Kept elsewhere, it also shows whether entries were cut
            off at the end, which the chain alone cannot.
        broken_at: id of the first entry that does not fit; None when all do.
        detail: what is wrong with it.
    """

    entries: int
    head: str
    broken_at: int | None = None
    detail: str = ""

    @property
    def whole(self) -> bool:
        """Whether every entry follows the one before and says what it said when it was written."""
        return self.broken_at is None


class Audit:
    """Writes entries.

    Args:
        clock: its wall clock labels them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def record(
        self, session: Session, actor: str, action: str, subject: str, detail: Mapping[str, object]
    ) -> AuditRow:
        """Write one entry in the caller's transaction.

        Args:
            session: of a writing transaction; its end also ends this writer's turn, so keep it short.
            actor: who: an operator's name, `token:ID` or `device:ID`.
            action: what, for example `device.approve`.
            subject: about what.
            detail: values that JSON knows; no secrets and no content of events.

        Raises:
            TypeError, ValueError: `detail` holds something else.
        """
        text = canonical(detail)
        actor, action, subject = fitting(actor, action, subject)
        take_turn(session.connection(), AUDIT_LOCK)
        session.flush()
        newest = select(AuditRow.hash).order_by(AuditRow.id.desc()).limit(1)
        previous = bytes(session.scalar(newest) or GENESIS)
        at_ms = self._clock.wall().unix_ns // NS_PER_MS
        row = AuditRow(
            at_ms=at_ms,
            actor=actor,
            action=action,
            subject=subject,
            detail=text,
            previous=previous,
            hash=entry_hash(previous, at_ms, actor, action, subject, text),
        )
        session.add(row)
        session.flush()
        return row

    def __call__(
        self, session: Session, actor: str, action: str, subject: str, detail: Mapping[str, object]
    ) -> None:
        """`record`, for those who want only a function."""
        self.record(session, actor, action, subject, detail)


def entries(session: Session, *, limit: int = 50, before: int | None = None) -> list[AuditRow]:
    """Entries, the newest first.

    Args:
        session: of any transaction.
        limit: at most so many, 1 to 1000.
        before: only entries with a smaller id.
    """
    query = select(AuditRow).order_by(AuditRow.id.desc()).limit(max(1, min(limit, _PAGE)))
    if before is not None:
        query = query.where(AuditRow.id < before)
    return list(session.scalars(query))


def verify(session: Session) -> AuditReport:
    """Recompute the chain from its first entry to its last, page by page."""
    head, count = GENESIS, 0
    last: int | None = None  # whoever adds an entry to the database may give it any id
    while True:
        query = select(AuditRow).order_by(AuditRow.id).limit(_PAGE)
        page = list(session.scalars(query if last is None else query.where(AuditRow.id > last)))
        for row in page:
            if wrong := _fault(row, head):
                return AuditReport(count, head.hex(), row.id, wrong)
            head, count, last = bytes(row.hash), count + 1, row.id
        session.expunge_all()
        if len(page) < _PAGE:
            return AuditReport(count, head.hex())


def _fault(row: AuditRow, head: bytes) -> str:
    if bytes(row.previous) != head:
        return "it does not follow the entry before it: one was removed, added or changed"
    computed = entry_hash(head, row.at_ms, row.actor, row.action, row.subject, row.detail)
    return "" if computed == bytes(row.hash) else "it does not say what it said when it was written"
