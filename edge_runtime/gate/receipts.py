"""The receipt of a decision, and the event as it may leave: neither says more than it must."""

import uuid

from edge_runtime.clock import Clock
from edge_runtime.policy import Decision
from edge_runtime.protocol import DecisionKind, EventRecord, EventTime, EvidenceMode, EvidenceRef, uuid7
from edge_runtime.protocol.decision import DecisionReceipt, EvidenceGrant
from edge_runtime.protocol.delivery import ApprovedEvent


def receipt_of(
    decision: Decision,
    event: EventRecord,
    clock: Clock,
    *,
    grant: EvidenceGrant | None = None,
    by: str | None = None,
    note: str | None = None,
) -> DecisionReceipt:
    """What is kept of a decision: names, classes and digests, never a label, a text or a picture.

    Args:
        decision: as made, by policy or by a person.
        event: that it is about.
        clock: says when.
        grant: the evidence that may leave.
        by: name of the person who decided.
        note: that person's reason.
    """
    wall = clock.wall()
    return DecisionReceipt(
        id=uuid7(wall.unix_ns),
        event=event.id,
        revision=event.revision,
        decision=decision.kind,
        reasons=decision.reasons[:16],
        rule=event.rule,
        camera=event.camera,
        severity=event.severity,
        data_class=decision.data_class,
        permit=decision.permit,
        recipients=decision.recipients if decision.kind is DecisionKind.SEND else (),
        purpose=decision.purpose,
        evidence=grant,
        policy=decision.policy,
        at=EventTime(
            monotonic_ns=clock.monotonic_ns(),
            media_s=event.at.media_s,
            wall=wall.isoformat(),
            synced=wall.synced,
            boot_id=wall.boot_id,
        ),
        by=by,
        note=note,
    )


def grant_of(mode: EvidenceMode, sha256: str, size: int) -> EvidenceGrant:
    """Evidence that may leave, named by its bytes: the name of its file could say what it shows."""
    return EvidenceGrant(mode=mode, name=f"{sha256}.jpg", sha256=sha256, bytes=size)


def key_of(receipt: DecisionReceipt) -> bytes:
    """The receipt's id as the 16 bytes of a delivery key."""
    return uuid.UUID(receipt.id).bytes


def approved_body(event: EventRecord, receipt: DecisionReceipt) -> bytes:
    """The event with its decision as it travels. It names only the evidence that may leave with it.

    Raises:
        WireError: it is longer than a payload may be.
    """
    grant = receipt.evidence
    ref = None if grant is None else EvidenceRef(name=grant.name, sha256=grant.sha256, bytes=grant.bytes)
    leaving = event.model_copy(update={"evidence": ref, "data_class": receipt.data_class})
    return ApprovedEvent(event=leaving, decision=receipt).encode(compress=False)


def held_body(event: EventRecord, receipt: DecisionReceipt) -> bytes:
    """The event as it waits for a person, evidence and all.

    Raises:
        WireError: it is longer than a payload may be.
    """
    return ApprovedEvent(event=event, decision=receipt).encode(compress=False)
