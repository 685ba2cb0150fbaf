"""What was refused, for finding out why."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleet_server.storage.event_tables import DeadLetterRow


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One refused message or event; its bytes stay in the database.

    Attributes:
        channel: what came: a topic's channel.
        code: of the rejection or of the fault on the wire.
        key: of the delivery, 32 hexadecimal digits, where it could be read.
        size: bytes that came.
    """

    id: int
    device: str
    channel: str
    received_ms: int
    code: str
    text: str
    key: str | None
    seq: int | None
    size: int


def dead_letters(
    session: Session, *, device: str | None = None, before_id: int | None = None, limit: int = 100
) -> list[DeadLetter]:
    """The newest first."""
    query = select(DeadLetterRow).order_by(DeadLetterRow.id.desc()).limit(limit)
    if device is not None:
        query = query.where(DeadLetterRow.device == device)
    if before_id is not None:
        query = query.where(DeadLetterRow.id < before_id)
    return [
        DeadLetter(
            row.id,
            row.device,
            row.channel,
            row.received_ms,
            row.code,
            row.text,
            row.key.hex() if row.key is not None else None,
            row.seq,
            row.size,
        )
        for row in session.scalars(query)
    ]


def by_code(session: Session) -> dict[str, int]:
    """How many there are of each code."""
    query = select(DeadLetterRow.code, func.count()).group_by(DeadLetterRow.code).order_by(DeadLetterRow.code)
    return {str(code): count for code, count in session.execute(query)}
