"""Handing out: the severest first, and of equal severity the one whose deadline is nearest."""

from edge_runtime.outbox.leases import Place
from edge_runtime.outbox.queue_rows import row_crc
from edge_runtime.outbox.records import QueuedItem
from edge_runtime.outbox.transaction import CRITICAL, Transaction
from edge_runtime.protocol.vocabulary import Fate

_LOADED = 32
"""Rows that one statement loads; a fixed number, so that SQLite compiles it once."""

_SCAN = (
    "SELECT deadline, seq FROM queue WHERE severity = ? AND (deadline, seq) >= (?, ?) "
    "ORDER BY deadline, seq LIMIT ?"
)
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

    Args:
        tx: transaction.
        max_items: number of events.
        max_bytes: of their bodies.
        min_severity: none below it.
        owner: who has them from now on.
        wall_ms: milliseconds since 1970 by a synchronised clock, or None.
    """
    items: list[QueuedItem] = []
    places: list[Place] = []
    left = max_bytes
    for severity in range(CRITICAL, max(0, min_severity) - 1, -1):
        free = _free(tx, severity, max_items - len(items))
        for first in range(0, len(free), _LOADED):
            for place, item in _load(tx, free[first : first + _LOADED], wall_ms):
                if items and len(item.body) > left:
                    return _take(tx, owner, places, items)
                left -= len(item.body)
                items.append(item)
                places.append(place)
    return _take(tx, owner, places, items)


def _free(tx: Transaction, severity: int, number: int) -> list[Place]:
    """Events of one severity that nobody has and that have not run out, in order."""
    found: list[Place] = []
    places = tx.leases.places
    start = max(tx.leases.scan_from[severity], (tx.now_ms + 1, 0))
    size = number
    while len(found) < number:
        rows = tx.database.execute(_SCAN, (severity, *start, size))
        found += [(severity, deadline, seq) for deadline, seq in rows if seq not in places]
        if len(rows) < size:
            break
        start, size = (rows[-1][0], rows[-1][1] + 1), min(2 * size, 1024)
    return found[: max(0, number)]


def _load(tx: Transaction, places: list[Place], wall_ms: int | None) -> list[tuple[Place, QueuedItem]]:
    """Rows as items, in order; without those that are damaged, which are counted as lost."""
    marks, epoch = [place[2] for place in places], tx.books.epoch
    rows = {row[0]: row for row in tx.database.execute(_LOAD, marks + [-1] * (_LOADED - len(marks)))}
    loaded: list[tuple[Place, QueuedItem]] = []
    for place in places:
        row = rows.get(place[2])
        if row is None:
            continue  # the index is damaged: the next start finds it
        seq, key, severity, deadline, tries, evidence, crc, body = row
        if crc != row_crc(key, severity, deadline, body):
            tx.delete([seq])
            tx.end([(seq, severity, len(body), evidence)], Fate.LOST)
            continue
        tries += tx.leases.tries.get(seq, 0)
        left = deadline - tx.now_ms
        label = None if wall_ms is None else wall_ms + left
        loaded.append((place, QueuedItem(key, seq, severity, left, label, tries, body, epoch)))
    return loaded


def _take(tx: Transaction, owner: object, places: list[Place], items: list[QueuedItem]) -> list[QueuedItem]:
    leases, before = tx.leases, list(tx.leases.scan_from)
    for place in places:  # in order within a severity: nothing free is left behind
        leases.take(owner, place)
        leases.scan_from[place[0]] = (place[1], place[2] + 1)

    def undo() -> None:
        leases.give_back([place[2] for place in places])
        for severity, start in enumerate(before):
            leases.scan_from[severity] = min(leases.scan_from[severity], start)

    if places:
        tx.on_rollback.append(undo)
    return items
