"""The database file: opened, checked and, where it is damaged, put aside and begun anew. It always opens."""

import contextlib
import os
import re
from pathlib import Path

from edge_runtime.outbox.books import Books, load_books, save_books
from edge_runtime.outbox.database import Connect, Database, DatabaseFault, StoreFault
from edge_runtime.outbox.known_keys import KnownKeys
from edge_runtime.outbox.records import OutboxError
from edge_runtime.outbox.salvage import OpenedStore, salvage
from edge_runtime.outbox.schema import FORMAT, ROW_OVERHEAD, create, prepare, rollback
from edge_runtime.outbox.settings import OutboxSettings

NAME = "outbox.db"
QUARANTINE = "quarantine"
MARKER = "salvaging"
_PARTS = ("", "-wal", "-journal", "-shm")
_PUT_ASIDE = re.compile(r"^outbox-(\d{6})\.db$")


def open_store(directory: Path, settings: OutboxSettings, connect: Connect, epoch: str) -> OpenedStore:
    """Open the queue's database, or make it.

    Args:
        directory: where it lies; made by the caller.
        settings: limits.
        connect: opens a connection.
        epoch: identity of a database that has to be made.

    Raises:
        DatabaseFault: the disk is full or cannot be written. A damaged file raises nothing: it is salvaged.
    """
    path = directory / NAME
    target = _pending(directory)
    why = "its salvage was interrupted"
    if target is None:
        try:
            opened = _open(path, settings, connect, epoch)
            sync_directory(directory)
            return opened
        except DatabaseFault as fault:
            if fault.fault is not StoreFault.CORRUPT:
                raise
            why = str(fault)
    target = put_aside(directory, target, settings.quarantine_kept)
    opened = _open(path, settings, connect, epoch)
    sync_directory(directory)
    opened.salvaged = True
    try:
        opened.sentences.append(f"{salvage(target, opened, connect)} ({why})")
        opened.known.load(opened.database)
        opened.order.load(opened.database)
    except DatabaseFault:
        opened.database.close()
        raise
    with contextlib.suppress(OSError):
        (directory / MARKER).unlink()
    return opened


def open_memory(settings: OutboxSettings, connect: Connect, epoch: str) -> OpenedStore:
    """A database in memory, for the time in which the disk cannot be written.

    Raises:
        DatabaseFault: SQLite refused.
    """
    database = connect(None)
    prepare(database, settings, in_memory=True)
    books = Books(epoch)
    create(database, books)
    return OpenedStore(database, books, KnownKeys(settings.decisions_kept))


def put_aside(directory: Path, target: Path | None, kept: int) -> Path:
    """Rename a damaged database, its log included, into the quarantine, of which the newest `kept` stay.

    A marker names the target until its salvage is committed: a process that is killed in between finds it again.

    Args:
        directory: of the database.
        target: where an interrupted attempt wanted it; None begins a new one.
        kept: number of files that the quarantine keeps.

    Raises:
        DatabaseFault: it cannot be renamed.
    """
    folder, source = directory / QUARANTINE, directory / NAME
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if target is None:
            last = max(
                (int(found[1]) for name in quarantined(directory) if (found := _PUT_ASIDE.match(name))),
                default=0,
            )
            target = folder / f"outbox-{last + 1:06d}.db"
            _write_marker(directory / MARKER, target.name)
        if target.exists():
            for part in _PARTS:  # begun by an interrupted attempt; nothing was accepted into it yet
                Path(f"{source}{part}").unlink(missing_ok=True)
        for part in _PARTS[::-1]:  # the main file last: it says that the others have gone before
            if Path(f"{source}{part}").exists():
                Path(f"{source}{part}").replace(f"{target}{part}")
    except OSError as error:
        raise DatabaseFault(
            f"the damaged file cannot be put aside: {error.strerror}", StoreFault.UNWRITABLE
        ) from error
    for old in quarantined(directory)[:-kept]:
        with contextlib.suppress(OutboxError):
            delete_quarantined(directory, old)
    return target


def _pending(directory: Path) -> Path | None:
    """The target of a salvage that was interrupted."""
    try:
        name = (directory / MARKER).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return directory / QUARANTINE / name if _PUT_ASIDE.match(name) else None


def _write_marker(path: Path, name: str) -> None:
    with path.open("w", encoding="ascii") as file:
        file.write(name)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make names durable, those that are gone included.

    SQLite makes a database through a rollback journal and does not wait until the journal's removal is durable. If
    it came back after a power cut, it would roll the file back to nothing, whatever was committed since.
    """
    with contextlib.suppress(OSError):  # a file system that cannot
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def quarantined(directory: Path) -> list[str]:
    """Names of the files that were put aside, oldest first."""
    try:
        names = [entry.name for entry in (directory / QUARANTINE).iterdir()]
    except OSError:
        return []
    return sorted(name for name in names if _PUT_ASIDE.match(name))


def quarantined_bytes(directory: Path, name: str) -> int:
    """What a file in the quarantine takes, its log included."""
    total = 0
    for part in _PARTS:
        with contextlib.suppress(OSError):
            total += (directory / QUARANTINE / f"{name}{part}").stat().st_size
    return total


def delete_quarantined(directory: Path, name: str) -> None:
    """Delete a file from the quarantine, its log included.

    Raises:
        OutboxError: it cannot be deleted.
    """
    try:
        for part in _PARTS:
            (directory / QUARANTINE / f"{name}{part}").unlink(missing_ok=True)
    except OSError as error:
        raise OutboxError(f"{name} cannot be deleted: {error.strerror}") from None


def _open(path: Path, settings: OutboxSettings, connect: Connect, epoch: str) -> OpenedStore:
    database, known = connect(path), KnownKeys(settings.decisions_kept)
    try:
        prepare(database, settings, in_memory=False)
        books = _existing(database)
        if books is None:
            books = Books(epoch)
            create(database, books)
            return OpenedStore(database, books, known)
        newest = known.load(database)
        if newest is not None and newest.serial > books.serial:
            books = newest
        return _checked(OpenedStore(database, books, known))
    except DatabaseFault:
        database.close()
        raise


def _existing(database: Database) -> Books | None:
    """The books of a database that has been in use; None for a file that a first start left empty."""
    version = database.execute("PRAGMA user_version")[0][0]
    if version == 0 and not database.execute("SELECT 1 FROM sqlite_master LIMIT 1"):
        return None
    if version != FORMAT:
        raise DatabaseFault(f"it has layout {version}, not {FORMAT}", StoreFault.CORRUPT)
    books = load_books(database)
    if books is None:
        raise DatabaseFault("its books are damaged", StoreFault.CORRUPT)
    return books


def _checked(opened: OpenedStore) -> OpenedStore:
    """Hold the file against itself and the books against the rows, after anything but a clean end."""
    database, books = opened.database, opened.books
    if not books.clean:
        found = database.execute("PRAGMA quick_check(1)")
        if found[0][0] != "ok":
            raise DatabaseFault(str(found[0][0])[:120], StoreFault.CORRUPT)
    repaired = audit(database, books)
    opened.order.load(database)
    database.execute("BEGIN IMMEDIATE")
    try:
        books.clean = 0
        save_books(database, books)
        database.execute("COMMIT")
    except DatabaseFault:
        rollback(database)
        raise
    opened.sentences += repaired
    return opened


def audit(database: Database, books: Books) -> list[str]:
    """Count the rows and correct the books where they differ, saying so; a committed database never differs."""
    queued, size, critical = database.execute(
        "SELECT count(*), coalesce(sum(length(body) + ?1), 0), "
        "coalesce(sum((length(body) + ?1) * (severity = 3)), 0) FROM queue",
        (ROW_OVERHEAD,),
    )[0]
    held, held_size = database.execute(
        "SELECT count(*), coalesce(sum(length(body) + length(receipt) + ?), 0) FROM held", (ROW_OVERHEAD,)
    )[0]
    crops = database.execute("SELECT coalesce(sum(bytes), 0) FROM evidence")[0][0]
    sentences = []
    if books.queued != queued or not books.balances:
        missing = books.accepted - (
            queued + books.delivered + books.expired + books.evicted + books.rejected + books.lost
        )
        sentences.append(
            f"the ledger did not balance when it was opened: {abs(missing)} events "
            f"{'are counted as lost' if missing > 0 else 'more than were counted'}"
        )
        books.queued = queued
        if missing > 0:
            books.lost += missing
        else:
            books.accepted -= missing
    books.bytes, books.critical_bytes, books.evidence_bytes = size, critical, crops
    books.held, books.held_bytes = held, held_size
    return sentences
