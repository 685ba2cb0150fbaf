"""One transaction of the store: the books in memory, what was queued and what ended, and what follows the commit.

Rows are collected and written with one statement for each table, before anybody reads them and at the end.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from edge_runtime.outbox.books import Books, save_books
from edge_runtime.outbox.bulk import delete_queued, insert_queued
from edge_runtime.outbox.database import Database, Row
from edge_runtime.outbox.known_keys import KnownKeys
from edge_runtime.outbox.leases import Leases
from edge_runtime.outbox.order import Order, Place, has_crop, length_of, seq_of
from edge_runtime.outbox.ranges import add_outcomes
from edge_runtime.outbox.ring import Decision
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.settings import OutboxSettings
from edge_runtime.protocol.vocabulary import Fate

CRITICAL = 3

EndingRow = tuple[int, int, int, bytes | None]
"""seq, severity, length of the body, evidence: what must be known of a row that leaves the queue."""

_COUNT = "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = n + excluded.n"


class Transaction:
    """Everything that one commit changes.

    Args:
        database: with an open transaction.
        books: written back by `finish`.
        leases: in memory, with the order of the queue; `undo` takes back what was changed.
        known: keys that were submitted before; `undo` takes back what this transaction added.
        settings: limits.
        now_ms: the queue's time.
        tight: bytes that the queue may not exceed while the disk is full; None while it is not.
        volatile: whether the database lives in memory.

    Attributes:
        counters: named counts to add.
        on_commit: run once the changes are durable.
        on_rollback: run when they are not kept.
        orphans: digests of crops that nothing may need any more.
        gone_files: digests of crops whose files are deleted after the commit.
        copy_books: whether the books are written to their own table as well; upkeep asks for it.
        saved: whether `finish` ran.
        share: bytes that the queue may hold beside what is reserved for critical events; below it nobody gives way.
        anew: whether the queue was numbered anew, so that its order must be read again.
    """

    # a dataclass of so many lists takes twice as long to make, and each commit makes one
    __slots__ = (
        "_decisions", "_deleted", "_ended", "_evicted", "_evicted_bytes", "_evicted_critical", "_keys", "_new",
        "_outcomes", "_quota", "_unordered", "anew", "books", "copy_books", "counters", "database", "gone_files",
        "known", "leases", "now_ms", "on_commit", "on_rollback", "orphans", "saved", "settings", "share", "tight",
        "volatile",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - what it works on
        self,
        database: Database,
        books: Books,
        leases: Leases,
        known: KnownKeys,
        settings: OutboxSettings,
        now_ms: int,
        tight: int | None = None,
        *,
        volatile: bool = False,
    ) -> None:
        self.database, self.books, self.leases, self.known = database, books, leases, known
        self.settings, self.now_ms, self.tight, self.volatile = settings, now_ms, tight, volatile
        self.anew = self.copy_books = self.saved = False
        self.counters: defaultdict[str, int] = defaultdict(int)
        self.on_commit: list[Callable[[], None]] = []
        self.on_rollback: list[Callable[[], None]] = []
        self.orphans: dict[bytes, str] = {}
        self.gone_files: list[bytes] = []
        self._new: dict[int, Row] = {}
        self._unordered: list[Row] = []
        self._deleted: list[int] = []
        self._decisions: list[Decision] = []
        self._keys: list[bytes] = []
        self._outcomes: dict[Fate, list[int]] = {}
        self._ended: list[int] = []
        self._evicted: list[Place] = []
        self._evicted_bytes = self._evicted_critical = 0
        quota = settings.quota_bytes
        self._quota = quota if tight is None else min(quota, tight)
        self.share = int(self._quota * (1 - settings.reserve_share))

    @property
    def ended(self) -> Collection[int]:
        """Numbers of events that ended in this transaction."""
        self.count_evicted()
        return self._ended

    @property
    def changed(self) -> bool:
        """Whether a job that only meant to read gave something up."""
        return bool(self._ended or self.counters)

    def excess(self, size: int, severity: int) -> int:
        """Bytes that must give way before so many more fit below the quota; 0 or less when they fit."""
        after = self.books.bytes - self._evicted_bytes + size
        need = after - self._quota
        if severity < CRITICAL:
            need = max(need, after - self.books.critical_bytes + self._evicted_critical - self.share)
        return need

    def insert(self, row: Row) -> None:
        """Add a row of the queue: seq, key, severity, added, deadline, tries, evidence, crc, body."""
        self._new[row[0]] = row
        self._unordered.append(row)

    def order(self) -> Order:
        """The order of the queue, with what this transaction has queued."""
        order = self.leases.order
        if self._unordered:
            order.queue(self._unordered)
            self._unordered.clear()
        return order

    def delete(self, seqs: Sequence[int]) -> None:
        """Delete rows of the queue; `end` counts them."""
        for seq in seqs:
            if self._new.pop(seq, None) is None:
                self._deleted.append(seq)

    def forget(self, seqs: Sequence[int]) -> None:
        """These were deleted although nobody took them from the order; those that somebody has are not in it."""
        order, places = self.order(), self.leases.places
        for seq in seqs:
            if seq not in places:
                order.forget(seq)

    def give_up(self, places: Sequence[Place], fate: Fate) -> int:
        """Delete events that were taken from the order, or rest, and count them; how many they were."""
        rows = [
            (seq_of(entry), level, length_of(entry), self._crop(seq_of(entry)) if has_crop(entry) else None)
            for level, entry in places
        ]
        self.delete([row[0] for row in rows])
        return self.end(rows, fate)

    def evict(self, places: Sequence[Place]) -> None:
        """They give way, and the room is there at once; `count_evicted` deletes and counts those of many puts."""
        for level, entry in places:
            size = length_of(entry) + ROW_OVERHEAD
            self._evicted_bytes += size
            if level == CRITICAL:
                self._evicted_critical += size
        self._evicted += places

    def count_evicted(self) -> None:
        """Before anybody reads rows, books, or what ended."""
        if self._evicted:
            places, self._evicted = self._evicted, []
            self._evicted_bytes = self._evicted_critical = 0
            self.give_up(places, Fate.EVICTED)

    def resting(self, severity: int) -> list[Place]:
        """What the server put off, up to a severity, in the order of eviction backwards."""
        resting = self.leases.resting
        if not resting:
            return []
        places, ended = self.leases.places, set(self.ended)
        found = [places[seq] for seq in resting if seq not in ended and places[seq][0] <= severity]
        return sorted(found, reverse=True)

    def decide(self, key: bytes, receipt: bytes) -> None:
        """Keep a decision's receipt in the ring. Without a receipt the key alone is kept."""
        self.known.keys.add(key)
        self._keys.append(key)
        self._decisions.append((key, receipt))

    def end(self, rows: Sequence[EndingRow], fate: Fate, *, known_to_server: bool = False) -> int:
        """Count rows that were deleted from the queue; how many they were.

        Args:
            rows: what was deleted.
            fate: how they ended.
            known_to_server: the server has counted them under this fate and needs no outcome.
        """
        if not rows:
            return 0
        books, seqs = self.books, [row[0] for row in rows]
        books.bytes -= sum([row[2] for row in rows]) + ROW_OVERHEAD * len(rows)
        for _, severity, length, evidence in rows:
            if severity == CRITICAL:
                books.critical_bytes -= length + ROW_OVERHEAD
            if evidence is not None:
                self._end_evidence(evidence, fate)
        books.count(fate, len(seqs))
        self._ended += seqs
        if not known_to_server:
            self._outcomes.setdefault(fate, []).extend(seqs)
        return len(seqs)

    def write_rows(self) -> None:
        """Bring the database up to what was inserted and deleted. Deletes first: a full disk has no other room."""
        self.count_evicted()
        if self._deleted:
            delete_queued(self.database, self._deleted)
            self._deleted = []
        if self._new:
            insert_queued(self.database, list(self._new.values()))
            self._new = {}

    def flush(self) -> None:
        """Write rows and decisions, for a reader."""
        self.write_rows()
        if self._decisions:
            self._write_ring()

    def finish(self) -> None:
        """Write rows, outcomes, counters, decisions and books; the caller commits."""
        self.order()
        self.write_rows()
        for fate, seqs in self._outcomes.items():
            add_outcomes(self.database, self.books, fate, seqs)
        self._outcomes = {}
        if self.counters:
            self.database.execute_many(_COUNT, list(self.counters.items()))
            self.counters.clear()
        self._write_ring()
        if self.copy_books:
            save_books(self.database, self.books)
        self.saved = True

    def committed(self) -> None:
        """Follow in memory what is durable now."""
        self.known.ring.committed()
        if self._ended:
            self.leases.end(self._ended)
        if self._keys:
            self.known.keep(self._keys)
        for action in self.on_commit:
            action()

    def undo(self) -> None:
        """Take back what was changed in memory: nothing of it was committed."""
        for action in reversed(self.on_rollback):
            action()
        self.known.keys.difference_update(self._keys)
        self.known.ring.undo()
        if self.anew:
            self.leases.order.load(self.database, self.leases.places)
        else:
            self.leases.order.undo()

    def _write_ring(self) -> None:
        """The ring does not grow on a full disk."""
        self.known.ring.write(self.database, self.books, self._decisions, tight=self.tight is not None)
        self._decisions = []

    def _crop(self, seq: int) -> bytes | None:
        new = self._new.get(seq)
        if new is not None:
            return new[6]  # type: ignore[no-any-return]
        rows = self.database.execute("SELECT evidence FROM queue WHERE seq = ?", (seq,))
        return rows[0][0] if rows else None

    def _end_evidence(self, sha256: bytes, fate: Fate) -> None:
        if fate is Fate.DELIVERED:
            self.database.execute("UPDATE evidence SET due = 1 WHERE sha256 = ?", (sha256,))
        else:
            self.orphans[sha256] = fate.value
