"""The outbox itself: its methods are safe to call from any thread, and return once their change is durable."""

import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.outbox import (
    anew,
    decision_rows,
    evidence_rows,
    held_rows,
    leasing,
    queue_rows,
    ranges,
    upkeep,
)
from edge_runtime.outbox.database import Connect, StandardDatabase
from edge_runtime.outbox.engine import Engine
from edge_runtime.outbox.records import (
    ACCEPTED,
    DUPLICATE,
    MAX_LEASE,
    MAX_LEASE_BYTES,
    MAX_LISTED,
    MAX_PUT,
    DeadLetter,
    EvidenceDue,
    HeldEntry,
    HeldItem,
    NotAccepted,
    OutboxError,
    OutboxStatus,
    Put,
    PutResult,
    QueuedEntry,
    QueuedItem,
    Settled,
    Submission,
    SyncPoint,
)
from edge_runtime.outbox.settings import OutboxSettings
from edge_runtime.outbox.status import read_status
from edge_runtime.outbox.transaction import Transaction
from edge_runtime.outbox.writer import Job, Writer
from edge_runtime.protocol.delivery import OutcomeRange, Receipt
from edge_runtime.protocol.vocabulary import DecisionKind

T = TypeVar("T")


class Outbox:
    """Owns the queue's database. One process at a time may.

    Args:
        directory: where database, ballast and quarantine lie; made when it is missing.
        settings: limits.
        clock: times; its boot clock ages events.
        evidence: folder of crops; `evidence` beside the directory when None.
        connect: opens SQLite connections; only tests give another than the default.

    Raises:
        OutboxError: another process owns the directory. A full, read-only or damaged disk raises nothing:
            `status` says what became of it.
    """

    def __init__(
        self,
        directory: Path,
        settings: OutboxSettings,
        clock: Clock,
        *,
        evidence: Path | None = None,
        connect: Connect = StandardDatabase,
    ) -> None:
        self._directory, self._clock = Path(directory), clock
        self._evidence = Path(evidence) if evidence is not None else self._directory.parent / "evidence"
        self._lock = _own(self._directory)
        self._changed = threading.Condition()
        self._available = 0
        self._draining = False
        try:
            self._engine = Engine(
                self._directory,
                settings,
                clock,
                evidence=self._evidence,
                connect=connect,
                on_commit=self._committed,
            )
        except BaseException:
            _disown(self._lock)
            raise
        self._sweep = upkeep.CropSweep(self._evidence, clock)
        self._writer = Writer(self._engine.run, self._upkeep, period_s=settings.expiry_period_s, clock=clock)
        self._committed()
        self._writer.start()

    # ---- what goes in

    def put(self, submissions: Sequence[Submission]) -> list[PutResult]:
        """Accept decided events; the results come in the same order, after the commit.

        A `DUPLICATE` was accepted in an earlier attempt. At most 256 at a time.

        Raises:
            ValueError: more than that.
        """
        if len(submissions) > MAX_PUT:
            raise ValueError(f"at most {MAX_PUT} submissions at a time")
        if self._draining:
            return [PutResult(Put.NOT_ACCEPTED, NotAccepted.DRAINING) for _ in submissions]

        def accept(tx: Transaction) -> list[PutResult]:
            return [
                queue_rows.enqueue(tx, item) if item.kind is DecisionKind.SEND else _accept_other(tx, item)
                for item in submissions
            ]

        def refuse() -> tuple[list[PutResult], Counter[str]]:
            reason = NotAccepted.DISK_FULL
            counted = Counter({f"not_accepted.{reason.value}": len(submissions)})
            return [PutResult(Put.NOT_ACCEPTED, reason) for _ in submissions], counted

        return self._writer.call(Job(accept, on_full=refuse, puts=True))

    def count_not_accepted(self, reason: NotAccepted, number: int) -> None:
        """Count events that a ring in front of the outbox had to give up, 0 to 2^31."""
        _require(0 <= number < 1 << 31, "a count of 0 to 2^31")

        def count(tx: Transaction) -> None:
            tx.counters[f"not_accepted.{NotAccepted(reason).value}"] += number

        self._call(count)

    # ---- what goes out

    def lease(
        self, max_items: int, max_bytes: int, min_severity: int = 0, *, owner: object = None
    ) -> list[QueuedItem]:
        """Hand out events, severest first, then the nearest deadline; none twice until it is settled or returned.

        Args:
            max_items: 1 to 1024.
            max_bytes: of their bodies, at most 4 MiB; the first item may exceed it.
            min_severity: 0 to 3.
            owner: whose leases these are; `unlease(owner=…)` returns them together.
        """
        _require(1 <= max_items <= MAX_LEASE, f"1 to {MAX_LEASE} items at a time")
        max_bytes = min(max_bytes, MAX_LEASE_BYTES)
        wall = self._clock.wall()
        wall_ms = wall.unix_ns // NS_PER_MS if wall.synced else None
        return self._read(
            lambda tx: leasing.lease(tx, max_items, max_bytes, min_severity, owner=owner, wall_ms=wall_ms)
        )

    def unlease(self, seqs: Sequence[int] | None = None, *, tried: bool = False, owner: object = None) -> int:
        """Return leased events, so that they are handed out again; how many there were.

        Args:
            seqs: which; None returns all that `owner` has.
            tried: count it as an attempt that came to nothing, in `QueuedItem.tries`.
            owner: of the leases, where `seqs` is None.
        """
        leases = self._engine.leases

        def give_back(tx: Transaction) -> int:
            given = leases.of(owner) if seqs is None else list(seqs)
            lent = leases.give_back(given, tried=tried, ended=set(tx.ended))
            tx.on_rollback.append(lambda: leases.restore(lent, tried=tried))
            return len(lent)

        return self._read(give_back)

    def wait(self, timeout_s: float) -> bool:
        """Wait until something can be leased, at most `timeout_s` seconds, 0 to 600; whether something can."""
        with self._changed:
            self._changed.wait_for(lambda: self._available > 0, min(max(0.0, timeout_s), 600.0))
            return self._available > 0

    def settle(self, epoch: str, receipt: Receipt) -> Settled:
        """Apply the server's receipt: rows and ledger change together.

        What the server rejected as expired counts as expired. What it could not take yet rests for a while and is
        leased again. A receipt of another epoch changes nothing. One that settles what was never handed out is
        about a newer state than this: nothing of it is applied, and what is queued goes on under a new epoch.

        Args:
            epoch: that the receipt answers; events of an earlier database have other numbers.
            receipt: the server's word.
        """
        total = self._call(lambda tx: self._apply_receipt(tx, epoch, receipt, first=True))
        while total.pop("more", 0):  # a long backlog is settled in parts, so that nobody waits long behind it
            total.update(self._call(lambda tx: self._apply_receipt(tx, epoch, receipt, first=False)))
        return Settled(**total)

    def _apply_receipt(self, tx: Transaction, epoch: str, receipt: Receipt, *, first: bool) -> Counter[str]:
        """One transaction of a receipt; counts what it changed, and `more` while something is left to do."""
        if first:
            boot_ms = self._engine.boot_ms()
            self._engine.time.read_wall(
                boot_ms, receipt.server_ms, lambda time_ms: queue_rows.share_past(tx, time_ms), server=True
            )
        if not epoch == receipt.epoch == tx.books.epoch:
            return Counter(not_found=len(receipt.accepted) + len(receipt.rejected))
        if first and anew.is_impossible(tx, receipt, self._engine.fresh_from):
            self._engine.begin_anew(tx)
            return Counter(not_found=len(receipt.accepted) + len(receipt.rejected))
        counted = _reject(tx, receipt) if first else Counter[str]()
        counted["delivered"], done = queue_rows.settle_ranges(tx, receipt)
        if done:
            ranges.forget_passed(tx.database, tx.books)
        else:
            counted["more"] = 1
        return counted

    def sync_point(self) -> SyncPoint:
        """Where the outbox stands, for the device's sync message."""

        def read(tx: Transaction) -> SyncPoint:
            lowest = tx.database.execute("SELECT min(seq) FROM queue")[0][0]
            books = self._engine.total_books()
            return SyncPoint(tx.books.epoch, lowest or tx.books.next, tx.books.next, books.ledger())

        return self._read(read)

    def outcomes(self, limit: int) -> list[OutcomeRange]:
        """Ranges that will never be delivered and that no receipt's `high` has passed; the oldest `limit`."""
        return self._read(lambda tx: ranges.list_outcomes(tx.database, tx.books, _listed(limit)))

    def next_session(self) -> int:
        """Number of a new connect; it grows across restarts."""

        def grow(tx: Transaction) -> int:
            tx.books.session += 1
            return tx.books.session

        return self._call(grow)

    # ---- evidence

    def evidence_due(self, limit: int) -> list[EvidenceDue]:
        """Crops whose events were receipted and which may be uploaded now, oldest first."""
        found = self._read(lambda tx: evidence_rows.due(tx, _listed(limit)))
        return [
            EvidenceDue(sha256, size, str(self._evidence / f"{sha256}.jpg"), left)
            for sha256, size, left in found
        ]

    def evidence_done(self, sha256: str) -> bool:
        """A crop was uploaded: its file is deleted; whether it was known."""
        return self._call(lambda tx: evidence_rows.finish(tx, bytes.fromhex(sha256), "uploaded"))

    def evidence_failed(self, sha256: str, permanent: bool) -> None:  # noqa: FBT001 - part of the contract
        """An upload failed; it is tried again later, or given up when the server refused it for good."""
        digest = bytes.fromhex(sha256)

        def fail(tx: Transaction) -> None:
            if permanent:
                evidence_rows.finish(tx, digest, "failed")
            else:
                evidence_rows.postpone(tx, digest)

        self._call(fail)

    # ---- what waits for a person

    def held(self, limit: int, after: bytes = b"") -> list[HeldEntry]:
        """Held events without their content, oldest first, those after the key `after`."""
        return self._read(lambda tx: held_rows.entries(tx, _listed(limit), after))

    def held_item(self, key: bytes) -> HeldItem | None:
        """One held event with its content, or None."""
        return self._read(lambda tx: held_rows.item(tx, key))

    def release(self, key: bytes, submission: Submission) -> PutResult | None:
        """Move a held event to the queue as `submission`; None when it is not held.

        What the queue does not accept stays held and is counted as not accepted.
        """
        reason = NotAccepted.DISK_FULL
        counted = Counter({f"not_accepted.{reason.value}": 1})
        refused: PutResult | None = PutResult(Put.NOT_ACCEPTED, reason)
        return self._writer.call(
            Job(lambda tx: held_rows.release(tx, key, submission), on_full=lambda: (refused, counted))
        )

    def drop(self, key: bytes, receipt: bytes, *, decision_key: bytes | None = None) -> bool:
        """Give up a held event, keeping the receipt of the decision; whether it was held.

        Args:
            key: of the held event.
            receipt: the person's decision, an encoded `DecisionReceipt`.
            decision_key: id of that decision, 16 bytes; drawn from the receipt's bytes when None.
        """
        identity = decision_key or upkeep.identity_of(receipt)
        return self._call(lambda tx: held_rows.drop(tx, key, identity, receipt))

    # ---- for people

    def decisions(self, limit: int, skip: int = 0) -> list[bytes]:
        """The newest decision receipts, encoded, without the newest `skip`."""
        return self._read(lambda tx: decision_rows.newest_decisions(tx, _listed(limit), max(0, skip)))

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        """The newest events that the server refused for good, at most 200."""
        return self._read(lambda tx: decision_rows.list_dead_letters(tx, min(200, _listed(limit))))

    def queued(self, limit: int, after: int = 0) -> list[QueuedEntry]:
        """Queued events without their content, by sequence number, those after `after`."""
        return self._read(lambda tx: queue_rows.list_queue(tx, _listed(limit), after))

    def bodies(self, limit: int, after: int = 0) -> list[tuple[int, bytes]]:
        """Sequence numbers and bodies of queued events, for an export; at most 64 at a time."""
        return self._read(lambda tx: queue_rows.load_bodies(tx, min(64, _listed(limit)), after))

    def status(self) -> OutboxStatus:
        """Everything that an operator asks about the outbox."""
        return self._read(lambda tx: read_status(tx, self._engine, self._directory))

    def fill(self) -> float:
        """Share of the quota that queued events take. The writer answers: an answer also says that it is alive."""
        return self._read(lambda tx: self._engine.total_books().bytes / tx.settings.quota_bytes)

    # ---- life

    def upkeep_now(self) -> None:
        """Expire, look after the disk and the spool; the writer's thread does it by itself every period."""
        self._writer.upkeep_now()

    def _upkeep(self) -> None:
        self._engine.upkeep()
        wall = self._clock.wall()
        job: Job[int] = Job(upkeep.expire_all)
        look: Job[bool] = Job(lambda tx: upkeep.is_due(tx, self._engine, wall), writes=False)
        self._engine.run([look])
        for _ in range(upkeep.MAX_CHUNKS if look.value or look.error else 0):
            self._engine.run([job])
            if not job.value:
                break
        if self._sweep.is_due():
            known: Job[set[str]] = Job(evidence_rows.all_names, writes=False)
            self._engine.run([known])
            if known.value is not None:
                self._sweep.run(known.value)

    def drain(self) -> None:
        """Accept nothing more; what is queued can still be leased and settled."""
        self._draining = True

    def close(self) -> None:
        """Commit what was handed over and let go of the directory. Calls after that raise OutboxUnavailable."""
        self._draining = True
        self._writer.stop()
        self._engine.close()
        _disown(self._lock)

    def _call(self, function: Callable[[Transaction], T]) -> T:
        return self._writer.call(Job(function))

    def _read(self, function: Callable[[Transaction], T]) -> T:
        return self._writer.call(Job(function, writes=False))

    def _committed(self) -> None:
        available = self._engine.books.queued - len(self._engine.leases)
        if available > 0 and self._available <= 0:
            with self._changed:
                self._available = available
                self._changed.notify_all()
        self._available = available


def _accept_other(tx: Transaction, item: Submission) -> PutResult:
    if item.too_large:
        return queue_rows.refuse(tx, NotAccepted.TOO_LARGE)
    if item.kind is DecisionKind.HOLD:
        return held_rows.hold(tx, item)
    if item.key in tx.known.keys:
        return DUPLICATE[tx.volatile]
    tx.counters["gate.kept"] += 1
    tx.decide(item.key, item.receipt)
    return ACCEPTED[tx.volatile]


def _reject(tx: Transaction, receipt: Receipt) -> Counter[str]:
    counted: Counter[str] = Counter()
    for word in receipt.rejected:
        try:
            fate = queue_rows.settle_rejection(tx, word)
        except KeyError:  # noqa: PERF203 - rejections are rare
            counted["not_found"] += 1
        else:
            counted["postponed" if fate is None else fate.value] += 1
    return counted


def _listed(limit: int) -> int:
    return max(1, min(limit, MAX_LISTED))


def _require(condition: Any, text: str) -> None:
    if not condition:
        raise ValueError(text)


def _own(directory: Path) -> int | None:
    """Make the directory and lock it; None where the disk allows neither a new file nor a lock."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        try:
            lock = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise OutboxError(
            f"{directory} is in use by another process; ask that one through its socket"
        ) from None
    except OSError:
        pass  # a file system without locks: the supervisor runs one outbox
    return lock


def _disown(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)
