"""The receipt of a decision: the minimal proof of what policy said about one event. It never holds content."""

from typing import Annotated

from pydantic import Field

from edge_runtime.protocol.event import Digest, EventTime, Identifier
from edge_runtime.protocol.vocabulary import DataClass, DecisionKind, EvidenceMode, Reason, Severity
from edge_runtime.protocol.wire import WireRecord

RecipientName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Purpose = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]


class EvidenceGrant(WireRecord):
    """Evidence that a decision lets go, named by its bytes.

    Attributes:
        sha256: of the very bytes that may leave: the redacted crop's, where the mode is `redacted`.
        bytes: their number.
    """

    mode: EvidenceMode
    name: Annotated[str, Field(pattern=r"^[0-9a-zA-Z][0-9a-zA-Z._-]{0,127}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=1)]


class DecisionReceipt(WireRecord):
    """Who decided what about which event, by which policy, and why.

    Attributes:
        id: of the decision, a UUIDv7; for a decision to send also the delivery key.
        event, revision: what was decided about.
        data_class: as decided upon; a redaction does not lower it.
        permit: name of the permit that matched, or None.
        recipients: who may have it; empty unless it is sent.
        evidence: what may leave beside the event; None is nothing.
        policy: digest of the policy file that was in force; None where there was none to read.
        by: name of the person, for a decision made by one.
        note: that person's reason in words.
    """

    id: Identifier
    event: Identifier
    revision: Annotated[int, Field(ge=1)]
    decision: DecisionKind
    reasons: Annotated[tuple[Reason, ...], Field(min_length=1, max_length=16)]
    rule: Identifier
    camera: Identifier
    severity: Severity
    data_class: DataClass
    permit: Annotated[str, Field(max_length=64)] | None = None
    recipients: Annotated[tuple[RecipientName, ...], Field(max_length=16)] = ()
    purpose: Purpose | None = None
    evidence: EvidenceGrant | None = None
    policy: Digest | None = None
    at: EventTime
    by: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    note: Annotated[str, Field(min_length=1, max_length=200)] | None = None
