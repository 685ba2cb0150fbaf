"""Rows of the queue: enqueue with eviction, lease, settle, expire. Each function is a part of one transaction."""

import zlib

from edge_runtime.outbox import evidence_rows
from edge_runtime.outbox.database import Row
from edge_runtime.outbox.decision_rows import add_dead_letter, add_decision
from edge_runtime.outbox.records import (
    MAX_TTL_NS,
    NotAccepted,
    Put,
    PutResult,
    QueuedEntry,
    QueuedItem,
    Submission,
)
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.transaction import CRITICAL, EndingRow, Transaction
from edge_runtime.protocol.delivery import Receipt, Rejection, RejectionCode
from edge_runtime.protocol.vocabulary import Fate

CHUNK = 2_000
"""Rows that one transaction settles or expires at most, so that an enqueue behind it does not wait long."""

TIGHT_CHUNK = 64
"""The same while the disk is full: the log has few blocks, and deletes must always fit."""

LEASE_GRACE_MS = 120_000
"""An event that is on its way is not called expired before this has passed: its receipt may already exist."""

_FIRST_PAGE, _LAST_PAGE = 4, 256
_KNOWN = "SELECT 1 FROM queue WHERE key = ? UNION ALL SELECT 1 FROM decisions WHERE key = ? LIMIT 1"
_ENDING = "SELECT seq, severity, length(body), evidence FROM queue "


def row_crc(key: bytes, severity: int, deadline: int, body: bytes) -> int:
    """Checksum by which a row is trusted when its file is damaged."""
    return zlib.crc32(body, zlib.crc32(key + b"%d,%d" % (severity, deadline)))


def enqueue(tx: Transaction, item: Submission) -> PutResult:
    """Queue one event, giving up less severe or older ones of its own severity where the quota asks for it."""
    if tx.database.execute(_KNOWN, (item.key, item.key)):
        return PutResult(Put.DUPLICATE, volatile=tx.volatile)
    size = len(item.body) + ROW_OVERHEAD
    refusal = make_room(tx, size, item.severity)
    if refusal is not None:
        return refuse(tx, refusal)
    insert(tx, item.key, item.severity, ttl_ms(item.ttl_ns), item.body, evidence=evidence_rows.add(tx, item))
    add_decision(tx, item.key, item.receipt)
    tx.books.accepted += 1
    return PutResult(Put.ACCEPTED, volatile=tx.volatile)


def insert(
    tx: Transaction,
    key: bytes,
    severity: int,
    left_ms: int,
    body: bytes,
    *,
    evidence: bytes | None,
    tries: int = 0,
) -> int:
    """Add a row under the next sequence number, which it returns; the caller has made room and counts it."""
    books, deadline = tx.books, tx.now_ms + left_ms
    seq = books.next
    crc = row_crc(key, severity, deadline, body)
    tx.database.execute(
        "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (seq, key, severity, tx.now_ms, deadline, tries, evidence, crc, body),
    )
    books.next += 1
    books.queued += 1
    books.bytes += len(body) + ROW_OVERHEAD
    if severity == CRITICAL:
        books.critical_bytes += len(body) + ROW_OVERHEAD
    return seq


def refuse(tx: Transaction, reason: NotAccepted) -> PutResult:
    """Count a submission that was not accepted."""
    tx.counters[f"not_accepted.{reason.value}"] += 1
    return PutResult(Put.NOT_ACCEPTED, reason)


def why_full(tx: Transaction) -> NotAccepted:
    """Which limit a submission met: the quota, the disk, or the memory that stands in for the disk."""
    if tx.volatile:
        return NotAccepted.READ_ONLY
    return NotAccepted.FULL if tx.tight is None else NotAccepted.DISK_FULL


def ttl_ms(ttl_ns: int) -> int:
    """Time to live in whole milliseconds, at least 0, at most what a row may wait."""
    return min(max(0, ttl_ns), MAX_TTL_NS) // 1_000_000


def make_room(tx: Transaction, size: int, severity: int) -> NotAccepted | None:
    """Evict what a newcomer of so many bytes may push out; why it cannot be accepted, if it cannot."""
    books, quota = tx.books, tx.settings.quota_bytes
    if tx.tight is not None:
        quota = min(quota, tx.tight)
    need = books.bytes + size - quota
    if severity < CRITICAL:
        share = int(quota * (1 - tx.settings.reserve_share))
        need = max(need, books.bytes - books.critical_bytes + size - share)
    if need <= 0:
        return None
    victims = _victims(tx, need, severity)
    if victims is None:
        return why_full(tx)
    tx.database.execute_many("DELETE FROM queue WHERE seq = ?", [(victim[0],) for victim in victims])
    tx.end(victims, Fate.EVICTED)
    return None


def _victims(tx: Transaction, need: int, severity: int) -> list[EndingRow] | None:
    """Lowest severity first, oldest first, none above `severity`, none on its way; None if they do not suffice."""
    found: list[EndingRow] = []
    for level in range(severity + 1):
        after, size = 0, _FIRST_PAGE
        while need > 0:
            page: list[Row] = tx.database.execute(
                _ENDING + "WHERE severity = ? AND seq > ? ORDER BY seq LIMIT ?", (level, after, size)
            )
            for row in page:
                if need > 0 and row[0] not in tx.leases.owners:
                    found.append(row)
                    need -= row[2] + ROW_OVERHEAD
            if len(page) < size:
                break
            after, size = page[-1][0], min(2 * size, _LAST_PAGE)
    return found if need <= 0 else None


def lease(
    tx: Transaction, owner: object, max_items: int, max_bytes: int, min_severity: int
) -> list[QueuedItem]:
    """Hand out events, severest first, then oldest; at least one if there is any, however small `max_bytes` is."""
    items: list[QueuedItem] = []
    left = max_bytes
    for severity in range(CRITICAL, max(0, min_severity) - 1, -1):
        for seq in _free(tx, severity, max_items - len(items)):
            item = _load(tx, seq, severity)
            if item is None:
                continue
            if items and len(item.body) > left:
                return _take(tx, owner, items)
            left -= len(item.body)
            items.append(item)
    return _take(tx, owner, items)


def _free(tx: Transaction, severity: int, number: int) -> list[int]:
    """Sequence numbers of one severity that nobody has, oldest first."""
    if number <= 0:
        return []
    start, leases = tx.leases.scan_from[severity], tx.leases
    rows = tx.database.execute(
        "SELECT seq FROM queue WHERE severity = ? AND seq >= ? ORDER BY seq LIMIT ?",
        (severity, start, number + len(leases)),
    )
    return [row[0] for row in rows if row[0] not in leases][:number]


def _load(tx: Transaction, seq: int, severity: int) -> QueuedItem | None:
    """A row as an item; None when it is past its deadline, or damaged, in which case it is counted as lost."""
    key, deadline, tries, evidence, crc, body = tx.database.execute(
        "SELECT key, deadline, tries, evidence, crc, body FROM queue WHERE seq = ?", (seq,)
    )[0]
    if crc != row_crc(key, severity, deadline, body):
        tx.database.execute("DELETE FROM queue WHERE seq = ?", (seq,))
        tx.end([(seq, severity, len(body), evidence)], Fate.LOST)
        return None
    if deadline <= tx.now_ms:
        return None
    tries += tx.leases.tries.get(seq, 0)
    return QueuedItem(key, seq, severity, deadline - tx.now_ms, None, tries, body)


def _take(tx: Transaction, owner: object, items: list[QueuedItem]) -> list[QueuedItem]:
    leases, before = tx.leases, list(tx.leases.scan_from)
    for item in items:  # oldest first within a severity: nothing free is left behind
        leases.take(owner, item.seq, item.severity)
        leases.scan_from[item.severity] = max(leases.scan_from[item.severity], item.seq + 1)

    def undo() -> None:
        leases.give_back([item.seq for item in items])
        leases.scan_from = before

    tx.on_rollback.append(undo)
    return items


def settle_ranges(tx: Transaction, receipt: Receipt) -> tuple[int, bool]:
    """Delete what the server has; how many that were, and whether it is done."""
    high = min(receipt.high, tx.books.next - 1)
    number, most = 0, _chunk(tx)
    for first, last in ((1, high), *receipt.accepted):
        rows = tx.database.execute(
            _ENDING + "WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?", (first, last, most - number)
        )
        if rows:
            tx.database.execute("DELETE FROM queue WHERE seq BETWEEN ? AND ?", (rows[0][0], rows[-1][0]))
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
        _ENDING.replace("evidence FROM", "evidence, tries, body FROM") + "WHERE seq = ? AND key = ?",
        (word.seq, word.key),
    )
    if not rows:
        raise KeyError(word.seq)
    *ending, tries, body = rows[0]
    if not word.permanent and word.code is not RejectionCode.EXPIRED:
        tx.database.execute("UPDATE queue SET tries = tries + 1 WHERE seq = ?", (word.seq,))
        severity, now = ending[1], tx.now_ms
        tx.on_commit.append(lambda: tx.leases.rest(word.seq, severity, now, tries + 1))
        return None
    fate = Fate.EXPIRED if word.code is RejectionCode.EXPIRED else Fate.REJECTED
    tx.database.execute("DELETE FROM queue WHERE seq = ?", (word.seq,))
    tx.end([tuple(ending)], fate)  # the server closes the gap once it hears that its refusal arrived
    if fate is Fate.REJECTED:
        add_dead_letter(tx, word, body)
    return fate


def _chunk(tx: Transaction) -> int:
    return CHUNK if tx.tight is None else TIGHT_CHUNK


def expire(tx: Transaction) -> int:
    """Give up what is past its deadline, at most a chunk; what is on its way gets some grace."""
    owners = tx.leases.owners
    rows = tx.database.execute(
        "SELECT seq, severity, length(body), evidence, deadline FROM queue WHERE deadline <= ? "
        "ORDER BY deadline LIMIT ?",
        (tx.now_ms, _chunk(tx) + len(owners)),
    )
    late = [row for row in rows if row[0] not in owners or row[4] + LEASE_GRACE_MS <= tx.now_ms]
    tx.database.execute_many("DELETE FROM queue WHERE seq = ?", [(row[0],) for row in late])
    return tx.end([row[:4] for row in late], Fate.EXPIRED)


def share_past(tx: Transaction, time_ms: int) -> float:
    """Share of the queue, 0 to 1, that would be past its deadline at a queue time; 0 when it is empty."""
    if not tx.books.queued:
        return 0.0
    past = tx.database.execute("SELECT count(*) FROM queue WHERE deadline <= ?", (time_ms,))[0][0]
    return float(past) / tx.books.queued


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
