"""The event record: what a rule says happened, bounded in size, with its lifecycle and deadlines.

One id per happening; revisions replace each other. The same (id, revision) seen twice is one event. Raw
images never travel inside an event: evidence is a reference to a bounded crop on the device.
"""

from enum import Enum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.protocol.vocabulary import DataClass, Severity

MAX_EVENT_BYTES = 4096
"""Default hard cap on one encoded event, in bytes."""

Identifier = Annotated[str, Field(min_length=1, max_length=128)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class EventTooLarge(ValueError):
    """An event would exceed its size cap; it is refused when built, never cut."""


class EventState(str, Enum):
    """Where in its life a happening is; `interrupted` ends one whose observation stopped."""

    STARTED = "started"
    UPDATED = "updated"
    ENDED = "ended"
    INTERRUPTED = "interrupted"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Box(_Record):
    """A box in source pixels after rotation, x right and y down."""

    x1: float
    y1: float
    x2: float
    y2: float


class EventTime(_Record):
    """One instant on three clocks.

    Attributes:
        monotonic_ns: CLOCK_MONOTONIC of the frame's capture; comparable within `boot_id` only.
        media_s: seconds on the source's own timeline since its epoch began.
        wall: ISO 8601 label in UTC; trust it only when `synced`.
    """

    monotonic_ns: int
    media_s: float
    wall: str
    synced: bool
    boot_id: str


class EvidenceRef(_Record):
    """A bounded crop that stays on the device until a decision lets it go."""

    name: Identifier
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=0)]
    media_type: Literal["image/jpeg"] = "image/jpeg"


class EventRecord(_Record):
    """One revision of one happening.

    Attributes:
        late: the event left the rules after its deadline; it is recorded and must not be acted on.
        deadline_ms: from capture to event, as the rule states it.
        latency_ms: from capture to event, as measured on the monotonic clock.
        ttl_s: after this long since capture the event is dropped by consumers and counted.
        count: what the rule counted: occupants, crossings in the window, or suppressed events in a summary.
    """

    v: Literal[1] = 1
    id: Identifier
    revision: Annotated[int, Field(ge=1)]
    state: EventState
    kind: Identifier
    rule: Identifier
    camera: Identifier
    epoch: Annotated[int, Field(ge=0)]
    sequence: Annotated[int, Field(ge=0)]
    severity: Severity
    data_class: DataClass
    started: EventTime
    at: EventTime
    deadline_ms: Annotated[float, Field(gt=0)]
    latency_ms: Annotated[float, Field(ge=0)]
    late: bool
    ttl_s: Annotated[float, Field(gt=0)]
    label: Annotated[str, Field(max_length=64)] | None = None
    track: Annotated[int, Field(ge=1)] | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    box: Box | None = None
    direction: Annotated[str, Field(max_length=32)] | None = None
    count: Annotated[int, Field(ge=0)] | None = None
    duration_s: Annotated[float, Field(ge=0)] | None = None
    reason: Annotated[str, Field(max_length=256)] | None = None
    evidence: EvidenceRef | None = None
    model: Digest | None = None
    config: Digest


def encode_event(event: EventRecord, max_bytes: int = MAX_EVENT_BYTES) -> bytes:
    """The event as one line of compact JSON without the line break.

    Raises:
        EventTooLarge: the encoded form is longer than `max_bytes`.
    """
    data = event.model_dump_json(exclude_none=True).encode()
    if len(data) > max_bytes:
        raise EventTooLarge(f"event of rule {event.rule} is {len(data)} bytes; the cap is {max_bytes}")
    return data
