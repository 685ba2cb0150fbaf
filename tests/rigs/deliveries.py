"""A device's side of delivery for tests of the server: events, bundles, outcomes and what it believes of them."""

import uuid
from collections.abc import Sequence
from typing import Any

from edge_runtime.clock import WallLabel
from edge_runtime.protocol.decision import DecisionReceipt, EvidenceGrant
from edge_runtime.protocol.delivery import (
    ApprovedEvent,
    BundleItem,
    EventBundle,
    Ledger,
    OutcomeRange,
    Outcomes,
    Presence,
    PresenceState,
    Sync,
)
from edge_runtime.protocol.event import EventRecord, EventTime
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.vocabulary import Fate
from fleet_server.ingest import Arrival

WALL_MS = 1_790_000_000_000
_TIME = EventTime(monotonic_ns=1, media_s=0.5, wall="2026-09-21T13:46:40.250Z", synced=True, boot_id="boot-1")
AT_MS = 1_789_998_400_250


class FakeClock:
    """A clock that moves when told.

    Attributes:
        now_ns: on the monotonic clock.
        wall_ms: milliseconds since 1970.
    """

    def __init__(self) -> None:
        self.now_ns = 10**12
        self.wall_ms = WALL_MS
        self.synced = True

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def wall(self) -> WallLabel:
        return WallLabel(self.wall_ms * 1_000_000, self.synced, "boot-server")

    def advance(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)
        self.wall_ms += int(seconds * 1000)


def new_key() -> bytes:
    """A delivery key."""
    return uuid.UUID(uuid7(WALL_MS * 1_000_000)).bytes


def event_record(**changes: Any) -> EventRecord:
    """An event."""
    values: dict[str, Any] = {
        "id": uuid7(WALL_MS * 1_000_000),
        "revision": 1,
        "state": "started",
        "kind": "zone.entered",
        "rule": "dock-watch",
        "camera": "dock-1",
        "epoch": 1,
        "sequence": 7,
        "severity": "warning",
        "data_class": "internal",
        "started": _TIME,
        "at": _TIME,
        "deadline_ms": 500,
        "latency_ms": 20,
        "late": False,
        "ttl_s": 3600,
        "label": "person",
        "confidence": 0.75,
        "config": "sha256:" + "0" * 64,
    }
    return EventRecord.model_validate(values | changes)


def decision_for(record: EventRecord, key: bytes, **changes: Any) -> DecisionReceipt:
    """The decision that lets an event go to the fleet."""
    values: dict[str, Any] = {
        "id": str(uuid.UUID(bytes=key)),
        "event": record.id,
        "revision": record.revision,
        "decision": "send",
        "reasons": ("permitted",),
        "rule": record.rule,
        "camera": record.camera,
        "severity": record.severity,
        "data_class": record.data_class,
        "permit": "safety-alerts",
        "recipients": ("fleet",),
        "purpose": "safety",
        "policy": "sha256:" + "1" * 64,
        "at": _TIME,
    }
    return DecisionReceipt.model_validate(values | changes)


def grant(sha256: str, size: int) -> EvidenceGrant:
    """Evidence that a decision lets go."""
    return EvidenceGrant.model_validate(
        {"mode": "redacted", "name": "crop.jpg", "sha256": sha256, "bytes": size}
    )


class DeviceRig:
    """A device with one outbox file.

    Attributes:
        name: its id.
        epoch: of the outbox file.
        next: sequence number of the next item.
    """

    def __init__(self, name: str = "dev-1", epoch: str | None = None) -> None:
        self.name = name
        self.epoch = epoch or uuid7(WALL_MS * 1_000_000)
        self.next = 1

    def item(
        self,
        *,
        seq: int | None = None,
        key: bytes | None = None,
        body: bytes | None = None,
        left_ms: int = 3_600_000,
        deadline_ms: int | None = None,
        event: dict[str, Any] | None = None,
        decision: dict[str, Any] | None = None,
    ) -> BundleItem:
        """One event on its way; what is not said is as it should be."""
        key = key or new_key()
        if body is None:
            record = event_record(**(event or {}))
            approved = ApprovedEvent(event=record, decision=decision_for(record, key, **(decision or {})))
            body = approved.encode(compress=False)
        if seq is None:
            seq, self.next = self.next, self.next + 1
        return BundleItem(key=key, seq=seq, left_ms=left_ms, deadline_ms=deadline_ms, body=body)

    def items(self, count: int) -> list[BundleItem]:
        """Several events in order."""
        return [self.item() for _ in range(count)]

    def bundle(self, *items: BundleItem) -> tuple[str, bytes]:
        """Topic and payload of a bundle."""
        record = EventBundle(device=self.name, epoch=self.epoch, items=tuple(items))
        return self.topic(Channel.EVENTS_WARNING), record.encode()

    def outcomes(self, *ranges: tuple[int, int, Fate], ledger: Ledger | None = None) -> tuple[str, bytes]:
        """Topic and payload of given-up numbers."""
        found = tuple(OutcomeRange(first=first, last=last, fate=fate) for first, last, fate in ranges)
        record = Outcomes(device=self.name, epoch=self.epoch, ranges=found, ledger=ledger or Ledger())
        return self.topic(Channel.OUTCOME), record.encode()

    def sync(self, lowest: int, ledger: Ledger | None = None) -> tuple[str, bytes]:
        """Topic and payload of a sync."""
        record = Sync(
            device=self.name,
            epoch=self.epoch,
            lowest=lowest,
            next=max(lowest, self.next),
            ledger=ledger or Ledger(),
        )
        return self.topic(Channel.SYNC), record.encode()

    def presence(self, session: int, state: PresenceState = PresenceState.ONLINE) -> tuple[str, bytes]:
        """Topic and payload of a birth or a will."""
        record = Presence(
            device=self.name,
            session=session,
            state=state,
            boot_id="boot-1",
            runtime="1.0",
            reason="connected" if state is PresenceState.ONLINE else "connection_lost",
        )
        return self.topic(Channel.PRESENCE), record.encode()

    def topic(self, channel: Channel) -> str:
        """One of its topics."""
        return str(Topic(self.name, channel))


def arrivals(clock: FakeClock, *messages: tuple[str, bytes]) -> Sequence[Arrival]:
    """Messages that came just now."""
    return [Arrival(topic, payload, clock.monotonic_ns()) for topic, payload in messages]
