"""Handing out: the severest first, and of equal severity the one whose deadline is nearest."""

from edge_runtime.outbox.database import DatabaseFault, StoreFault
from edge_runtime.outbox.order import Place, bound_of, length_of, seq_of
from edge_runtime.outbox.queue_rows import expire, row_crc
from edge_runtime.outbox.records import QueuedItem
from edge_runtime.outbox.transaction import CRITICAL, Transaction
from edge_runtime.protocol.vocabulary import Fate

_LOADED = 32
"""Rows that one statement loads; a fixed number, so that SQLite compiles it once."""

_LOAD = (
    "SELECT seq, key, severity, deadline, tries, evidence, crc, body FROM queue "  # noqa: S608 - only marks
    f"WHERE seq IN ({', '.join('?' * _LOADED)})"
)


def lease(
    tx: Transaction,
    max_items: int,
    max_bytes: int,
    min_severity: int,
    *,
    owner: object,
    wall_ms: int | None,
) -> list[QueuedItem]:
    """Hand out events; at least one if there is any, however small `max_bytes` is.

    What has run out meanwhile is given up first, as expiry does.

    Args:
        tx: transaction.
        max_items: number of events.
        max_bytes: of their bodies.
        min_severity: none below it.
        owner: who has them from now on.
        wall_ms: milliseconds since 1970 by a synchronised clock, or None.
    """
    if tx.order().runs_out(tx.now_ms):
        expire(tx)
        tx.write_rows()
    places = _take(tx, max_items, max_bytes, min_severity)
    items = [
        item
        for first in range(0, len(places), _LOADED)
        for item in _load(tx, places[first : first + _LOADED], wall_ms)
    ]
    kept = {seq_of(place[1]): place for place in places}
    for item in items:
        tx.leases.take(owner, item.seq, kept[item.seq])
    tx.on_rollback.append(lambda: tx.leases.untake(kept))
    return items


def _take(tx: Transaction, max_items: int, max_bytes: int, min_severity: int) -> list[Place]:
    """Events that nobody has and that have not run out, in order; they leave the order."""
    order, late = tx.order(), bound_of(tx.now_ms)
    taken: list[Place] = []
    left = max_bytes
    for severity in range(CRITICAL, max(0, min_severity) - 1, -1):
        while len(taken) < max_items:
            entry = order.first(severity)
            if entry is None or entry < late:  # more has run out than one transaction gives up
                break
            left -= length_of(entry)
            if taken and left < 0:
                return taken
            taken.append((severity, order.take(severity)))
    return taken


def _load(tx: Transaction, places: list[Place], wall_ms: int | None) -> list[QueuedItem]:
    """Rows as items, in order; without those that are damaged, which are counted as lost."""
    marks, epoch = [seq_of(entry) for _, entry in places], tx.books.epoch
    rows = {row[0]: row for row in tx.database.execute(_LOAD, marks + [-1] * (_LOADED - len(marks)))}
    loaded: list[QueuedItem] = []
    for mark in marks:
        row = rows.get(mark)
        if row is None:
            raise DatabaseFault("a queued event is missing", StoreFault.CORRUPT)
        seq, key, severity, deadline, tries, evidence, crc, body = row
        if crc != row_crc(key, severity, deadline, body):
            tx.delete([seq])
            tx.end([(seq, severity, len(body), evidence)], Fate.LOST)
            continue
        tries += tx.leases.tries.get(seq, 0)
        left = deadline - tx.now_ms
        label = None if wall_ms is None else wall_ms + left
        loaded.append(QueuedItem(key, seq, severity, left, label, tries, body, epoch))
    return loaded
