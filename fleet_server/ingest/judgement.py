"""One event of a bundle: whether it can be read, was let go, and came in time. Pure, without the database."""

from dataclasses import dataclass
from datetime import datetime, timezone

from edge_runtime.protocol.decision import DecisionReceipt, EvidenceGrant
from edge_runtime.protocol.delivery import MAX_BODY_BYTES, ApprovedEvent, BundleItem, RejectionCode
from edge_runtime.protocol.vocabulary import DataClass, DecisionKind, EvidenceMode, Severity
from edge_runtime.protocol.wire import WireError
from fleet_server.ingest.fast_records import FastReader
from fleet_server.ingest.parcels import Candidate, NewEvent, Refusal
from fleet_server.settings import ServerSettings

_MAX_REVISION = (1 << 31) - 1
_DAY_MS = 24 * 3600 * 1000
_DEFAULTS = ServerSettings()
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RANKS = {severity.value: severity.rank for severity in Severity}
_MORE_CAREFUL = {(one.value, other.value): one.at_least(other) for one in DataClass for other in DataClass}
"""Looked up for every event; computing a rank costs 4 us. By `_value_`: a member's own hash is slow Python."""

_APPROVED = FastReader(
    ApprovedEvent,
    ("event.config", "event.model", "decision.policy", "decision.purpose", "decision.recipients"),
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What this server takes. It may narrow what a device's policy allowed, never widen it.

    Attributes:
        recipient: the recipient that this server is.
        accepts: classes of data.
        purposes: None for all.
        max_ttl_ms: a longer time to live would outlast the kept keys.
        tolerance_ms: how far ahead of the device's our clock may be at a deadline.
        max_evidence_bytes: larger evidence is not expected; its event is taken all the same.
    """

    recipient: str = _DEFAULTS.recipient
    accepts: frozenset[DataClass] = frozenset(_DEFAULTS.accepts)
    purposes: frozenset[str] | None = None
    max_ttl_ms: int = _DEFAULTS.retention.max_ttl_days * _DAY_MS
    tolerance_ms: int = _DEFAULTS.ingest.clock_tolerance_ms
    max_evidence_bytes: int = _DEFAULTS.evidence.max_bytes

    @classmethod
    def of(cls, settings: ServerSettings) -> "Rules":
        """The rules that a server's settings state."""
        purposes = settings.purposes
        return cls(
            recipient=settings.recipient,
            accepts=frozenset(settings.accepts),
            purposes=None if purposes is None else frozenset(purposes),
            max_ttl_ms=settings.retention.max_ttl_days * _DAY_MS,
            tolerance_ms=settings.ingest.clock_tolerance_ms,
            max_evidence_bytes=settings.evidence.max_bytes,
        )


@dataclass(frozen=True, slots=True)
class Now:
    """One instant.

    Attributes:
        monotonic_ns: measures how long a message waited here.
        wall_ms: milliseconds since 1970.
        synced: whether the wall clock is to be believed; deadlines are judged by it only then.
    """

    monotonic_ns: int
    wall_ms: int
    synced: bool = True


def judge(item: BundleItem, waited_ms: int, rules: Rules, now: Now) -> Candidate:
    """What one item of a bundle is, and why it is not taken.

    Args:
        item: as it came.
        waited_ms: how long it has waited here.
        rules: what this server takes.
        now: the instant by which a deadline is judged.
    """
    event: NewEvent | None = None
    grant: EvidenceGrant | None = None
    try:
        approved = _APPROVED.decode(item.body, MAX_BODY_BYTES)
        data_class = _MORE_CAREFUL[approved.event.data_class._value_, approved.decision.data_class._value_]
        grant = _grant(approved.decision, rules)
        event = _columns(approved, data_class, grant)
    except WireError as error:
        code = RejectionCode(error.fault.value)
        # a newer server may understand what this one does not: the device keeps it and tries again
        refusal: Refusal | None = Refusal(code, code is not RejectionCode.UNKNOWN_VERSION, str(error)[:200])
    except ValueError as error:
        refusal = _invalid(str(error))
    else:
        refusal = (
            _permission(approved, data_class, rules)
            or _agreement(item.key, approved)
            or _expiry(item, waited_ms, rules, now)
        )
    return Candidate(item.key, item.seq, item.body, event, grant, refusal)


def _grant(decision: DecisionReceipt, rules: Rules) -> EvidenceGrant | None:
    grant = decision.evidence
    if grant is None or grant.mode is EvidenceMode.NONE or grant.bytes > rules.max_evidence_bytes:
        return None
    return grant


def _columns(approved: ApprovedEvent, data_class: DataClass, grant: EvidenceGrant | None) -> NewEvent:
    """The columns of an event.

    Raises:
        ValueError: a value that cannot be stored; the text holds none of it.
    """
    event, decision = approved.event, approved.decision
    if (
        "\0"
        in f"{event.id}{event.kind}{event.rule}{event.camera}{event.label}{event.reason}{event.direction}"
        or "\0" in f"{decision.note}{decision.by}{decision.permit}"
    ):
        raise ValueError("a text holds a NUL character")
    if event.revision > _MAX_REVISION:
        raise ValueError(f"event.revision is over {_MAX_REVISION}")
    return NewEvent(
        event.id,
        event.revision,
        event.state._value_,
        event.kind,
        event.rule,
        event.camera,
        _RANKS[event.severity._value_],
        data_class._value_,
        _wall_ms(event.at.wall),
        1 if event.at.synced else 0,
        None if grant is None else grant.sha256,
    )


def _permission(approved: ApprovedEvent, data_class: DataClass, rules: Rules) -> Refusal | None:
    event, decision = approved.event, approved.decision
    if decision.decision is not DecisionKind.SEND:
        return _not_permitted(f"the decision says {decision.decision.value}")
    if decision.event != event.id or decision.revision != event.revision:
        return _not_permitted("the decision is about another event")
    if rules.recipient not in decision.recipients:
        return _not_permitted("the decision does not name this server as a recipient")
    if data_class not in rules.accepts:
        return _not_permitted(f"this server takes nothing of class {data_class.value}")
    if rules.purposes is not None and decision.purpose not in rules.purposes:
        return _not_permitted("this server does not serve the decision's purpose")
    return None


def _agreement(key: bytes, approved: ApprovedEvent) -> Refusal | None:
    """Whether the decision was made for this delivery, and about what the event says of itself."""
    event, decision = approved.event, approved.decision
    text = key.hex()
    if decision.id != f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}":
        return _not_permitted("the decision's id is not the delivery key")
    if decision.rule != event.rule:
        return _not_permitted("the decision names another rule than the event")
    if decision.camera != event.camera:
        return _not_permitted("the decision names another camera than the event")
    if decision.severity is not event.severity:
        return _not_permitted("the decision names another severity than the event")
    return None


def _expiry(item: BundleItem, waited_ms: int, rules: Rules, now: Now) -> Refusal | None:
    if item.left_ms > rules.max_ttl_ms:
        return _invalid(f"left_ms is over {rules.max_ttl_ms}, after which this server may forget its key")
    late = now.synced and item.deadline_ms is not None and now.wall_ms > item.deadline_ms + rules.tolerance_ms
    if late or item.left_ms <= waited_ms:
        return Refusal(RejectionCode.EXPIRED, permanent=True, text="its time to live has run out")
    return None


def _wall_ms(text: str) -> int:
    try:
        # Python 3.10 reads no Z
        stamp = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] == "Z" else text)
        if stamp.tzinfo is None:
            stamp = stamp.replace(tzinfo=timezone.utc)
        elapsed = stamp - _EPOCH
    except (ValueError, OverflowError):
        raise ValueError("event.at.wall is not a time in ISO 8601") from None
    return (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000


def _invalid(text: str) -> Refusal:
    return Refusal(RejectionCode.INVALID, permanent=True, text=text[:200])


def _not_permitted(text: str) -> Refusal:
    return Refusal(RejectionCode.NOT_PERMITTED, permanent=True, text=text)
