"""What can still be read of a damaged database goes into a new one; what cannot is counted as lost."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.outbox.books import Books, load_books, save_books
from edge_runtime.outbox.database import Connect, Database, DatabaseFault, Row
from edge_runtime.outbox.queue_rows import row_crc
from edge_runtime.outbox.schema import ROW_OVERHEAD, rollback
from edge_runtime.outbox.transaction import CRITICAL

_PAGE = 200
_MAX_PROBES = 20_000
_QUEUE = "SELECT seq, key, severity, added, deadline, tries, evidence, crc, body FROM queue "
_HELD = "key, severity, deadline, evidence, crc, receipt, body"
_COPIED = {
    "counters": "name, n",
    "evidence": "sha256, bytes, severity, due, deadline, tries, not_before",
    "decisions": "key, receipt",
    "dead_letters": "key, seq, code, text, body",
}


@dataclass(slots=True)
class OpenedStore:
    """A database that is ready.

    Attributes:
        database: open, with its pragmas set.
        books: as last committed.
        sentences: what had to be done about it.
        salvaged: whether it replaces a damaged one.
    """

    database: Database
    books: Books
    sentences: list[str] = field(default_factory=list)
    salvaged: bool = False


def salvage(aside: Path, opened: OpenedStore, connect: Connect) -> str:
    """Copy what is readable and whole from a damaged file; one sentence about it.

    Args:
        aside: the damaged file in the quarantine; opening it may replay its log, nothing else changes it.
        opened: the new database, empty.
        connect: opens a connection.

    Raises:
        DatabaseFault: the new database cannot be written.
    """
    old: Books | None = None
    rows: list[Row] = []
    others: dict[str, list[Row]] = {}
    held: list[Row] = []
    source = _try_connect(aside, connect)
    if source is not None:
        try:
            old = _try_books(source)
            rows = [row for row in _walk(source, old) if _whole(row)]
            held = [row for row in _rows(source, "held", _HELD) if _whole_held(row)]
            others = {table: _rows(source, table, columns) for table, columns in _COPIED.items()}
        finally:
            source.close()
    return _write(opened, old, aside.name, rows=rows, held=held, others=others)


def _write(
    opened: OpenedStore,
    old: Books | None,
    name: str,
    *,
    rows: list[Row],
    held: list[Row],
    others: dict[str, list[Row]],
) -> str:
    database, books = opened.database, opened.books
    database.execute("BEGIN IMMEDIATE")
    try:
        for _, key, severity, added, deadline, tries, evidence, crc, body in rows:
            database.execute(
                "INSERT OR IGNORE INTO queue VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (books.next, key, severity, added, deadline, tries, evidence, crc, body),
            )
            if not database.changed():
                continue
            books.next += 1
            books.queued += 1
            books.bytes += len(body) + ROW_OVERHEAD
            books.critical_bytes += len(body) + ROW_OVERHEAD if severity == CRITICAL else 0
        for row in held:
            database.execute(f"INSERT OR IGNORE INTO held ({_HELD}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            if database.changed():
                books.held += 1
                books.held_bytes += len(row[5]) + len(row[6]) + ROW_OVERHEAD
        for table, found in others.items():
            columns = _COPIED[table]
            marks = ", ".join("?" * (columns.count(",") + 1))
            database.execute_many(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", found)  # noqa: S608
        books.evidence_bytes = database.execute("SELECT coalesce(sum(bytes), 0) FROM evidence")[0][0]
        sentence = _carry_over(books, old, name)
        save_books(database, books)
        database.execute("COMMIT")
    except DatabaseFault:
        rollback(database)
        raise
    return sentence


def _carry_over(books: Books, old: Books | None, name: str) -> str:
    """Totals go on from the old books; what they say was queued and was not found is lost."""
    if old is None:
        books.accepted = books.queued
        books.session = 0
        return (
            f"a damaged database was put aside as {name}: {books.queued} events were salvaged, and how many were "
            "lost is not known, because its books were unreadable"
        )
    for total in ("accepted", "delivered", "expired", "evicted", "rejected", "lost", "session"):
        setattr(books, total, getattr(old, total))
    for mark in ("time_ms", "boot_id", "boot_ms", "anchor_ms", "anchor_wall_ms", "off_time_known"):
        setattr(books, mark, getattr(old, mark))
    fates = books.delivered + books.expired + books.evicted + books.rejected + books.lost
    missing = books.accepted - fates - books.queued
    books.lost += max(0, missing)
    books.accepted += max(0, -missing)
    return (
        f"a damaged database was put aside as {name}: {books.queued} events were salvaged, "
        f"{max(0, missing)} were lost"
    )


def _walk(source: Database, old: Books | None) -> Iterator[Row]:
    """Every row of the queue that can be read, around the pages that cannot."""
    last = 0
    try:
        while True:
            page = source.execute(_QUEUE + "WHERE seq > ? ORDER BY seq LIMIT ?", (last, _PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1][0]
    except DatabaseFault:
        pass
    top = old.next - 1 if old is not None else _highest(source)
    yield from _probe(source, last + 1, top)


def _highest(source: Database) -> int:
    for order in ("SELECT max(seq) FROM queue", "SELECT max(seq) FROM (SELECT seq FROM queue NOT INDEXED)"):
        with contextlib.suppress(DatabaseFault):
            return int(source.execute(order)[0][0] or 0)
    return 0


def _probe(source: Database, first: int, last: int) -> Iterator[Row]:
    """Halve ranges that cannot be read until what is left of them can, or is one row."""
    ranges, probes = [(first, last)] if last >= first else [], 0
    while ranges and probes < _MAX_PROBES:
        low, high = ranges.pop()
        probes += 1
        try:
            yield from source.execute(_QUEUE + "WHERE seq BETWEEN ? AND ?", (low, high))
        except DatabaseFault:
            if low < high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]


def _rows(source: Database, table: str, columns: str) -> list[Row]:
    """What can be read of a table from its beginning."""
    found: list[Row] = []
    while True:
        try:
            page = source.execute(
                f"SELECT {columns} FROM {table} LIMIT ? OFFSET ?",  # noqa: S608 - our own names
                (_PAGE, len(found)),
            )
        except DatabaseFault:
            return found
        found += page
        if len(page) < _PAGE:
            return found


def _whole(row: Row) -> bool:
    seq, key, severity, added, deadline, tries, _, crc, body = row
    numbers: tuple[Any, ...] = (seq, severity, added, deadline, tries, crc)
    if not (isinstance(key, bytes) and isinstance(body, bytes) and len(key) == 16):
        return False
    if not all(isinstance(number, int) for number in numbers) or not 0 <= severity <= CRITICAL:
        return False
    return bool(crc == row_crc(key, severity, deadline, body))


def _whole_held(row: Row) -> bool:
    key, severity, deadline, _, crc, receipt, body = row
    return isinstance(receipt, bytes) and _whole((0, key, severity, 0, deadline, 0, None, crc, body))


def _try_connect(path: Path, connect: Connect) -> Database | None:
    try:
        database = connect(path)
    except DatabaseFault:
        return None
    with contextlib.suppress(DatabaseFault):
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
    return database


def _try_books(source: Database) -> Books | None:
    try:
        return load_books(source)
    except DatabaseFault:
        return None
