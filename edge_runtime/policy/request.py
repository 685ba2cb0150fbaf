"""What is asked and what is answered: plain values, each of which may be missing on the way in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from edge_runtime.protocol.event import EventRecord
from edge_runtime.protocol.vocabulary import DataClass, DecisionKind, EvidenceMode, Reason, Severity


class Known(str, Enum):
    """What a permit did with an earlier revision of the same happening."""

    NEW = "new"
    SENT = "sent"
    COALESCED = "coalesced"


@dataclass(frozen=True, slots=True)
class Usage:
    """What one permit let go for one rule of one camera, before this event.

    Attributes:
        events: sent within the last hour.
        evidence_bytes: sent within the last hour.
        since_sent_ns: since another happening of the rule was last sent; None when none was.
        known: whether this very happening was sent or coalesced before.
    """

    events: int = 0
    evidence_bytes: int = 0
    since_sent_ns: int | None = None
    known: Known = Known.NEW


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Everything that a decision looks at. Whatever could not be learnt is None, and is never assumed.

    Attributes:
        data_class: of the event, never lowered by a redaction.
        severity: of the event.
        camera: where it was seen.
        rule: that made it.
        kind: of the event.
        label: of what was seen; None where the event is about no object.
        evidence_bytes: size of the crop beside it; None where there is none.
        usage: by permit name. A permit that is not in it cannot let anything go.
    """

    data_class: DataClass | None = None
    severity: Severity | None = None
    camera: str | None = None
    rule: str | None = None
    kind: str | None = None
    label: str | None = None
    evidence_bytes: int | None = None
    usage: Mapping[str, Usage] = field(default_factory=dict)

    @classmethod
    def of(cls, event: EventRecord, usage: Mapping[str, Usage]) -> "DecisionRequest":
        """The question whether `event` may leave."""
        return cls(
            data_class=event.data_class,
            severity=event.severity,
            camera=event.camera,
            rule=event.rule,
            kind=event.kind,
            label=event.label,
            evidence_bytes=None if event.evidence is None else event.evidence.bytes,
            usage=usage,
        )


@dataclass(frozen=True, slots=True)
class Considered:
    """What one permit said.

    Attributes:
        permit: its name.
        reasons: why it did not let the event go, or what it left out; `permitted` where it did.
    """

    permit: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer.

    Attributes:
        kind: keep, hold or send.
        reasons: all that apply, each once; at least one.
        data_class: as decided upon; `unknown` where it was missing.
        permit: that let it go or coalesced it.
        recipients: who may have it; empty unless it is sent.
        purpose: what for.
        evidence: how much of the crop may leave.
        policy: digest of the policy that was asked.
        considered: each permit that was asked, in order.
    """

    kind: DecisionKind
    reasons: tuple[Reason, ...]
    data_class: DataClass
    permit: str | None = None
    recipients: tuple[str, ...] = ()
    purpose: str | None = None
    evidence: EvidenceMode = EvidenceMode.NONE
    policy: str | None = None
    considered: tuple[Considered, ...] = ()
