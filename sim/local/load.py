"""Events that a policy let go, made by the rig as a gate would make them: a steady load beside the camera's own."""

import uuid

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.outbox import Submission
from edge_runtime.protocol import (
    DataClass,
    DecisionKind,
    EventRecord,
    EventState,
    EventTime,
    Severity,
    uuid7,
)
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent


def approved_event(clock: Clock, ttl_s: float) -> Submission:
    """One event of this moment, with the decision that lets it go."""
    wall = clock.wall()
    key = uuid.UUID(uuid7(wall.unix_ns))
    at = EventTime(
        monotonic_ns=clock.monotonic_ns(),
        media_s=0.0,
        wall=wall.isoformat(),
        synced=wall.synced,
        boot_id=wall.boot_id,
    )
    event = EventRecord(
        id=uuid7(wall.unix_ns),
        revision=1,
        state=EventState.ENDED,
        kind="load",
        rule="load",
        camera="front",
        epoch=0,
        sequence=0,
        severity=Severity.NOTICE,
        data_class=DataClass.PUBLIC,
        started=at,
        at=at,
        deadline_ms=1000.0,
        latency_ms=0.0,
        late=False,
        ttl_s=ttl_s,
        reason="a steady load",
        config="sha256:" + "0" * 64,
    )
    decision = DecisionReceipt.model_validate(
        {
            "id": str(key),
            "event": event.id,
            "revision": event.revision,
            "decision": "send",
            "reasons": ["permitted"],
            "rule": event.rule,
            "camera": event.camera,
            "severity": event.severity,
            "data_class": event.data_class,
            "recipients": ["fleet"],
            "purpose": "operations",
            "at": event.at,
        }
    )
    body = ApprovedEvent(event=event, decision=decision).encode(compress=False)
    return Submission(
        key.bytes,
        DecisionKind.SEND,
        event.severity.rank,
        round(ttl_s * NS_PER_S),
        body,
        receipt=decision.encode(compress=False),
    )
