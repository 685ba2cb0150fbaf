"""Rows of the queue: enqueue, settle, expire. Each function is a part of one transaction."""

from zlib import crc32

from edge_runtime.outbox import evidence_rows
from edge_runtime.outbox.decision_rows import add_dead_letter
from edge_runtime.outbox.eviction import make_room
from edge_runtime.outbox.order import SEVERITIES, Place, bound_of, entry_of
from edge_runtime.outbox.records import (
    ACCEPTED,
    DUPLICATE,
    MAX_TTL_NS,
    NotAccepted,
    Put,
    PutResult,
    QueuedEntry,
    Submission,
)
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.transaction import CRITICAL, Transaction
from edge_runtime.protocol.delivery import Receipt, Rejection, RejectionCode
from edge_runtime.protocol.vocabulary import Fate

CHUNK = 2_000
"""Rows that one transaction settles or expires at most, so that an enqueue behind it does not wait long."""

TIGHT_CHUNK = 64
"""The same while the disk is full: the log has few blocks, and deletes must always fit."""

LEASE_GRACE_MS = 120_000
"""An event that is on its way is not called expired before this has passed: its receipt may already exist."""

_ENDING = "SELECT seq, severity, length(body), evidence FROM queue "
_REJECTED = (
    "SELECT seq, severity, length(body), evidence, deadline, tries, body FROM queue WHERE seq = ? AND key = ?"
)


def row_crc(key: bytes, severity: int, deadline: int, body: bytes) -> int:
    """Checksum by which a row is trusted when its file is damaged."""
    return crc32(body, crc32(key + b"%d,%d" % (severity, deadline)))


def enqueue(tx: Transaction, item: Submission) -> PutResult:
    """Queue one event, giving up others where the quota asks for it: none that is more severe, see `eviction`."""
    key, _, severity, ttl_ns, body, receipt, crop = item
    books = tx.books
    if item.too_large:
        return refuse(tx, NotAccepted.TOO_LARGE)
    if key in tx.known.keys:
        return DUPLICATE[tx.volatile]
    size = len(body) + ROW_OVERHEAD
    if books.bytes + size > tx.share:
        refusal = make_room(tx, size, severity)
        if refusal is not None:
            return refuse(tx, refusal)
    evidence = None if crop is None else evidence_rows.add(tx, item)
    insert(tx, key, severity, ttl_ms(ttl_ns), body, evidence=evidence)
    tx.decide(key, receipt)
    books.accepted += 1
    return ACCEPTED[tx.volatile]


def insert(
    tx: Transaction,
    key: bytes,
    severity: int,
    left_ms: int,
    body: bytes,
    *,
    evidence: bytes | None,
    tries: int = 0,
) -> None:
    """Add a row under the next sequence number; the caller has made room and counts it."""
    books, now, size = tx.books, tx.now_ms, len(body) + ROW_OVERHEAD
    seq, deadline = books.next, now + left_ms
    crc = crc32(body, crc32(key + b"%d,%d" % (severity, deadline)))  # as `row_crc`
    tx.insert((seq, key, severity, now, deadline, tries, evidence, crc, body))
    books.next = seq + 1
    books.queued += 1
    books.bytes += size
    if severity == CRITICAL:
        books.critical_bytes += size


def refuse(tx: Transaction, reason: NotAccepted) -> PutResult:
    """Count a submission that was not accepted."""
    tx.counters[f"not_accepted.{reason.value}"] += 1
    return PutResult(Put.NOT_ACCEPTED, reason)


def ttl_ms(ttl_ns: int) -> int:
    """Time to live in whole milliseconds, at least 0, at most what a row may wait."""
    if 0 <= ttl_ns <= MAX_TTL_NS:
        return ttl_ns // 1_000_000
    return 0 if ttl_ns < 0 else MAX_TTL_NS // 1_000_000


def settle_ranges(tx: Transaction, receipt: Receipt) -> tuple[int, bool]:
    """Delete what the server has; how many that were, and whether it is done."""
    high = min(receipt.high, tx.books.next - 1)
    number, most = 0, _chunk(tx)
    for first, last in ((1, high), *receipt.accepted):
        if last <= tx.books.passed:
            continue  # nothing is queued there any more
        rows = tx.database.execute(
            _ENDING + "WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?", (first, last, most - number)
        )
        if rows:
            tx.database.execute("DELETE FROM queue WHERE seq BETWEEN ? AND ?", (rows[0][0], rows[-1][0]))
            tx.forget([row[0] for row in rows])
            number += tx.end(rows, Fate.DELIVERED, known_to_server=True)
        if number >= most:
            return number, False
    tx.books.passed = max(tx.books.passed, high)
    return number, True


def settle_rejection(tx: Transaction, word: Rejection) -> Fate | None:
    """Apply the server's word on one event.

    Returns:
        Its fate, or None when it was put off.

    Raises:
        KeyError: no such event is queued.
    """
    rows = tx.database.execute(
        _REJECTED,
        (word.seq, word.key),
    )
    if not rows:
        raise KeyError(word.seq)
    *ending, deadline, tries, body = rows[0]
    if not word.permanent and word.code is not RejectionCode.EXPIRED:
        tx.database.execute("UPDATE queue SET tries = tries + 1 WHERE seq = ?", (word.seq,))
        seq, severity, length, evidence = ending
        place = (severity, entry_of(deadline, seq, length, crop=evidence is not None))
        tx.on_commit.append(lambda: _rest(tx, seq, place, tries + 1))
        return None
    fate = Fate.EXPIRED if word.code is RejectionCode.EXPIRED else Fate.REJECTED
    tx.database.execute("DELETE FROM queue WHERE seq = ?", (word.seq,))
    tx.forget([word.seq])
    tx.end([tuple(ending)], fate)  # the server closes the gap once it hears that its refusal arrived
    if fate is Fate.REJECTED:
        add_dead_letter(tx, word, body)
    return fate


def _rest(tx: Transaction, seq: int, place: Place, tries: int) -> None:
    """After the commit, unless the same receipt has ended it as well."""
    if seq not in tx.ended:
        tx.leases.rest(seq, place, tx.now_ms, tries)


def _chunk(tx: Transaction) -> int:
    return CHUNK if tx.tight is None else TIGHT_CHUNK


def expire(tx: Transaction) -> int:
    """Give up what is past its deadline, at most a chunk; what is on its way gets some grace."""
    order, bound, left = tx.order(), bound_of(tx.now_ms), _chunk(tx)
    late = _late_leases(tx)[:left]
    for severity in range(SEVERITIES):
        while len(late) < left and (entry := order.first(severity)) is not None and entry < bound:
            late.append((severity, order.take(severity)))
    return tx.give_up(late, Fate.EXPIRED)


def runs_out(tx: Transaction) -> bool:
    """Whether `expire` would give up anything."""
    return tx.order().runs_out(tx.now_ms) or bool(_late_leases(tx))


def _late_leases(tx: Transaction) -> list[Place]:
    """What rests is late at its deadline, what is on its way after some grace."""
    owners, ended = tx.leases.owners, set(tx.ended)
    now, past = bound_of(tx.now_ms), bound_of(tx.now_ms - LEASE_GRACE_MS)
    return [
        place
        for seq, place in tx.leases.places.items()
        if place[1] < now and (place[1] < past or seq not in owners) and seq not in ended
    ]


def share_past(tx: Transaction, time_ms: int) -> float:
    """Share of the queue, 0 to 1, that would be past its deadline at a queue time; 0 when it is empty."""
    if not tx.books.queued:
        return 0.0
    bound = bound_of(time_ms)
    past = tx.order().past(time_ms) + sum(entry < bound for _, entry in tx.leases.places.values())
    return past / tx.books.queued


def list_queue(tx: Transaction, limit: int, after: int) -> list[QueuedEntry]:
    """Queued events in the order of their sequence numbers, without their content."""
    rows = tx.database.execute(
        "SELECT key, seq, severity, deadline, length(body), tries FROM queue WHERE seq > ? ORDER BY seq LIMIT ?",
        (after, limit),
    )
    return [
        QueuedEntry(key, seq, severity, max(0, deadline - tx.now_ms), length, tries)
        for key, seq, severity, deadline, length, tries in rows
    ]


def load_bodies(tx: Transaction, limit: int, after: int) -> list[tuple[int, bytes]]:
    """Bodies in the order of their sequence numbers, for an export."""
    rows = tx.database.execute(
        "SELECT seq, body FROM queue WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
    )
    return [(seq, body) for seq, body in rows]
