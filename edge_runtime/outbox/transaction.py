"""One transaction of the store: the books in memory, what ended, and what happens after the commit."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from edge_runtime.outbox.books import COPY, Books, save_books
from edge_runtime.outbox.database import Database
from edge_runtime.outbox.leases import Leases
from edge_runtime.outbox.ranges import add_outcomes
from edge_runtime.outbox.schema import ROW_OVERHEAD
from edge_runtime.outbox.settings import OutboxSettings
from edge_runtime.protocol.vocabulary import Fate

CRITICAL = 3

EndingRow = tuple[int, int, int, bytes | None]
"""seq, severity, length of the body, evidence: what must be known of a row that leaves the queue."""


@dataclass(slots=True)
class Transaction:
    """Everything that one commit changes.

    Attributes:
        database: with an open transaction.
        books: written back by `finish`.
        leases: in memory; changed only through `on_commit` and `on_rollback`.
        settings: limits.
        now_ms: the queue's time.
        tight: bytes that the queue may not exceed while the disk is full; None while it is not.
        volatile: whether the database lives in memory.
        counters: named counts to add.
        on_commit: run once the changes are durable.
        on_rollback: run when they are not kept.
        orphans: digests of crops that nothing may need any more.
        gone_files: digests of crops whose files are deleted after the commit.
        decisions_added: receipts that this transaction added to the ring.
        copy_books: whether the spare books are written as well; upkeep asks for it.
        saved: whether `finish` ran.
    """

    database: Database
    books: Books
    leases: Leases
    settings: OutboxSettings
    now_ms: int
    tight: int | None = None
    volatile: bool = False
    counters: Counter[str] = field(default_factory=Counter)
    on_commit: list[Callable[[], None]] = field(default_factory=list)
    on_rollback: list[Callable[[], None]] = field(default_factory=list)
    orphans: dict[bytes, str] = field(default_factory=dict)
    gone_files: list[bytes] = field(default_factory=list)
    decisions_added: int = 0
    copy_books: bool = False
    saved: bool = False
    _outcomes: dict[Fate, list[int]] = field(default_factory=dict)
    _ended: list[int] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether a job that only meant to read gave something up."""
        return bool(self._ended or self.counters)

    def end(self, rows: Iterable[EndingRow], fate: Fate, *, known_to_server: bool = False) -> int:
        """Count rows that were deleted from the queue; how many they were.

        Args:
            rows: what was deleted.
            fate: how they ended.
            known_to_server: the server has counted them under this fate and needs no outcome.
        """
        books, seqs = self.books, []
        for seq, severity, length, evidence in rows:
            seqs.append(seq)
            books.bytes -= length + ROW_OVERHEAD
            if severity == CRITICAL:
                books.critical_bytes -= length + ROW_OVERHEAD
            if evidence is not None:
                self._end_evidence(evidence, fate)
        if seqs:
            books.count(fate, len(seqs))
            self._ended += seqs
            if not known_to_server:
                self._outcomes.setdefault(fate, []).extend(seqs)
        return len(seqs)

    def finish(self) -> None:
        """Write the books, outcomes and counters; the caller commits."""
        for fate, seqs in self._outcomes.items():
            add_outcomes(self.database, fate, seqs)
        self._outcomes.clear()
        for name, number in self.counters.items():
            self.database.execute(
                "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = n + excluded.n",
                (name, number),
            )
        self.counters.clear()
        if self._ended:
            ended = self._ended
            self.on_commit.append(lambda: self.leases.end(ended))
        save_books(self.database, self.books)
        if self.copy_books:
            save_books(self.database, self.books, COPY)
        self.saved = True

    def _end_evidence(self, sha256: bytes, fate: Fate) -> None:
        if fate is Fate.DELIVERED:
            self.database.execute("UPDATE evidence SET due = 1 WHERE sha256 = ?", (sha256,))
        else:
            self.orphans[sha256] = fate.value
