"""Tables and pragmas of the outbox's database."""

import contextlib

from edge_runtime.outbox.books import CREATE_BOOKS, Books, save_books
from edge_runtime.outbox.database import Database, DatabaseFault, StoreFault
from edge_runtime.outbox.ring import CREATE_RING
from edge_runtime.outbox.settings import OutboxSettings

FORMAT = 2
"""`PRAGMA user_version` of this layout."""

ROW_OVERHEAD = 128
"""Bytes that the quota counts for a row beside its body: key, times, checksum, an index entry, page slack."""

_PAGE = 4096
_KEPT_LOG_BYTES = 4 * 1024 * 1024
_WAL_PAGES = 1000
TIGHT_WAL_PAGES = 100
"""Pages of the log before it is put back to its beginning while the disk is full."""

_SLACK_BYTES = 8 * 1024 * 1024

_TABLES = (
    CREATE_BOOKS,
    "CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE queue (
        seq INTEGER PRIMARY KEY, key BLOB NOT NULL, severity INTEGER NOT NULL, added INTEGER NOT NULL,
        deadline INTEGER NOT NULL, tries INTEGER NOT NULL, evidence BLOB, crc INTEGER NOT NULL,
        body BLOB NOT NULL)""",
    "CREATE INDEX queue_evidence ON queue (evidence) WHERE evidence IS NOT NULL",
    "CREATE TABLE outcomes (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, fate TEXT NOT NULL)",
    """CREATE TABLE held (
        n INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, severity INTEGER NOT NULL, deadline INTEGER NOT NULL,
        evidence BLOB, crc INTEGER NOT NULL, receipt BLOB NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX held_severity ON held (severity)",
    "CREATE INDEX held_deadline ON held (deadline)",
    "CREATE INDEX held_evidence ON held (evidence) WHERE evidence IS NOT NULL",
    """CREATE TABLE evidence (
        n INTEGER PRIMARY KEY, sha256 BLOB NOT NULL UNIQUE, bytes INTEGER NOT NULL, severity INTEGER NOT NULL,
        due INTEGER NOT NULL, deadline INTEGER NOT NULL, tries INTEGER NOT NULL, not_before INTEGER NOT NULL)""",
    "CREATE INDEX evidence_deadline ON evidence (deadline)",
    "CREATE INDEX evidence_due ON evidence (due, n)",
    "CREATE INDEX evidence_severity ON evidence (severity)",
    CREATE_RING,
    """CREATE TABLE dead_letters (
        n INTEGER PRIMARY KEY, key BLOB NOT NULL, seq INTEGER NOT NULL, code TEXT NOT NULL, text TEXT NOT NULL,
        body BLOB NOT NULL)""",
)


def hard_limit_bytes(settings: OutboxSettings) -> int:
    """What the database file can never exceed: 1.6 times the quotas, the rings, and some slack."""
    rows = 1.6 * (settings.quota_bytes + settings.held_quota_bytes)
    rings = settings.decisions_kept * 1024 + settings.dead_letters_kept * 20 * 1024
    return int(rows) + rings + _SLACK_BYTES


def wal_pages(ballast_bytes: int) -> int:
    """Pages of the log before it is put back to its beginning: at most 1000, and what the ballast has room for.

    When the disk is full, what is in the log must still fit into the database, in the blocks that the ballast gives
    up; otherwise the log could only grow.
    """
    fitting = ballast_bytes // _PAGE - 16
    return max(TIGHT_WAL_PAGES, min(_WAL_PAGES, fitting))


def prepare(database: Database, settings: OutboxSettings, *, in_memory: bool) -> None:
    """Set the pragmas and read them back: SQLite ignores what it cannot do without a word.

    Raises:
        DatabaseFault: durability cannot be had on this file.
    """
    if not in_memory:
        # One process owns the file, so the log's index needs no shared memory (a full disk cannot fault it).
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        mode = database.execute("PRAGMA journal_mode = WAL")[0][0]
        if mode != "wal":
            raise DatabaseFault(f"the file system allows no write-ahead log ({mode})", StoreFault.UNWRITABLE)
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    # The log keeps its blocks after a checkpoint: on a full disk its next frames need no new ones.
    database.execute(f"PRAGMA journal_size_limit = {_KEPT_LOG_BYTES}")
    database.execute(f"PRAGMA max_page_count = {hard_limit_bytes(settings) // _PAGE}")
    database.execute("PRAGMA cell_size_check = ON")
    if not in_memory and database.execute("PRAGMA synchronous")[0][0] != 2:
        raise DatabaseFault("SQLite did not accept synchronous = FULL", StoreFault.UNWRITABLE)


def create(database: Database, books: Books) -> None:
    """Make all tables and the first books in one transaction.

    Raises:
        DatabaseFault: SQLite refused.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        for statement in _TABLES:
            database.execute(statement)
        save_books(database, books)
        database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute("COMMIT")
    except DatabaseFault:
        rollback(database)
        raise


def rollback(database: Database) -> None:
    """End a transaction without its changes; SQLite may have ended it by itself."""
    with contextlib.suppress(DatabaseFault):
        database.execute("ROLLBACK")
