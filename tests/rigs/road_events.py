"""Events that the whole road accepts: approved for the server, in bundles as large as one likes."""

import uuid

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.outbox import Submission
from edge_runtime.protocol import DecisionKind, Severity, uuid7
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent
from tests.rigs.gate import event

CONFIGURATION = """
models: {m: {package: nowhere}}
cameras:
  one: {model: m, data_class: internal, source: {kind: synthetic}, rules: [{kind: occupancy, name: r}]}
delivery:
  state: "{state}"
  uplink: {broker: {host: 127.0.0.1, port: {broker_port}}}
"""
"""Of a device without cameras that work: its uplink needs the delivery section alone."""

_TTL_NS = 3600 * NS_PER_S


def submissions(count: int, severity: Severity = Severity.NOTICE) -> list[Submission]:
    """New events with decisions that the server accepts."""
    return [_submission(severity) for _ in range(count)]


def _submission(severity: Severity) -> Submission:
    clock = SystemClock()
    key = uuid.UUID(uuid7(clock.wall().unix_ns))
    seen = event(clock, id=uuid7(clock.wall().unix_ns), severity=severity)
    decision = DecisionReceipt.model_validate(
        {
            "id": str(key),
            "event": seen.id,
            "revision": seen.revision,
            "decision": "send",
            "reasons": ["permitted"],
            "rule": seen.rule,
            "camera": seen.camera,
            "severity": severity,
            "data_class": seen.data_class,
            "recipients": ["fleet"],
            "purpose": "operations",
            "at": seen.at,
        }
    )
    body = ApprovedEvent(event=seen, decision=decision).encode(compress=False)
    receipt = decision.encode(compress=False)
    return Submission(key.bytes, DecisionKind.SEND, severity.rank, _TTL_NS, body, receipt=receipt)
