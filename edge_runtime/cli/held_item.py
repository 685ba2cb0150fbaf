"""One held item as a block that a person can read at the device."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edge_runtime.cli.report import short_time
from edge_runtime.policy import sentence

if TYPE_CHECKING:
    from edge_runtime.gate.review import HeldContent
    from edge_runtime.protocol import EventRecord, EventTime


def held_lines(key: str, content: "HeldContent", crop: str | None) -> Iterator[str]:
    """A line for each thing to know before deciding: why it is held, what happened, and where its crop lies.

    Args:
        key: its name in `gate release` and `gate drop`.
        content: of the item.
        crop: path of its crop, or None.
    """
    size = "" if content.crop is None else f"  ({content.crop.bytes:,} bytes)"
    rows = [
        ("item", key),
        ("expires", f"in {short_time(content.left_ms)}"),
        *(("held", sentence(reason)) for reason in content.receipt.reasons),
        *_rows(content.event),
        ("crop", f"{crop}{size}" if crop is not None else "none"),
    ]
    for name, value in rows:
        yield f"{name:<11} {value}"


def _rows(event: "EventRecord") -> Iterator[tuple[str, str]]:
    yield (
        "event",
        f"{event.id} revision {event.revision}, {event.state.value}{' too late' if event.late else ''}",
    )
    yield "rule", f"{event.rule} ({event.kind}) on camera {event.camera}"
    yield "severity", event.severity.value
    yield "data_class", event.data_class.value
    yield "happened", _instant(event.at)
    if event.started != event.at:
        yield "since", _instant(event.started)
    seen = [
        "" if event.label is None else event.label,
        "" if event.confidence is None else f"with {event.confidence:.0%} confidence",
        "" if event.track is None else f"as track {event.track}",
    ]
    if any(seen):
        yield "seen", " ".join(part for part in seen if part)
    if event.box is not None:
        box = event.box
        yield "box", f"{box.x1:.0f},{box.y1:.0f} to {box.x2:.0f},{box.y2:.0f} pixels"
    for name, value in (
        ("direction", event.direction),
        ("count", event.count),
        ("lasted", None if event.duration_s is None else f"{event.duration_s:.1f} s"),
        ("reason", event.reason),
        ("model", event.model),
    ):
        if value is not None:
            yield name, str(value)
    yield "config", event.config


def _instant(time: "EventTime") -> str:
    doubt = "" if time.synced else ", by a clock that was not synchronised"
    return f"{time.wall}{doubt}"
