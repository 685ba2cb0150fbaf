"""Records of operation: health and link signals up, commands down, what became of them, and held items."""

from enum import Enum
from typing import Annotated

from pydantic import Field

from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import Count, Ledger, Milliseconds
from edge_runtime.protocol.event import Identifier
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.vocabulary import EvidenceMode
from edge_runtime.protocol.wire import WireRecord

Ratio = Annotated[float, Field(ge=0, le=1)]


class LinkSignals(WireRecord):
    """What the link was like lately: exponentially weighted, with the age of the newest sample.

    Attributes:
        round_trip_ms: from a bundle's publication to its receipt; None while unknown.
        loss: share of bundles that needed another attempt; None while unknown.
        bytes_per_s: payload receipted per second of sending; None while unknown.
        age_s: since the newest sample.
    """

    round_trip_ms: Annotated[float, Field(ge=0)] | None = None
    loss: Ratio | None = None
    bytes_per_s: Annotated[float, Field(ge=0)] | None = None
    age_s: Annotated[float, Field(ge=0)] | None = None


class GateCounts(WireRecord):
    """What the gate decided since the device's state was made, and what never reached the outbox.

    Attributes:
        sent: events that the outbox accepted.
        kept: stayed on the device, counted only.
        held: waiting for a person now.
        released, dropped: by a person.
        held_expired: their time ran out before a person decided.
        not_accepted: approved, but the queue or the hand-over was full.
    """

    sent: Count = 0
    kept: Count = 0
    held: Count = 0
    released: Count = 0
    dropped: Count = 0
    held_expired: Count = 0
    not_accepted: Count = 0


class CameraHealth(WireRecord):
    """One camera as the runtime sees it."""

    name: Identifier
    state: Annotated[str, Field(max_length=32)]
    evaluated: Count
    dropped: Count
    age_ms: Annotated[float, Field(ge=0)]


TWO_PLACES = "another client seems to use this device's identity"
"""Sentence of a device's health that the server looks for: somebody has a copy of its key."""


class Health(WireRecord):
    """Sent regularly and on change; the newest replaces the others.

    Attributes:
        degraded: sentences, without content, about what is worse than it should be.
    """

    device: DeviceId
    session: Count
    boot_id: Annotated[str, Field(max_length=64)]
    uptime_s: Annotated[float, Field(ge=0)]
    runtime: Annotated[str, Field(max_length=32)]
    ledger: Ledger
    gate: GateCounts
    link: LinkSignals
    cameras: Annotated[tuple[CameraHealth, ...], Field(max_length=64)] = ()
    degraded: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=16)] = ()


class HeldItem(WireRecord):
    """What waits for a person, without its content.

    Attributes:
        key: its name in a command, hexadecimal.
        left_ms: until it expires.
        bytes: of the event and its evidence together.
    """

    key: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    receipt: DecisionReceipt
    left_ms: Milliseconds
    bytes: Count


class HeldList(WireRecord):
    """The oldest held items that policy lets the fleet operator know of; `total` counts all."""

    device: DeviceId
    total: Count
    items: Annotated[tuple[HeldItem, ...], Field(max_length=100)]


class CommandKind(str, Enum):
    """What the server may ask of a device. A retained message is never a command."""

    RELEASE_HELD = "release_held"
    DROP_HELD = "drop_held"
    REPORT_HELD = "report_held"
    REPORT_HEALTH = "report_health"
    RENEW_CERTIFICATE = "renew_certificate"


class Command(WireRecord):
    """One request to one device.

    Attributes:
        id: UUIDv7; the same id twice is one command, and gets the same result.
        issued_ms, expires_ms: the server's wall clock, milliseconds since 1970. A device whose own clock is not
            synced takes the time from the newest receipt, and without one checks only the difference.
        by: operator who asked.
        item: key of the held item, hexadecimal, for release and drop.
        note: the operator's reason, for release and drop.
        evidence: how much of the crop goes with a release; None is nothing. The device's policy bounds it.
    """

    id: Identifier
    device: DeviceId
    kind: CommandKind
    issued_ms: Milliseconds
    expires_ms: Milliseconds
    by: Annotated[str, Field(min_length=1, max_length=64)]
    item: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    note: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    evidence: EvidenceMode | None = None


class CommandResult(WireRecord):
    """What became of a command."""

    id: Identifier
    device: DeviceId
    done: bool
    text: Annotated[str, Field(max_length=200)]
