"""What was refused, kept for whoever asks why: bounded in number and bytes, oldest out first."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, select
from sqlalchemy.engine import Connection

from fleet_server.ingest.parcels import DeadParcel
from fleet_server.storage.event_tables import DeadLetterRow
from fleet_server.storage.writing import table

MAX_BODY_BYTES = 16 * 1024
"""Of one refused message this much is kept."""

_LETTERS = table(DeadLetterRow)


def keep_dead_letters(
    connection: Connection, letters: Sequence[DeadParcel], now_ms: int, *, most: int, most_bytes: int
) -> None:
    """Keep refused messages, and give up the oldest beyond the bounds.

    Args:
        connection: of a transaction that has the turn of ingest.
        letters: what was refused.
        now_ms: the server's wall clock.
        most: letters that are kept.
        most_bytes: bytes of their bodies that are kept together.
    """
    if not letters:
        return
    connection.execute(_LETTERS.insert(), [_row(letter, now_ms) for letter in letters])
    newest = connection.scalar(select(func.max(_LETTERS.c.id))) or 0
    connection.execute(delete(_LETTERS).where(_LETTERS.c.id <= newest - most))
    if (connection.scalar(select(func.sum(_kept_bytes()))) or 0) > most_bytes:
        running = func.sum(_kept_bytes()).over(order_by=_LETTERS.c.id.desc()).label("bytes")
        total = select(_LETTERS.c.id, running).subquery()
        last_too_many = select(func.max(total.c.id)).where(total.c.bytes > most_bytes)
        connection.execute(delete(_LETTERS).where(_LETTERS.c.id <= connection.scalar(last_too_many)))


def _kept_bytes() -> ColumnElement[int]:
    return case((_LETTERS.c.size < MAX_BODY_BYTES, _LETTERS.c.size), else_=MAX_BODY_BYTES)


def _row(letter: DeadParcel, now_ms: int) -> dict[str, Any]:
    return {
        "device": letter.device,
        "channel": letter.channel,
        "received_ms": now_ms,
        "code": letter.code,
        "text": letter.text,
        "key": letter.key,
        "seq": letter.seq,
        "size": len(letter.payload),
        "body": letter.payload[:MAX_BODY_BYTES],
    }
