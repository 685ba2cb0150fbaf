"""Events that wait for a person: a quota and deadlines of their own, and the two ways out."""

from edge_runtime.outbox import evidence_rows, queue_rows
from edge_runtime.outbox.eviction import why_full
from edge_runtime.outbox.records import (
    ACCEPTED,
    DUPLICATE,
    HeldEntry,
    HeldItem,
    PutResult,
    Submission,
)
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.transaction import Transaction

_CHUNK = 500


def hold(tx: Transaction, item: Submission) -> PutResult:
    """Keep one event for a person, giving up less severe or older ones of its own severity for it."""
    if item.key in tx.known.keys or tx.database.execute("SELECT 1 FROM held WHERE key = ?", (item.key,)):
        return DUPLICATE[tx.volatile]
    size = len(item.body) + len(item.receipt) + ROW_OVERHEAD
    if not _make_room(tx, size, item.severity):
        return queue_rows.refuse(tx, why_full(tx))
    deadline = tx.now_ms + queue_rows.ttl_ms(item.ttl_ns)
    evidence = evidence_rows.add(tx, item)
    crc = queue_rows.row_crc(item.key, item.severity, deadline, item.body)
    tx.database.execute(
        "INSERT INTO held (key, severity, deadline, evidence, crc, receipt, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (item.key, item.severity, deadline, evidence, crc, item.receipt, item.body),
    )
    tx.books.held += 1
    tx.books.held_bytes += size
    tx.counters["gate.held"] += 1
    tx.decide(item.key, item.receipt)
    return ACCEPTED[tx.volatile]


def release(tx: Transaction, key: bytes, item: Submission) -> PutResult | None:
    """Move a held event to the queue as a person released it; None when it is not held.

    A release that the queue does not accept leaves the event held, so that it can be tried again.
    """
    rows = tx.database.execute("SELECT 1 FROM held WHERE key = ?", (key,))
    if not rows:
        return None
    result = queue_rows.enqueue(tx, item)
    if result.accepted:
        _remove(tx, key, "released")
    return result


def drop(tx: Transaction, key: bytes, decision_key: bytes, receipt: bytes) -> bool:
    """Give up a held event as a person decided; whether it was held."""
    if not _remove(tx, key, "dropped"):
        return False
    if decision_key not in tx.known.keys:
        tx.decide(decision_key, receipt)
    return True


def entries(tx: Transaction, limit: int, after: bytes) -> list[HeldEntry]:
    """Held events, oldest first, those after a key; from the beginning where that is unknown."""
    rows = tx.database.execute(
        "SELECT key, receipt, deadline, length(body) FROM held "
        "WHERE n > coalesce((SELECT n FROM held WHERE key = ?), 0) ORDER BY n LIMIT ?",
        (after, limit),
    )
    return [
        HeldEntry(key, receipt, max(0, deadline - tx.now_ms), length)
        for key, receipt, deadline, length in rows
    ]


def item(tx: Transaction, key: bytes) -> HeldItem | None:
    """One held event with its content, or None."""
    rows = tx.database.execute(
        "SELECT severity, deadline, evidence, receipt, body FROM held WHERE key = ?", (key,)
    )
    if not rows:
        return None
    severity, deadline, evidence, receipt, body = rows[0]
    left = max(0, deadline - tx.now_ms)
    return HeldItem(key, severity, left, body, receipt, evidence_rows.as_file(tx, evidence))


def expire(tx: Transaction) -> int:
    """Give up what no person looked at in time; how many."""
    rows = tx.database.execute(
        "SELECT key FROM held WHERE deadline <= ? ORDER BY deadline LIMIT ?", (tx.now_ms, _CHUNK)
    )
    for row in rows:
        _remove(tx, row[0], "held_expired")
    return len(rows)


def _make_room(tx: Transaction, size: int, severity: int) -> bool:
    quota = tx.settings.held_quota_bytes
    if tx.tight is not None:
        quota = min(quota, tx.books.held_bytes)
    if size > quota:
        return False
    while tx.books.held_bytes + size > quota:
        rows = tx.database.execute(
            "SELECT key FROM held WHERE severity <= ? ORDER BY severity, n LIMIT 1", (severity,)
        )
        if not rows:
            return False
        _remove(tx, rows[0][0], "held_evicted")
    return True


def _remove(tx: Transaction, key: bytes, how: str) -> bool:
    rows = tx.database.execute(
        "SELECT length(body) + length(receipt), evidence FROM held WHERE key = ?", (key,)
    )
    if not rows:
        return False
    size, evidence = rows[0]
    tx.database.execute("DELETE FROM held WHERE key = ?", (key,))
    tx.books.held -= 1
    tx.books.held_bytes -= size + ROW_OVERHEAD
    tx.counters[f"gate.{how}"] += 1
    if evidence is not None:
        tx.orphans[evidence] = {"held_expired": "expired", "held_evicted": "evicted"}.get(how, "dropped")
    return True
