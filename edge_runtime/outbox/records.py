"""What goes into the outbox and comes out of it. Bodies are bytes here: nothing in this room reads an event."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import MAX_BODY_BYTES, Ledger
from edge_runtime.protocol.vocabulary import DecisionKind

MAX_PUT = 256
"""Submissions in one call."""

MAX_LEASE = 1024
"""Items in one lease."""

MAX_LEASE_BYTES = 4 * 1024 * 1024
"""Bytes of the bodies in one lease; the first item may exceed it."""

MAX_LISTED = 1000
"""Entries that a listing returns at once."""

MAX_RECEIPT_BYTES = 4096
"""An encoded decision receipt; its record's limits keep it far below."""

MAX_TTL_NS = 400 * 24 * 3600 * 10**9
"""No event waits longer than this; a longer time to live is cut."""

KEY_BYTES = 16


class OutboxError(EdgeRuntimeError):
    """The outbox cannot be opened or asked; the text says why."""


class OutboxUnavailable(OutboxError):
    """The outbox's process does not answer. What it acknowledged is safe; try again later."""


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A crop in the evidence folder that belongs to a submission, written before it is submitted.

    Attributes:
        sha256: of the file's bytes, lower-case hexadecimal; also its name.
        bytes: its length.
    """

    sha256: str
    bytes: int

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise ValueError("evidence is named by 64 lower-case hexadecimal digits")
        if self.bytes < 1:
            raise ValueError("evidence has at least one byte")


class _SubmissionFields(NamedTuple):
    key: bytes
    kind: DecisionKind
    severity: int
    ttl_ns: int
    body: bytes
    receipt: bytes = b""
    evidence: EvidenceFile | None = None


class Submission(_SubmissionFields):
    """One decided event.

    A tuple, because one is made for each event on either side of the socket: a frozen dataclass takes 2.5 times as
    long.

    Attributes:
        key: UUIDv7 of the decision, 16 bytes; the same in every attempt.
        kind: send puts it into the queue, hold into the held list, keep only counts it.
        severity: 0 (info) to 3 (critical).
        ttl_ns: time to live that was left when it was submitted; nothing left expires at once, counted.
        body: an encoded `ApprovedEvent`, uncompressed; for a held one whatever its reviewer needs; empty for keep.
        receipt: an encoded `DecisionReceipt`, kept in the ring of decisions; empty keeps none.
        evidence: its crop, or None.
    """

    __slots__ = ()

    def __new__(  # noqa: D102, PLR0917 - the fields, checked
        cls,
        key: bytes,
        kind: DecisionKind,
        severity: int,
        ttl_ns: int,
        body: bytes,
        receipt: bytes = b"",
        evidence: EvidenceFile | None = None,
    ) -> "Submission":
        if len(key) != KEY_BYTES:
            raise ValueError("a key has 16 bytes")
        if not 0 <= severity <= 3:
            raise ValueError("severities are 0 to 3")
        return tuple.__new__(cls, (key, kind, severity, ttl_ns, body, receipt, evidence))

    @property
    def too_large(self) -> bool:
        """Whether it can never be kept: a body or a receipt over its cap."""
        return len(self.body) > MAX_BODY_BYTES or len(self.receipt) > MAX_RECEIPT_BYTES


class Put(str, Enum):
    """What became of one submission."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    NOT_ACCEPTED = "not_accepted"


class NotAccepted(str, Enum):
    """Why a submission was not accepted.

    Attributes:
        FULL: the byte quota is used up by what is as severe or more severe.
        TOO_LARGE: it is over the cap of one event.
        DISK_FULL: the disk is full, and giving up less severe events made no room.
        READ_ONLY: the disk cannot be written, and the memory that stands in for it is full.
        DRAINING: the outbox is shutting down.
        HAND_OVER: a ring in front of the outbox overflowed; only counted here.
    """

    FULL = "full"
    TOO_LARGE = "too_large"
    DISK_FULL = "disk_full"
    READ_ONLY = "read_only"
    DRAINING = "draining"
    HAND_OVER = "hand_over"


@dataclass(frozen=True, slots=True)
class PutResult:
    """The answer to one submission.

    Attributes:
        outcome: accepted means committed to the disk, unless `volatile`.
        reason: why it was not accepted; None otherwise.
        volatile: accepted into memory only, because the disk cannot be written; a power cut loses it.
    """

    outcome: Put
    reason: NotAccepted | None = None
    volatile: bool = False

    @property
    def accepted(self) -> bool:
        """Whether the outbox has it, now or from an earlier attempt."""
        return self.outcome is not Put.NOT_ACCEPTED


ACCEPTED = (PutResult(Put.ACCEPTED), PutResult(Put.ACCEPTED, volatile=True))
DUPLICATE = (PutResult(Put.DUPLICATE), PutResult(Put.DUPLICATE, volatile=True))
"""The two usual answers, on the disk and in memory only: made once, not for every event."""


class QueuedItem(NamedTuple):
    """One leased event; a tuple for the reason that a `Submission` is one.

    Attributes:
        key, seq, severity, body: as submitted; `seq` is dense in the outbox's epoch.
        left_ms: time to live that is left.
        deadline_ms: wall label of its end, milliseconds since 1970; None while the clock is not synchronised.
        tries: earlier attempts that the server put off, or that were returned as tried.
        epoch: of the outbox that handed it out; `seq` means nothing in another.
    """

    key: bytes
    seq: int
    severity: int
    left_ms: int
    deadline_ms: int | None
    tries: int
    body: bytes
    epoch: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What a receipt changed.

    Attributes:
        delivered, rejected, expired: events that got this fate now.
        postponed: events that the server could not take yet.
        not_found: sequence numbers or keys in the receipt that are not queued (settled before, or given up).
    """

    delivered: int = 0
    rejected: int = 0
    expired: int = 0
    postponed: int = 0
    not_found: int = 0


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """Where the outbox stands, for the device's sync message.

    Attributes:
        epoch: UUIDv7 of the database.
        lowest: oldest queued sequence number, or `next` when nothing is queued.
        next: sequence number of the next accepted event.
        ledger: counts since the outbox was first made.
    """

    epoch: str
    lowest: int
    next: int
    ledger: Ledger


class Health(str, Enum):
    """Whether the outbox keeps its promise.

    Attributes:
        HEALTHY: what is accepted survives a power cut.
        DEGRADED: it still does, but the disk is full, or a file was damaged, or the ballast is gone.
        VOLATILE: the disk cannot be written; what is accepted now lives in memory.
    """

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    VOLATILE = "volatile"


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """Everything that an operator asks about the outbox.

    Attributes:
        ledger: counts of events; `accepted` equals the sum of the others.
        not_accepted: by reason.
        gate: decisions counted: kept, held, released, dropped, held_expired, held_evicted.
        evidence: crops: waiting, due, bytes, uploaded, expired, evicted, failed.
        bytes: what the queued events take, as the quota counts it.
        quota_bytes: the quota.
        queued_by_severity: from info to critical.
        held, held_bytes: what waits for a person.
        dead_letters: events in the bounded list of rejected ones.
        leased: events that are on their way.
        oldest_age_ms: age of the oldest queued event; None when nothing is queued.
        state: see `Health`.
        sentences: why it is not healthy, one sentence each.
        quarantined: names of damaged files that were put aside.
        epoch: UUIDv7 of the database.
        disk_bytes: what the database and its log take on the disk.
    """

    ledger: Ledger
    not_accepted: dict[str, int]
    gate: dict[str, int]
    evidence: dict[str, int]
    bytes: int
    quota_bytes: int
    queued_by_severity: tuple[int, ...]
    held: int
    held_bytes: int
    dead_letters: int
    leased: int
    oldest_age_ms: int | None
    state: Health
    epoch: str
    disk_bytes: int
    sentences: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceDue:
    """A crop whose event was receipted and which may now be uploaded.

    Attributes:
        sha256, bytes: as submitted.
        path: where it lies.
        left_ms: after which it is given up.
    """

    sha256: str
    bytes: int
    path: str
    left_ms: int


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """One held event in a listing; its content is not in it.

    Attributes:
        key: of the decision that holds it.
        receipt: that decision, an encoded `DecisionReceipt`.
        left_ms: after which it expires.
        bytes: length of its body.
    """

    key: bytes
    receipt: bytes
    left_ms: int
    bytes: int

    def decision(self) -> DecisionReceipt:
        """The decision that holds it.

        Raises:
            WireError: whoever submitted it wrote no decision receipt.
        """
        return DecisionReceipt.decode(self.receipt)


@dataclass(frozen=True, slots=True)
class HeldItem:
    """One held event with its content.

    Attributes:
        key, severity, body, receipt, evidence: as submitted.
        left_ms: after which it expires.
    """

    key: bytes
    severity: int
    left_ms: int
    body: bytes
    receipt: bytes
    evidence: EvidenceFile | None = field(default=None)


@dataclass(frozen=True, slots=True)
class QueuedEntry:
    """One queued event in a listing.

    Attributes:
        key, seq, severity: as leased.
        left_ms: time to live that is left.
        bytes: length of its body.
        tries: as leased.
    """

    key: bytes
    seq: int
    severity: int
    left_ms: int
    bytes: int
    tries: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One event that the server refused for good.

    Attributes:
        key, seq, body: as leased.
        code, text: the server's word.
    """

    key: bytes
    seq: int
    code: str
    text: str
    body: bytes
