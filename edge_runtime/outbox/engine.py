"""Runs transactions on the database and keeps the promise when the disk does not: full, read-only or damaged.

The road down is: give up the ballast and let the queue grow no further; then memory, said as volatile. The road
back is tried from the upkeep. Everything here runs in one thread at a time: the writer sees to that.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.outbox import absorb, anew, evidence_rows
from edge_runtime.outbox.ballast import Ballast
from edge_runtime.outbox.books import Books, save_books
from edge_runtime.outbox.database import Connect, Database, DatabaseFault, StoreFault
from edge_runtime.outbox.known_keys import KnownKeys
from edge_runtime.outbox.leases import Leases
from edge_runtime.outbox.queue_time import QueueTime
from edge_runtime.outbox.records import Health
from edge_runtime.outbox.schema import TIGHT_WAL_PAGES, rollback, wal_pages
from edge_runtime.outbox.settings import OutboxSettings
from edge_runtime.outbox.storefile import open_memory, open_store
from edge_runtime.outbox.transaction import Transaction
from edge_runtime.outbox.writer import Job
from edge_runtime.protocol.ids import uuid7
from edge_runtime.telemetry import get_logger

MAX_SENTENCES = 8
_ANEW_NS = 3600 * NS_PER_S


class Engine:
    """The database, its time, and what is done when it fails.

    Args:
        directory: of the database and its ballast; exists.
        settings: limits.
        clock: times.
        evidence: folder of the crops.
        connect: opens a connection.
        on_commit: called after every commit.

    Attributes:
        leases: who has which event in flight.
        volatile: whether events live in memory, because the disk cannot be written.
        tight: bytes that the queue may not exceed while the disk is full, or None.
        fresh_from: events from this number on were queued since the file was opened.
    """

    def __init__(
        self,
        directory: Path,
        settings: OutboxSettings,
        clock: Clock,
        *,
        evidence: Path,
        connect: Connect,
        on_commit: Callable[[], None],
    ) -> None:
        self._directory, self._evidence, self._clock = directory, evidence, clock
        self.settings, self._connect, self._on_commit = settings, connect, on_commit
        self._ballast = Ballast(directory / "ballast", settings.ballast_bytes)
        self.leases = Leases()
        self.volatile = False
        self.tight: int | None = None
        self._notes: list[str] = []
        self._lacks_ballast = False
        self._why_volatile = ""
        self._disk_books: Books | None = None
        self._pending: Counter[str] = Counter()
        self._retry_ns = 0
        self._last_saved_ns = clock.monotonic_ns()
        self.fresh_from = 1
        self._anew_ns: int | None = None
        self._database: Database
        self.books: Books
        self.time: QueueTime
        self._known = KnownKeys(settings.decisions_kept)
        self._open()

    def _open(self) -> None:
        try:
            opened = open_store(self._directory, self.settings, self._connect, self._new_epoch())
        except DatabaseFault as fault:
            self._start_in_memory(fault)
            return
        self._database, self.books, self._known = opened.database, opened.books, opened.known
        self.leases.clear(opened.order)
        self.fresh_from = self.books.next
        self._note(opened.sentences)
        if opened.salvaged and not self.books.session:
            self.books.session = self._first_session()
        self.time = self._time_of(self.books)
        self._lacks_ballast = not self._ballast.take()
        self._limit_log()

    def _time_of(self, books: Books) -> QueueTime:
        return QueueTime(
            books,
            boot_id=self._clock.wall().boot_id,
            boot_ms=self.boot_ms(),
            jump_share=self.settings.jump_share,
            confirm_ms=round(self.settings.jump_confirm_s * 1000),
        )

    def boot_ms(self) -> int:
        """CLOCK_BOOTTIME in milliseconds."""
        return self._clock.boottime_ns() // NS_PER_MS

    def now_ms(self) -> int:
        """The queue's time."""
        return self.time.now(self.boot_ms())

    def state(self) -> tuple[Health, tuple[str, ...]]:
        """Whether the promise holds, and the sentences that say why not."""
        said = list(self._notes)
        if self.time.waits:
            said.append("the clock says that much time passed without power; that waits for confirmation")
        if self.volatile:
            kept = "" if self._disk_books is not None else "; what is on the disk is not counted meanwhile"
            said.insert(
                0,
                f"the disk cannot be written ({self._why_volatile}): new events are kept in memory only{kept}",
            )
            return Health.VOLATILE, tuple(said)
        if self.tight is not None:
            said.insert(0, "the disk is full: new events replace older ones, and the queue does not grow")
        elif self._lacks_ballast:
            said.append("the disk has no room for the ballast")
        return (Health.DEGRADED if said else Health.HEALTHY), tuple(said)

    def total_books(self) -> Books:
        """The books as they are reported: in memory and, while the disk cannot be written, those on it."""
        if not self.volatile or self._disk_books is None:
            return self.books
        return absorb.sum_books(self.books, self._disk_books)

    def with_pending(self, counters: dict[str, int]) -> Counter[str]:
        """Named counts, with those that could not be written yet."""
        return Counter(counters) + self._pending

    def run(self, jobs: list[Job[Any]]) -> None:
        """Run jobs in one transaction; each has a value or an error afterwards."""
        try:
            self._commit(jobs)
        except DatabaseFault as fault:
            self._recover(fault, jobs)
        except Exception:  # noqa: BLE001 - one job's defect is that job's error, not its neighbours'
            self._one_by_one(jobs)

    def _commit(self, jobs: list[Job[Any]]) -> None:
        tx = self._begin()
        try:
            writes = False
            for job in jobs:
                if not job.puts:
                    tx.flush()
                job.value, job.error = job.function(tx), None
                writes = writes or job.writes
            tx.count_evicted()
            if tx.orphans:
                evidence_rows.drop_orphans(tx)
            if writes or tx.changed:
                self.time.store(tx.books, self.boot_ms())
                for name, number in self._pending.items():
                    tx.counters[name] += number
                tx.finish()
            self._database.execute("COMMIT")
        except BaseException:
            rollback(self._database)
            tx.undo()
            raise
        if tx.saved:
            self._pending.clear()
            self._last_saved_ns = self._clock.monotonic_ns()
        self.books = tx.books
        tx.committed()
        for sha256 in tx.gone_files:
            self._delete_crop(sha256)
        self._on_commit()

    def _begin(self) -> Transaction:
        now = self.now_ms()
        self.leases.wake(now)
        self.leases.order.begin()
        self._database.execute("BEGIN IMMEDIATE")
        limits = self._volatile_settings if self.volatile else self.settings
        return Transaction(
            self._database,
            self.books.copy(),
            self.leases,
            self._known,
            limits,
            now,
            self.tight,
            volatile=self.volatile,
        )

    def _recover(self, fault: DatabaseFault, jobs: list[Job[Any]]) -> None:
        """After a refused commit nothing of it is kept; what helps depends on the fault."""
        if fault.fault is StoreFault.FULL and self.tight is None and not self.volatile:
            self._tighten()
            self.run(jobs)
        elif fault.fault is StoreFault.FULL:
            self._one_by_one(jobs)
        elif fault.fault is StoreFault.CORRUPT and not self.volatile:
            self._reopen()
            self._one_by_one(jobs)
        elif fault.fault is StoreFault.UNWRITABLE and not self.volatile:
            self._start_in_memory(fault)
            self._one_by_one(jobs)
        else:
            self._one_by_one(jobs)

    def _one_by_one(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            self._run_alone(job)

    def _run_alone(self, job: Job[Any]) -> None:
        try:
            self._commit([job])
        except DatabaseFault as fault:
            self._refuse(job, fault)
        except Exception as error:  # noqa: BLE001 - goes to its caller
            job.error = error

    def _refuse(self, job: Job[Any], fault: DatabaseFault) -> None:
        if fault.fault is StoreFault.FULL and job.on_full is not None:
            job.value, counted = job.on_full()
            self._pending.update(counted)
            return
        if not self.volatile and fault.fault in (StoreFault.FULL, StoreFault.UNWRITABLE):
            self._start_in_memory(fault)
            try:
                self._commit([job])
            except DatabaseFault as again:
                job.error = again
            return
        job.error = fault

    def _tighten(self) -> None:
        """The disk is full: free the ballast, put the log back to its beginning, and grow no further.

        The log keeps its blocks, so that the next frames need none; it is put back before it would need more.
        """
        self._ballast.drop()
        self.tight = self.books.bytes
        with contextlib.suppress(DatabaseFault):  # the next commit tells
            self._database.execute("PRAGMA wal_checkpoint(RESTART)")
            self._database.execute(f"PRAGMA wal_autocheckpoint = {TIGHT_WAL_PAGES}")

    def _loosen(self) -> None:
        """The disk has room again."""
        if self.volatile or (self.tight is None and not self._lacks_ballast) or not self._ballast.take():
            return
        self._lacks_ballast, self.tight = False, None
        self._limit_log()

    def _limit_log(self) -> None:
        """What is in the log must fit into the database, in the blocks that the ballast would give up."""
        if self.settings.ballast_bytes:
            pages = wal_pages(self._ballast.bytes_held)
            with contextlib.suppress(DatabaseFault):
                self._database.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def _reopen(self) -> None:
        """The file turned out to be damaged while it was in use."""
        self._database.close()
        self._open()

    def _start_in_memory(self, fault: DatabaseFault) -> None:
        """The disk cannot be written: what is accepted from now on lives in memory, and says so."""
        if hasattr(self, "books"):
            self._disk_books = self.books
            self._database.close()
        self._why_volatile = str(fault)
        limit = self.settings.volatile_bytes
        self._volatile_settings = self.settings.model_copy(
            update={"quota_bytes": limit, "held_quota_bytes": limit}
        )
        opened = open_memory(self._volatile_settings, self._connect, self._new_epoch())
        self._database, self.books = opened.database, opened.books
        self.fresh_from = self.books.next
        if self._disk_books is not None:
            self.books.session = self._disk_books.session
        else:
            self.books.session = self._first_session()
            self.time = self._time_of(self.books)
        self.volatile, self.tight = True, None
        self.leases.clear(opened.order)
        self._retry_ns = self._clock.monotonic_ns() + round(self.settings.retry_disk_s * NS_PER_S)

    def _return_to_disk(self) -> None:
        """Try the disk again; on success everything in memory moves there in one transaction."""
        if self._clock.monotonic_ns() < self._retry_ns:
            return
        self._retry_ns = self._clock.monotonic_ns() + round(self.settings.retry_disk_s * NS_PER_S)
        database: Database | None = None
        try:
            opened = open_store(self._directory, self.settings, self._connect, self._new_epoch())
            database = opened.database
            time = self._time_of(opened.books)
            database.execute("BEGIN IMMEDIATE")
            now_ms = time.now(self.boot_ms())
            leases = Leases(opened.order)
            tx = Transaction(database, opened.books.copy(), leases, opened.known, self.settings, now_ms)
            absorb.absorb(tx, self._database, self.books, self.now_ms())
            time.store(tx.books, self.boot_ms())
            tx.finish()
            database.execute("COMMIT")
        except DatabaseFault:
            if database is not None:
                rollback(database)
                database.close()
            return
        self._database.close()
        self._database, self.books, self.time, self._known = database, tx.books, time, tx.known
        self.fresh_from = self.books.next
        self._note(opened.sentences)
        self.volatile, self._disk_books = False, None
        self._lacks_ballast = not self._ballast.take()
        self._limit_log()
        self.leases.clear(tx.leases.order)
        self._on_commit()

    def begin_anew(self, tx: Transaction) -> None:
        """A new epoch, because the server claims what it cannot have; at most once an hour, whatever it claims."""
        now_ns = self._clock.monotonic_ns()
        if self._anew_ns is not None and now_ns - self._anew_ns < _ANEW_NS:
            return

        def done() -> None:
            self.fresh_from, self._anew_ns = 1, now_ns
            self._note([anew.SENTENCE])
            get_logger().error("outbox begins a new epoch", why=anew.SENTENCE)

        anew.begin_anew(tx, self._new_epoch())
        tx.on_commit.append(done)

    def upkeep(self) -> None:
        """What is done between batches: the disk's state, and saving the time now and then."""
        if self.volatile:
            self._return_to_disk()
        else:
            self._loosen()

    def is_stale(self, period_s: float) -> bool:
        """Whether the queue's time was last saved so long ago that an idle outbox should save it."""
        return self._clock.monotonic_ns() - self._last_saved_ns >= period_s * NS_PER_S

    def close(self) -> None:
        """Mark the file as properly closed and let go of it; what lies in memory goes to the disk if it can."""
        if self.volatile:
            self._retry_ns = 0
            self._return_to_disk()
        if self.volatile:
            get_logger().error("the outbox ends on a disk that takes nothing", lost_events=self.books.queued)
        try:
            books = self.books.copy()
            books.clean = 1
            self.time.store(books, self.boot_ms())
            self._database.execute("BEGIN IMMEDIATE")
            save_books(self._database, books)
            self._database.execute("COMMIT")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except DatabaseFault:
            rollback(self._database)  # the next start checks the file instead
        self._database.close()

    def _delete_crop(self, sha256: bytes) -> None:
        with contextlib.suppress(OSError):  # the sweep of the evidence folder finds it later
            (self._evidence / f"{sha256.hex()}.jpg").unlink(missing_ok=True)

    def _note(self, sentences: list[str]) -> None:
        self._notes = (self._notes + sentences)[-MAX_SENTENCES:]

    def _first_session(self) -> int:
        """Where the last session is not known: the wall label in seconds is beyond any count of sessions."""
        return max(0, self._clock.wall().unix_ns // NS_PER_S)

    def _new_epoch(self) -> str:
        return uuid7(self._clock.wall().unix_ns)
