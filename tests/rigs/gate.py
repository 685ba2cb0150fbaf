"""What a gate needs around it: events, crops in a ring, policy files, and an outbox whose process can be away."""

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from edge_runtime.clock import Clock
from edge_runtime.outbox import NotAccepted, OutboxUnavailable, Put, PutResult, Submission
from edge_runtime.protocol import DecisionKind, EventRecord, EvidenceRef
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent
from tests.rigs.events import CONFIG, MODEL

POLICY = """\
name: site
recipients:
  fleet: {place: organisation, accepts: [public, internal], purposes: [safety]}
permits:
  - name: alerts
    when: {classes: [internal], severity_at_least: warning}
    to: [fleet]
    purpose: safety
    evidence: redacted
keep:
  - {rules: ["heartbeat*"]}
remote_review: {classes: [internal]}
"""


def event(clock: Clock, **changes: Any) -> EventRecord:
    """An event of class internal and severity warning, captured just now."""
    wall = clock.wall()
    at = {
        "monotonic_ns": clock.monotonic_ns(),
        "media_s": 1.5,
        "wall": wall.isoformat(),
        "synced": wall.synced,
        "boot_id": wall.boot_id,
    }
    fields: dict[str, Any] = {
        "id": "0190a5d0-0000-7000-8000-000000000001",
        "revision": 1,
        "state": "started",
        "kind": "zone_enter",
        "rule": "fall",
        "camera": "dock-1",
        "epoch": 0,
        "sequence": 7,
        "severity": "warning",
        "data_class": "internal",
        "started": at,
        "at": at,
        "deadline_ms": 1000.0,
        "latency_ms": 12.0,
        "late": False,
        "ttl_s": 3600.0,
        "label": "person",
        "track": 1,
        "confidence": 0.9,
        "model": MODEL,
        "config": CONFIG,
    }
    return EventRecord.model_validate({**fields, **changes})


def jpeg(seed: int = 0, width: int = 96, height: int = 64) -> bytes:
    """A crop full of detail."""
    rng = np.random.default_rng(seed)
    done, data = cv2.imencode(".jpg", rng.integers(0, 256, (height, width, 3), np.uint8))
    assert done
    return bytes(data.tobytes())


def put_crop(ring: Path, data: bytes, name: str = "000000000001-0123456789abcdef.jpg") -> EvidenceRef:
    """A crop in a ring's folder."""
    ring.mkdir(exist_ok=True)
    (ring / name).write_bytes(data)
    return EvidenceRef(name=name, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


class PortOutbox:
    """The gate's port with a switch: away, draining, full, or refusing one event; it remembers keys."""

    def __init__(self) -> None:
        self.away = False
        self.answer: PutResult | None = None
        self.poison: bytes | None = None
        self.poison_error: Exception = ValueError("poison")
        self.submissions: list[Submission] = []
        self.lost: Counter[str] = Counter()
        self.calls = 0
        self.called = threading.Event()
        self._keys: set[bytes] = set()

    def put(self, submissions: Sequence[Submission]) -> list[PutResult]:
        self.calls += 1
        self.called.set()
        if self.away:
            raise OutboxUnavailable("away")
        if self.poison is not None and any(self.poison in item.body for item in submissions):
            raise self.poison_error
        return [self._take(item) for item in submissions]

    def decisions(self, limit: int, skip: int = 0) -> list[bytes]:
        self.called.set()
        if self.away:
            raise OutboxUnavailable("away")
        return [item.receipt for item in reversed(self.submissions)][skip : skip + limit]

    def count_not_accepted(self, reason: NotAccepted, count: int) -> None:
        if self.away:
            raise OutboxUnavailable("away")
        self.lost[reason.value] += count

    def _take(self, item: Submission) -> PutResult:
        if self.answer is not None:
            return self.answer
        if item.key in self._keys:
            return PutResult(Put.DUPLICATE)
        self._keys.add(item.key)
        self.submissions.append(item)
        return PutResult(Put.ACCEPTED)

    def kinds(self) -> Counter[DecisionKind]:
        return Counter(item.kind for item in self.submissions)

    def receipts(self) -> list[DecisionReceipt]:
        return [DecisionReceipt.decode(item.receipt) for item in self.submissions]

    def sent(self) -> list[ApprovedEvent]:
        return [
            ApprovedEvent.decode(item.body) for item in self.submissions if item.kind is DecisionKind.SEND
        ]
