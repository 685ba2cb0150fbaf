"""From memory back to the disk: what was accepted while the disk could not be written is queued there."""

from dataclasses import replace

from edge_runtime.outbox import queue_rows
from edge_runtime.outbox.books import Books
from edge_runtime.outbox.database import Database
from edge_runtime.outbox.eviction import make_room
from edge_runtime.outbox.ring import all_decisions, read_places
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.transaction import Transaction

_TOTALS = ("accepted", "delivered", "expired", "evicted", "rejected", "lost")
_SIZES = ("queued", "bytes", "critical_bytes", "held", "held_bytes", "evidence_bytes")


def sum_books(memory: Books, disk: Books) -> Books:
    """Both ledgers together, under the identity of the one in memory."""
    sums = {name: getattr(memory, name) + getattr(disk, name) for name in _TOTALS + _SIZES}
    return replace(memory, **sums)


def absorb(tx: Transaction, memory: Database, books: Books, memory_now_ms: int) -> None:
    """Move everything from the database in memory into the one on the disk, as part of its transaction.

    Queued events get new sequence numbers; those that the quota has no room for are counted as evicted.

    Args:
        tx: of the database on the disk.
        memory: the other one.
        books: of the other one.
        memory_now_ms: its time; the two may differ when the disk's books could not be read at the start.
    """
    for name in _TOTALS:
        setattr(tx.books, name, getattr(tx.books, name) + getattr(books, name))
    tx.books.session = max(tx.books.session, books.session)
    for key, severity, deadline, tries, evidence, body in memory.execute(
        "SELECT key, severity, deadline, tries, evidence, body FROM queue ORDER BY severity DESC, seq"
    ):
        if key in tx.known.keys or make_room(tx, len(body) + ROW_OVERHEAD, severity) is not None:
            tx.books.evicted += 1
            continue
        queue_rows.insert(tx, key, severity, deadline - memory_now_ms, body, evidence=evidence, tries=tries)
    shift = tx.now_ms - memory_now_ms
    for key, severity, deadline, evidence, receipt, body in memory.execute(
        "SELECT key, severity, deadline, evidence, receipt, body FROM held ORDER BY n"
    ):
        moved = deadline + shift
        crc = queue_rows.row_crc(key, severity, moved, body)
        tx.database.execute(
            "INSERT OR IGNORE INTO held (key, severity, deadline, evidence, crc, receipt, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (key, severity, moved, evidence, crc, receipt, body),
        )
        if tx.database.changed():
            tx.books.held += 1
            tx.books.held_bytes += len(body) + len(receipt) + ROW_OVERHEAD
    _copy_others(tx, memory, shift)


def _copy_others(tx: Transaction, memory: Database, shift: int) -> None:
    for sha256, size, severity, due, deadline, tries in memory.execute(
        "SELECT sha256, bytes, severity, due, deadline, tries FROM evidence ORDER BY n"
    ):
        tx.database.execute(
            "INSERT OR IGNORE INTO evidence (sha256, bytes, severity, due, deadline, tries, not_before) "
            "VALUES (?, ?, ?, ?, ?, ?, 0)",
            (sha256, size, severity, due, deadline + shift, tries),
        )
        if tx.database.changed():
            tx.books.evidence_bytes += size
    for key, receipt in all_decisions(read_places(memory)):
        if key not in tx.known.keys:
            tx.decide(key, receipt)
    for row in memory.execute("SELECT key, seq, code, text, body FROM dead_letters ORDER BY n"):
        tx.database.execute(
            "INSERT INTO dead_letters (key, seq, code, text, body) VALUES (?, ?, ?, ?, ?)", row
        )
    for name, number in memory.execute("SELECT name, n FROM counters"):
        tx.counters[name] += number
