"""Records of delivery: bundles of events up, receipts down, and what closes every gap between them.

Delivered means committed by the fleet server and receipted. Each item of a bundle has a key (UUIDv7) that is
the same in every attempt, and a sequence number that is dense within the outbox's epoch. A receipt settles
sequence numbers; what will never arrive (expired, evicted, lost) is reported as an outcome, so that the server
can close the gap.
"""

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.event import EventRecord
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.vocabulary import Fate
from edge_runtime.protocol.wire import WireRecord

MAX_BUNDLE_ITEMS = 64
MAX_BUNDLE_BYTES = 64 * 1024
"""Sum of the bodies in one bundle."""

MAX_BODY_BYTES = 16 * 1024
"""One approved event with its decision; an event alone has its own, smaller cap."""

MAX_RANGES = 512
"""Ranges in one receipt or outcome; more go into the next."""

Key = Annotated[bytes, Field(min_length=16, max_length=16, description="UUIDv7, 16 bytes")]
Sequence = Annotated[int, Field(ge=1, lt=1 << 63)]
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Milliseconds = Annotated[int, Field(ge=0, lt=1 << 53)]
Epoch = Annotated[str, Field(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$")]
"""Identity of one outbox file, a UUIDv7 in text form: sequence numbers count within it."""

Range = tuple[Sequence, Sequence]
"""First and last sequence number, both included."""


class ApprovedEvent(WireRecord):
    """What an item's body holds: an event, and the decision that lets it go."""

    event: EventRecord
    decision: DecisionReceipt


class BundleItem(WireRecord):
    """One event on its way. The body stays bytes here, so that one bad event spoils no other.

    Attributes:
        key: the same in every attempt; the server's unique index.
        seq: dense within the epoch.
        left_ms: time to live that was left when the bundle was sent, by the device's boot clock.
        deadline_ms: wall label of its end, milliseconds since 1970; None while the device's clock is not synced.
        body: an encoded `ApprovedEvent`, uncompressed.
    """

    key: Key
    seq: Sequence
    left_ms: Milliseconds
    deadline_ms: Milliseconds | None = None
    body: Annotated[bytes, Field(min_length=1, max_length=MAX_BODY_BYTES)]


class EventBundle(WireRecord):
    """Events of one device, highest severity first."""

    device: DeviceId
    epoch: Epoch
    items: Annotated[tuple[BundleItem, ...], Field(min_length=1, max_length=MAX_BUNDLE_ITEMS)]


class RejectionCode(str, Enum):
    """Why the server refused one event."""

    MALFORMED = "malformed"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNKNOWN_VERSION = "unknown_version"
    WRONG_DEVICE = "wrong_device"
    KEY_CONFLICT = "key_conflict"
    NOT_PERMITTED = "not_permitted"
    EXPIRED = "expired"
    STORE_FAILED = "store_failed"


class Rejection(WireRecord):
    """The server's word on one event that it will not keep.

    Attributes:
        permanent: sending it again changes nothing; otherwise the device tries later.
        text: for people; holds no content of the event.
    """

    seq: Sequence
    key: Key
    code: RejectionCode
    permanent: bool
    text: Annotated[str, Field(max_length=200)] = ""


class Receipt(WireRecord):
    """The server's answer to bundles, outcomes and syncs, after its commit.

    Attributes:
        high: every sequence number up to this one is settled; 0 while none is.
        accepted: committed beyond `high`.
        rejected: refused.
        credit: bundles that the device may have in flight from now on; 0 stops it until the next receipt.
        server_ms: the server's wall clock, milliseconds since 1970.
    """

    epoch: Epoch
    high: Count
    accepted: Annotated[tuple[Range, ...], Field(max_length=MAX_RANGES)] = ()
    rejected: Annotated[tuple[Rejection, ...], Field(max_length=MAX_RANGES)] = ()
    credit: Annotated[int, Field(ge=0, le=1000)]
    server_ms: Milliseconds

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _require_ordered(self.accepted)
        return self


class Ledger(WireRecord):
    """Counts of events since the outbox was first made. They always balance.

    `accepted = queued + delivered + expired + evicted + rejected + lost`. Events that were never accepted
    (queue full, hand-over full) and events that the gate held or kept are counted beside it.
    """

    accepted: Count = 0
    queued: Count = 0
    delivered: Count = 0
    expired: Count = 0
    evicted: Count = 0
    rejected: Count = 0
    lost: Count = 0

    @property
    def balances(self) -> bool:
        """Whether every accepted event is queued or has exactly one fate."""
        fates = self.delivered + self.expired + self.evicted + self.rejected + self.lost
        return self.accepted == self.queued + fates


class Sync(WireRecord):
    """Sent on every connect; the server answers with a receipt.

    Attributes:
        lowest: oldest sequence number that is still queued, or `next` when none is.
        next: sequence number that the next accepted event will get.
    """

    device: DeviceId
    epoch: Epoch
    lowest: Sequence
    next: Sequence
    ledger: Ledger


class OutcomeRange(WireRecord):
    """Sequence numbers that will never be delivered."""

    first: Sequence
    last: Sequence
    fate: Fate

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        _require_ordered(((self.first, self.last),))
        return self


class Outcomes(WireRecord):
    """Fates that the server cannot know by itself; repeated until a receipt's `high` has passed them."""

    device: DeviceId
    epoch: Epoch
    ranges: Annotated[tuple[OutcomeRange, ...], Field(min_length=1, max_length=MAX_RANGES)]
    ledger: Ledger


class PresenceState(str, Enum):
    """Whether the device has a session."""

    ONLINE = "online"
    OFFLINE = "offline"


class Presence(WireRecord):
    """Birth and will, both retained. A will of an older session than the newest birth is stale and ignored.

    Attributes:
        session: grows with every connect of this device, across restarts.
    """

    device: DeviceId
    session: Count
    state: PresenceState
    boot_id: Annotated[str, Field(max_length=64)]
    runtime: Annotated[str, Field(max_length=32)]
    reason: Literal["connected", "stopped", "connection_lost"]


def _require_ordered(ranges: tuple[Range, ...]) -> None:
    if any(first > last for first, last in ranges):
        raise ValueError("a range ends before it begins")
