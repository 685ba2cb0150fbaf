"""The books: the ledger, the next sequence number and the queue's time, with their own CRC.

Every transaction writes them into the place of the ring of decisions that it writes anyway (`ring`). A table of
their own holds them as they were at the last start, end or round of upkeep: what has the higher `serial` is valid,
and the other is the spare.
"""

import zlib
from dataclasses import dataclass, fields
from operator import attrgetter

import msgpack

from edge_runtime.outbox.database import Database
from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.vocabulary import Fate


@dataclass(slots=True)
class Books:
    """What one transaction reads first and writes last.

    Attributes:
        epoch: UUIDv7 of the database.
        next: sequence number of the next accepted event.
        passed: the highest `high` of a receipt.
        session: of the last connect.
        accepted, queued, delivered, expired, evicted, rejected, lost: the ledger.
        bytes, critical_bytes: of the queued events, as the quota counts them; the critical ones among them.
        held, held_bytes: what waits for a person.
        evidence_bytes: crops that wait.
        time_ms, boot_id, boot_ms, anchor_ms, anchor_wall_ms, off_time_known: the queue's time, see `queue_time`.
        clean: whether the last process closed the file properly.
        run_first, run_last, run_fate: the newest run of numbers that will never be delivered, see `ranges`; no fate
            while there is none.
        serial: grows whenever they are written.
    """

    epoch: str
    next: int = 1
    passed: int = 0
    session: int = 0
    accepted: int = 0
    queued: int = 0
    delivered: int = 0
    expired: int = 0
    evicted: int = 0
    rejected: int = 0
    lost: int = 0
    bytes: int = 0
    critical_bytes: int = 0
    held: int = 0
    held_bytes: int = 0
    evidence_bytes: int = 0
    time_ms: int = 0
    boot_id: str = ""
    boot_ms: int = 0
    anchor_ms: int | None = None
    anchor_wall_ms: int | None = None
    off_time_known: int = 1
    clean: int = 0
    run_first: int = 0
    run_last: int = 0
    run_fate: str = ""
    serial: int = 0

    def copy(self) -> "Books":
        """The same values; `copy.copy` takes four times as long, and every transaction begins with it."""
        return Books(*_values(self))

    def ledger(self) -> Ledger:
        """The counts as they are reported."""
        return Ledger(
            accepted=self.accepted,
            queued=self.queued,
            delivered=self.delivered,
            expired=self.expired,
            evicted=self.evicted,
            rejected=self.rejected,
            lost=self.lost,
        )

    @property
    def balances(self) -> bool:
        """Whether every accepted event is queued or has exactly one fate."""
        fates = self.delivered + self.expired + self.evicted + self.rejected + self.lost
        return self.accepted == self.queued + fates

    def count(self, fate: Fate, number: int) -> None:
        """Move `number` queued events to a fate."""
        setattr(self, fate.value, getattr(self, fate.value) + number)
        self.queued -= number


_NAMES = tuple(field.name for field in fields(Books))
_pack = msgpack.Packer().pack  # packb makes a packer, with room for 256 KiB, for each value
_values = attrgetter(*_NAMES)  # dataclasses.astuple copies every value deeply

CREATE_BOOKS = (
    "CREATE TABLE books (id INTEGER PRIMARY KEY CHECK (id = 1), line BLOB NOT NULL, crc INTEGER NOT NULL)"
)
_LOAD = "SELECT line, crc FROM books WHERE id = 1"
_SAVE = "INSERT OR REPLACE INTO books VALUES (1, ?, ?)"


def seal_books(books: Books) -> tuple[bytes, int]:
    """The books as they are stored, under the next serial number, and their CRC.

    One value instead of 27 columns: each column of a statement costs time to bind and to store.
    """
    books.serial += 1
    line: bytes = _pack(_values(books))
    return line, zlib.crc32(line)


def open_books(line: object, crc: object) -> Books | None:
    """What `seal_books` wrote, or None where it is damaged."""
    if not isinstance(line, bytes) or not line or crc != zlib.crc32(line):  # nothing has the CRC 0
        return None
    values = msgpack.unpackb(line)
    return Books(*values) if len(values) == len(_NAMES) else None


def load_books(database: Database) -> Books | None:
    """The books of their own table, or None where the row is missing or damaged.

    Raises:
        DatabaseFault: the table cannot be read.
    """
    rows = database.execute(_LOAD)
    return open_books(*rows[0]) if len(rows) == 1 else None


def save_books(database: Database, books: Books) -> None:
    """Write the books into their own table; part of a transaction.

    Raises:
        DatabaseFault: SQLite refused.
    """
    database.execute(_SAVE, seal_books(books))
