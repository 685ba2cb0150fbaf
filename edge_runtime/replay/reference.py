"""Files of events: read as a reference, written as what came of a replay."""

import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from edge_runtime.durable import write_file
from edge_runtime.protocol import EventRecord, encode_event
from edge_runtime.recording import RecordingError

LONGEST = 131_072
"""No event is longer than half of this (`events.max_bytes`)."""

MOST_BYTES = 1 << 30


def read_events(path: Path) -> list[EventRecord]:
    """The events of a file with one JSON object a line.

    Raises:
        RecordingError: it cannot be read, or a line is no event.
    """
    found = []
    try:
        if path.stat().st_size > MOST_BYTES:
            raise RecordingError(f"{path} is larger than {MOST_BYTES >> 30} GiB: compare a part of it")
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    found.append(_event(path, number, line))
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from None
    return found


def encoded(events: Iterable[EventRecord]) -> bytes:
    """Events as lines."""
    return b"".join(encode_event(event, LONGEST) + b"\n" for event in events)


def write_events(target: str, events: Iterable[EventRecord]) -> None:
    """Write events to a file, whole or not at all; to standard output for `-`.

    Raises:
        RecordingError: they cannot be written.
    """
    if target == "-":
        sys.stdout.write(encoded(events).decode())
        return
    try:
        write_file(target, encoded(events))
    except OSError as error:
        raise RecordingError(f"{target} cannot be written: {error.strerror}") from None


def _event(path: Path, number: int, line: bytes) -> EventRecord:
    try:
        return EventRecord.model_validate_json(line)
    except ValidationError:
        raise RecordingError(
            f"{path}: line {number} is no event: name a file that --events has written"
        ) from None
