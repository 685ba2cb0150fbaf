"""What can still be read of a damaged database goes into a new one; what cannot is counted as lost."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.outbox.books import Books, load_books, save_books
from edge_runtime.outbox.database import Connect, Database, DatabaseFault, Row
from edge_runtime.outbox.known_keys import KnownKeys
from edge_runtime.outbox.order import Order
from edge_runtime.outbox.queue_rows import row_crc
from edge_runtime.outbox.ring import Decision, Place, Ring, all_decisions, read_place
from edge_runtime.outbox.schema import ROW_OVERHEAD, create, rollback
from edge_runtime.outbox.transaction import CRITICAL

SCRATCH = "salvage"
_PAGE_BYTES = 4096
_MAX_PAGES = 1 << 20
_PAGE = 200
_MAX_PROBES = 20_000
_QUEUE, _QUEUE_SEQ = (
    "SELECT seq, key, severity, added, deadline, tries, evidence, crc, body FROM queue",
    "seq",
)
_RING, _RING_SLOT = "SELECT slot, line FROM ring", "slot"
_HELD = "key, severity, deadline, evidence, crc, receipt, body"
_COPIED = {
    "counters": "name, n",
    "evidence": "sha256, bytes, severity, due, deadline, tries, not_before",
    "dead_letters": "key, seq, code, text, body",
}


@dataclass(slots=True)
class OpenedStore:
    """A database that is ready.

    Attributes:
        database: open, with its pragmas set.
        books: as last committed.
        known: keys of what was submitted before.
        order: of the queued events.
        sentences: what had to be done about it.
        salvaged: whether it replaces a damaged one.
    """

    database: Database
    books: Books
    known: KnownKeys
    order: Order = field(default_factory=Order)
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
    found = _read(aside, connect)
    if not found.rows and not found.books:
        found = _read_repaired(aside, connect)
    return _write(opened, found, aside.name)


@dataclass(slots=True)
class _Found:
    """What could be read of a damaged database."""

    books: Books | None = None
    rows: list[Row] = field(default_factory=list)
    held: list[Row] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    others: dict[str, list[Row]] = field(default_factory=dict)


def _read(path: Path, connect: Connect) -> _Found:
    found = _Found()
    source = _try_connect(path, connect)
    if source is None:
        return found
    try:
        places = [read_place(*row) for row in _walk(source, _RING, _RING_SLOT, None)]
        found.books = _try_books(source, places)
        found.decisions = list(all_decisions(sorted(places, key=lambda place: place.first)))
        top = found.books.next - 1 if found.books is not None else None
        found.rows = [row for row in _walk(source, _QUEUE, _QUEUE_SEQ, top) if _whole(row)]
        found.held = [row for row in _rows(source, "held", _HELD) if _whole_held(row)]
        found.others = {table: _rows(source, table, columns) for table, columns in _COPIED.items()}
    finally:
        source.close()
    return found


def _read_repaired(aside: Path, connect: Connect) -> _Found:
    """Read a copy whose first page, with the header and the list of tables, is that of a new database.

    Tables are made in one order, so their roots lie on the same pages in every database of this layout.
    """
    folder = aside.parent / SCRATCH
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
        fresh = connect(folder / "fresh.db")
        create(fresh, Books("fresh"))
        fresh.close()
        page = bytearray((folder / "fresh.db").read_bytes()[:_PAGE_BYTES])
        data = _with_log(aside)
        page[28:32] = (len(data) // _PAGE_BYTES).to_bytes(4, "big")  # pages in the file
        page[92:96] = page[24:28]  # that count is valid for this change counter
        data[:_PAGE_BYTES] = page
        (folder / "copy.db").write_bytes(data)
        return _read(folder / "copy.db", connect)
    except (OSError, DatabaseFault):  # no room for a copy: what was read stays all that is
        return _Found()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_log(path: Path) -> bytearray:
    """A database's bytes with the committed pages of its write-ahead log (layout: sqlite.org/fileformat2, 4.1)."""
    data = bytearray(path.read_bytes())
    log = Path(f"{path}-wal")
    frames = log.read_bytes() if log.exists() else b""
    salts, step = frames[16:24], 24 + _PAGE_BYTES
    pages: list[tuple[int, bytes]] = []
    committed = 0
    for at in range(32, len(frames) - step + 1, step):
        if frames[at + 8 : at + 16] != salts:
            break
        pages.append((int.from_bytes(frames[at : at + 4], "big"), frames[at + 24 : at + step]))
        if frames[at + 4 : at + 8] != bytes(4):
            committed = len(pages)
    for number, content in pages[:committed]:
        if not 1 <= number <= _MAX_PAGES:
            continue
        if len(data) < number * _PAGE_BYTES:
            data.extend(bytes(number * _PAGE_BYTES - len(data)))
        data[(number - 1) * _PAGE_BYTES : number * _PAGE_BYTES] = content
    return data


def _write(opened: OpenedStore, found: _Found, name: str) -> str:
    database, books = opened.database, opened.books
    database.execute("BEGIN IMMEDIATE")
    try:
        for _, key, severity, added, deadline, tries, evidence, crc, body in _once(found.rows, 1):
            database.execute(
                "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (books.next, key, severity, added, deadline, tries, evidence, crc, body),
            )
            books.next += 1
            books.queued += 1
            books.bytes += len(body) + ROW_OVERHEAD
            books.critical_bytes += len(body) + ROW_OVERHEAD if severity == CRITICAL else 0
        for row in found.held:
            database.execute(f"INSERT OR IGNORE INTO held ({_HELD}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
            if database.changed():
                books.held += 1
                books.held_bytes += len(row[5]) + len(row[6]) + ROW_OVERHEAD
        for table, kept in found.others.items():
            columns = _COPIED[table]
            marks = ", ".join("?" * (columns.count(",") + 1))
            database.execute_many(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", kept)  # noqa: S608
        books.evidence_bytes = database.execute("SELECT coalesce(sum(bytes), 0) FROM evidence")[0][0]
        books.time_ms = max((row[3] for row in found.rows), default=0)  # at least; the old books say exactly
        sentence = _carry_over(books, found.books, name)
        Ring(opened.known.limit).write(database, books, list(_once(found.decisions, 0)))
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


def _walk(source: Database, select: str, key: str, top: int | None) -> Iterator[Row]:
    """Every row of a table that can be read, around the pages that cannot.

    Args:
        source: the damaged database.
        select: what is read of which table; the key first.
        key: name of its integer primary key.
        top: the highest there can be; None asks the table.
    """
    last = 0
    try:
        while True:
            page = source.execute(f"{select} WHERE {key} > ? ORDER BY {key} LIMIT ?", (last, _PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1][0]
    except DatabaseFault:
        pass
    yield from _probe(source, select, key, last + 1, _highest(source, select, key) if top is None else top)


def _highest(source: Database, select: str, key: str) -> int:
    with contextlib.suppress(DatabaseFault):
        found = source.execute(f"{select} ORDER BY {key} DESC LIMIT 1")
        return int(found[0][0]) if found else 0
    return 0


def _probe(source: Database, select: str, key: str, first: int, last: int) -> Iterator[Row]:
    """Halve ranges that cannot be read until what is left of them can, or is one row."""
    ranges, probes = [(first, last)] if last >= first else [], 0
    while ranges and probes < _MAX_PROBES:
        low, high = ranges.pop()
        probes += 1
        try:
            yield from source.execute(f"{select} WHERE {key} BETWEEN ? AND ?", (low, high))
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


def _once(rows: list[Row], column: int) -> Iterator[Row]:
    """Rows whose key was not seen before: a damaged tree can lead to the same page twice."""
    seen: set[Any] = set()
    for row in rows:
        if row[column] not in seen:
            seen.add(row[column])
            yield row


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


def _try_books(source: Database, places: list[Place]) -> Books | None:
    """The newest books that are whole: of the ring, or those that upkeep leaves in their own table."""
    found = [place.books for place in places if place.books is not None]
    with contextlib.suppress(DatabaseFault):
        spare = load_books(source)
        if spare is not None:
            found.append(spare)
    return max(found, key=lambda books: books.serial, default=None)
