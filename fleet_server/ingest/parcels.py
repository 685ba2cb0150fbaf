"""What one MQTT message is, once it was looked at: plain values, with nothing decided that needs the database."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from edge_runtime.protocol.decision import EvidenceGrant
from edge_runtime.protocol.delivery import Ledger, OutcomeRange, Presence, RejectionCode
from edge_runtime.protocol.operation import CommandResult, HeldList
from edge_runtime.protocol.topics import Channel


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message as it came.

    Attributes:
        arrived_ns: on the monotonic clock; times to live are counted from here.
        ticket: what the session needs to acknowledge it.
        retained: the broker kept it from before this subscription; who sent it may be out by now.
    """

    topic: str
    payload: bytes
    arrived_ns: int
    ticket: object = None
    retained: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one event is not taken.

    Attributes:
        permanent: sending it again changes nothing.
        text: for people; holds no content.
    """

    code: RejectionCode
    permanent: bool
    text: str


class NewEvent(NamedTuple):
    """The columns of an event that come out of its body, in the order of the table.

    A tuple, because a row is made by joining tuples; a frozen dataclass of so many fields costs 1.5 us an event.

    Attributes:
        synced: 0 or 1.
    """

    event: str
    revision: int
    state: str
    kind: str
    rule: str
    camera: str
    severity: int
    data_class: str
    at_ms: int
    synced: int
    evidence_sha256: str | None


class Candidate(NamedTuple):
    """One item of a bundle.

    Attributes:
        event: what its body holds; None when that could not be read.
        grant: evidence that its decision lets go and this server expects.
        refusal: why it is not taken; None when it may be. A refused item that was committed in an earlier attempt
            is still a duplicate, and gets the same acceptance.
    """

    key: bytes
    seq: int
    body: bytes
    event: NewEvent | None
    grant: EvidenceGrant | None
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class BundleParcel:
    """Events of one device."""

    device: str
    epoch: str
    channel: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class OutcomesParcel:
    """Sequence numbers that a device gave up, and its ledger."""

    channel: ClassVar[str] = Channel.OUTCOME.value

    device: str
    epoch: str
    ranges: tuple[OutcomeRange, ...]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class SyncParcel:
    """Where a device's outbox stands."""

    channel: ClassVar[str] = Channel.SYNC.value

    device: str
    epoch: str
    lowest: int
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class PresenceParcel:
    """A birth or a will, and whether the broker only kept it."""

    channel: ClassVar[str] = Channel.PRESENCE.value

    presence: Presence
    retained: bool = False

    @property
    def device(self) -> str:
        """Whose it is."""
        return self.presence.device


@dataclass(frozen=True, slots=True)
class HealthParcel:
    """A device's health, with the payload that is kept."""

    channel: ClassVar[str] = Channel.HEALTH.value

    device: str
    ledger: Ledger
    payload: bytes


@dataclass(frozen=True, slots=True)
class HeldParcel:
    """A device's list of held items."""

    channel: ClassVar[str] = Channel.HELD.value

    held: HeldList

    @property
    def device(self) -> str:
        """Whose it is."""
        return self.held.device


@dataclass(frozen=True, slots=True)
class ResultParcel:
    """What became of a command."""

    channel: ClassVar[str] = Channel.RESULT.value

    result: CommandResult
    payload: bytes

    @property
    def device(self) -> str:
        """Whose it is."""
        return self.result.device


@dataclass(frozen=True, slots=True)
class StateParcel:
    """Sealed state reports of one device; who signed them is not looked at yet."""

    channel: ClassVar[str] = Channel.STATE.value

    device: str
    reports: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class DeadParcel:
    """A message, or one event of it, that is refused and kept for whoever asks why.

    Attributes:
        device: of the topic; empty when the topic names none.
        code: a `RejectionCode` or a `WireFault`.
    """

    device: str
    channel: str
    code: str
    text: str
    payload: bytes
    key: bytes | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class EmptyParcel:
    """A retained message that was cleared: nothing to do."""

    channel: ClassVar[str] = Channel.PRESENCE.value
    device: ClassVar[str] = ""


Parcel = (
    BundleParcel
    | OutcomesParcel
    | SyncParcel
    | PresenceParcel
    | HealthParcel
    | HeldParcel
    | ResultParcel
    | StateParcel
    | DeadParcel
    | EmptyParcel
)
EpochParcel = BundleParcel | OutcomesParcel | SyncParcel
