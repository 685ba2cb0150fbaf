"""What was refused, kept for whoever asks why: bounded in number and bytes of all devices together.

Beyond the bounds each device keeps as many of its newest letters as every other: one that sends nothing but rubbish
pushes its own out, and nobody else's.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, or_, select
from sqlalchemy.engine import Connection

from fleet_server.ingest.parcels import DeadParcel
from fleet_server.storage.event_tables import DeadLetterRow
from fleet_server.storage.writing import table

MAX_BODY_BYTES = 16 * 1024
"""Of one refused message this much is kept."""

_ROOM = 0.9
"""What is left of a bound that was exceeded, so that not every refused message makes this look at all of them."""

_LETTERS = table(DeadLetterRow)


def keep_dead_letters(
    connection: Connection, letters: Sequence[DeadParcel], now_ms: int, *, most: int, most_bytes: int
) -> None:
    """Keep refused messages. Beyond the bounds, give up the oldest of whoever has most, until a tenth is free.

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
    kept, kept_bytes = connection.execute(select(func.count(), func.sum(_kept_bytes()))).one()
    if kept > most or kept_bytes > most_bytes:
        _give_up(connection, int(most * _ROOM), int(most_bytes * _ROOM))


def _give_up(connection: Connection, most: int, most_bytes: int) -> None:
    """All devices' newest letters have the first places, then all their second newest, and so on."""
    newest_first = _LETTERS.c.id.desc()
    rank = func.row_number().over(partition_by=_LETTERS.c.device, order_by=newest_first).label("rank")
    ranked = select(_LETTERS.c.id, _kept_bytes().label("bytes"), rank).subquery()
    order = (ranked.c.rank, ranked.c.id.desc())
    placed = select(
        ranked.c.id,
        func.row_number().over(order_by=order).label("place"),
        # rows, not peers: else a database may read on to the end of each rank
        func.sum(ranked.c.bytes).over(order_by=order, rows=(None, 0)).label("bytes"),
    ).subquery()
    beyond = select(placed.c.id).where(or_(placed.c.place > most, placed.c.bytes > most_bytes))
    connection.execute(delete(_LETTERS).where(_LETTERS.c.id.in_(beyond)))


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
