"""The size cap of an event: what it can come to, and how its free text is shortened to fit."""

from edge_runtime.events.origin import Origin
from edge_runtime.protocol import (
    Box,
    EventRecord,
    EventState,
    EventTime,
    EvidenceRef,
    encode_event,
)

ELLIPSIS = "…"
_ELLIPSIS_BYTES = len(ELLIPSIS.encode())

WIDEST_INT = 10**10 - 1
"""Sequence, track and count stay below this: a camera at 30 frames per second for ten years."""


def one_line(text: str, limit: int) -> str | None:
    """Text fit for a record: valid Unicode on one line, at most `limit` characters; None when nothing is left."""
    valid = text.encode("utf-8", "replace").decode()
    line = " ".join("".join(char if char.isprintable() else " " for char in valid).split())
    if len(line) > limit:
        line = line[: limit - 1].rstrip() + ELLIPSIS
    return line or None


def fit(record: EventRecord, max_bytes: int) -> EventRecord:
    """The record with its free text (reason, then label) shortened until it is at most `max_bytes` long.

    Raises:
        EventTooLarge: it is longer even without free text.
    """
    for name in ("reason", "label"):
        excess = _length(record) - max_bytes
        if excess <= 0:
            return record
        text: str | None = getattr(record, name)
        if text is not None:
            # A character takes at least a byte, so dropping as many as there are bytes too many is enough.
            kept = text[: max(0, len(text) - excess - _ELLIPSIS_BYTES)].rstrip()
            record = record.model_copy(update={name: kept + ELLIPSIS if kept else None})
    encode_event(record, max_bytes)
    return record


def largest_size(origin: Origin, *, camera: str, model: str | None, config: str, boot_id: str) -> int:
    """Bytes of the largest event of an origin without free text, every number at its widest."""
    instant = EventTime(
        monotonic_ns=10**18 - 1,  # 31 years since boot
        media_s=1_234_567_890.123456,
        wall="2026-01-01T00:00:00.000Z",
        synced=False,
        boot_id=boot_id,
    )
    about_camera = origin.rule.startswith("@")
    return _length(
        EventRecord(
            id="0" * 36,
            revision=WIDEST_INT,
            state=EventState.INTERRUPTED,
            kind=max((*origin.kinds, "rate_capped"), key=len),
            rule=origin.rule,
            camera=camera,
            epoch=WIDEST_INT,
            sequence=WIDEST_INT,
            severity=origin.severity,
            data_class=origin.data_class,
            started=instant,
            at=instant,
            deadline_ms=origin.deadline_ms,
            latency_ms=1_234_567_890.123,
            late=False,
            ttl_s=origin.ttl_s,
            track=None if about_camera else WIDEST_INT,
            confidence=None if about_camera else 0.1234,
            box=None if about_camera else Box(x1=12345.67, y1=12345.67, x2=12345.67, y2=12345.67),
            direction=None if about_camera else "left_to_right",
            count=WIDEST_INT,
            duration_s=1_234_567_890.123,
            evidence=EvidenceRef(name="0" * 33, sha256="0" * 64, bytes=4 * 1024 * 1024)
            if origin.evidence
            else None,
            model=model,
            config=config,
        )
    )


def _length(record: EventRecord) -> int:
    return len(record.model_dump_json(exclude_none=True).encode())
