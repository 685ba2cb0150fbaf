"""Closed vocabularies: data classes and severities, ordered by how careful one must be."""

from enum import Enum


class DataClass(str, Enum):
    """How sensitive what a camera sees is; `unknown` is handled as restricted and held."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"
    UNKNOWN = "unknown"

    @property
    def rank(self) -> int:
        """Larger is more careful; `unknown` is the most careful of all."""
        return list(DataClass).index(self)

    def at_least(self, other: "DataClass") -> "DataClass":
        """The more careful of the two: content or a zone may raise a class, never lower it."""
        return self if self.rank >= other.rank else other


class Severity(str, Enum):
    """How much an event matters; eviction and pacing look at it first."""

    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for info to 3 for critical."""
        return list(Severity).index(self)


class DecisionKind(str, Enum):
    """What policy says about one event: it stays, it waits for a person, or it may go to its recipients."""

    KEEP = "keep"
    HOLD = "hold"
    SEND = "send"


class EvidenceMode(str, Enum):
    """How much of an event's evidence a decision lets go, from nothing to the crop as it is."""

    NONE = "none"
    REDACTED = "redacted"
    CROP = "crop"

    @property
    def rank(self) -> int:
        """0 for none to 2 for the whole crop."""
        return list(EvidenceMode).index(self)


class Reason(str, Enum):
    """Why a decision is what it is; a decision names all that apply."""

    PERMITTED = "permitted"
    RELEASED_BY_PERSON = "released_by_person"
    DROPPED_BY_PERSON = "dropped_by_person"
    NEVER_ESCALATE = "never_escalate"
    COALESCED = "coalesced"
    NO_POLICY = "no_policy"
    POLICY_UNREADABLE = "policy_unreadable"
    CLASS_UNKNOWN = "class_unknown"
    NO_PERMIT = "no_permit"
    RECIPIENT_UNKNOWN = "recipient_unknown"
    RECIPIENT_REFUSES_CLASS = "recipient_refuses_class"
    RECIPIENT_REFUSES_PURPOSE = "recipient_refuses_purpose"
    INPUT_MISSING = "input_missing"
    EVENT_BUDGET_SPENT = "event_budget_spent"
    EVIDENCE_BUDGET_SPENT = "evidence_budget_spent"
    REDACTION_FAILED = "redaction_failed"
    EVIDENCE_NOT_PERMITTED = "evidence_not_permitted"
    EVIDENCE_MISSING = "evidence_missing"
    EVALUATION_FAILED = "evaluation_failed"


class Fate(str, Enum):
    """How an accepted event ended; each has exactly one.

    Attributes:
        DELIVERED: committed by the fleet server and receipted.
        EXPIRED: its time to live ran out first.
        EVICTED: gave its place to a more severe one, or to a newer one of its own severity.
        REJECTED: refused by the fleet server for good.
        LOST: unreadable after its file was corrupt; counted, never silently gone.
    """

    DELIVERED = "delivered"
    EXPIRED = "expired"
    EVICTED = "evicted"
    REJECTED = "rejected"
    LOST = "lost"
