"""What the API answers with: one record for each thing, made from the rooms' own."""

from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict

from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.event import EventRecord
from edge_runtime.protocol.operation import Health, HeldItem
from edge_runtime.protocol.vocabulary import Severity
from fleet_server.http.rollout_records import RolloutHealthAnswer
from fleet_server.operators import Role


class _Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class EventAnswer(_Answer):
    """One committed event revision. Times are milliseconds since 1970."""

    id: int
    key: str
    device: str
    epoch: str
    seq: int
    received_ms: int
    at_ms: int
    synced: bool
    severity: Severity
    kind: str
    rule: str
    camera: str
    state: str
    revision: int
    data_class: str
    evidence_sha256: str | None
    event: EventRecord | None
    decision: DecisionReceipt | None


class EventPage(_Answer):
    """Events; `next` is the `before_id` or `after_id` of the following page, None on the last."""

    events: list[EventAnswer]
    next: int | None


class EvidenceAnswer(_Answer):
    """How far the upload of an event's evidence is: `expected`, `partial` or `complete`."""

    sha256: str
    bytes: int
    mode: str
    state: str
    received: int


class EventDetail(EventAnswer):
    """One event with the state of its evidence."""

    evidence: EvidenceAnswer | None


class DeviceState(str, Enum):
    """How a device stands."""

    ACTIVE = "active"
    PENDING = "pending"
    REVOKED = "revoked"
    REMOVED = "removed"


class DeviceAnswer(_Answer):
    """One device as far as the server knows it.

    Attributes:
        two_places: it connects from two machines, which share its identity.
        stale_sessions: births and wills of older sessions that came late and were passed over.
    """

    id: str
    state: str
    serial: str | None
    labels: dict[str, str]
    created_ms: int
    changed_ms: int
    presence: str | None
    reason: str | None
    since_ms: int | None
    runtime: str | None
    not_after_ms: int | None
    pending_key: str | None
    health: Health | None
    health_ms: int | None
    held: int
    two_places: bool
    stale_sessions: int


class DevicePage(_Answer):
    """Devices by id; `next` is the `after` of the following page."""

    devices: list[DeviceAnswer]
    next: str | None


class CertificateAnswer(_Answer):
    """One certificate of a device."""

    serial: str
    state: str
    key_sha256: str
    not_after_ms: int | None
    created_ms: int


class BalanceAnswer(_Answer):
    """One outbox file from both sides; see docs/fleet.md for what each count means."""

    device: str
    epoch: str
    reported_ms: int | None
    high: int
    ledger: Ledger
    settled: dict[str, int]
    waiting: int
    not_in_books: int
    missing: int
    unexplained: int


class DeviceDetail(DeviceAnswer):
    """One device with its certificates and its balance."""

    certificates: list[CertificateAnswer]
    balance: list[BalanceAnswer]


class InvitationAnswer(_Answer):
    """The token is shown here and never again.

    Attributes:
        server: where devices reach this API; None while the server does not know its own port.
    """

    id: str
    token: str
    expires_ms: int
    uses: int
    server: str | None = None


class HeldAnswer(_Answer):
    """One held item, without its content."""

    device: str
    key: str
    received_ms: int
    expires_ms: int
    item: HeldItem | None
    command: str | None


class HeldPage(_Answer):
    """Held items, those that end first coming first."""

    held: list[HeldAnswer]


class CommandAnswer(_Answer):
    """A command and what became of it."""

    id: str
    device: str
    kind: str
    state: str
    by: str
    issued_ms: int
    expires_ms: int
    sent_ms: int | None
    result: str | None


class DeadLetterAnswer(_Answer):
    """One refused message or event."""

    id: int
    device: str
    channel: str
    received_ms: int
    code: str
    text: str
    key: str | None
    seq: int | None
    size: int


class DeadLetterPage(_Answer):
    """Dead letters, the newest first; `next` is the `before_id` of the following page."""

    dead_letters: list[DeadLetterAnswer]
    next: int | None


class TokenAnswer(_Answer):
    """A token without its secret."""

    id: str
    name: str
    role: Role
    state: str
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


class NewTokenAnswer(TokenAnswer):
    """A new token; its text is shown here and never again."""

    token: str


class TokenPage(_Answer):
    """All tokens, the newest first."""

    tokens: list[TokenAnswer]


class PartAnswer(_Answer):
    """One part of the server; `ready` is null where this process cannot know."""

    name: str
    ready: bool | None
    detail: str


class ReadyAnswer(_Answer):
    """Whether the server does its work."""

    ready: bool
    parts: list[PartAnswer]


class WarningAnswer(_Answer):
    """Something that a person should look at."""

    subject: str
    text: str


class HealthAnswer(_Answer):
    """The server, its devices and the balance in one answer.

    Attributes:
        metadata: when the newest signed metadata of each role of releases runs out, milliseconds since 1970.
        rollouts: those that are not over.
        unexplained: events that neither side can account for, over all devices; anything but 0 is a loss.
    """

    version: str
    ready: ReadyAnswer
    devices: dict[str, int]
    online: int
    held: int
    events: int
    newest_ms: int | None
    dead_letters: dict[str, int]
    evidence: dict[str, int]
    certificates: dict[str, int]
    metadata: dict[str, int]
    rollouts: list[RolloutHealthAnswer]
    warnings: list[WarningAnswer]
    balance: list[BalanceAnswer]
    unexplained: int


class AuditEntryAnswer(_Answer):
    """One act; `hash` covers it and the hash of the one before."""

    id: int
    at_ms: int
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    hash: str


class AuditPage(_Answer):
    """Acts, the newest first; `next` is the `before_id` of the following page."""

    entries: list[AuditEntryAnswer]
    next: int | None


class AuditReportAnswer(_Answer):
    """Whether the audit is whole, and the hash in which it ends: keep that elsewhere to see a cut end."""

    whole: bool
    entries: int
    head: str
    broken_at: int | None
    detail: str
