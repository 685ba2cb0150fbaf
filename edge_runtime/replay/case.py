"""A field problem as a test: a small folder with the recording and the events that are expected of it.

Boxes, times, readings, and names of cameras and rules are in it. What a camera said of itself, which may name its
address, and who did what at the device are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.durable import staged_directory, write_file
from edge_runtime.monitor.flight import FlightRecord, FlightWriter, encode_record
from edge_runtime.protocol import EventRecord
from edge_runtime.recording import Part, RecordingError, Standing, open_recording
from edge_runtime.recording.configuration import needed
from edge_runtime.recording.folder import LONGEST_LINE, require_fresh
from edge_runtime.replay.diff import Difference, Tolerance, compare
from edge_runtime.replay.player import Component, Replayed, Wish, cut, replay
from edge_runtime.replay.reference import encoded, read_events

EXPECTED = "expected.{component}.ndjson"
"""The file of the events; its name says of which component."""

NOTE = "README.md"

_EXACTLY = Tolerance(frozenset())
_OUTCOMES = frozenset({"event"})
"""Kinds of records that are no inputs."""

_WITHOUT = frozenset({"picture"})
"""Fields that a case does not keep."""

_SENTENCES = ("error", "text")
"""Fields with what a camera or its driver said: it may name an address or a file."""

_OF_CAMERAS = frozenset({"frame", "source"})

_PEOPLE = frozenset({"by", "note"})
"""Fields of the flight recorder with who did something, and what they wrote."""

_DEVICE = "recorded"


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a case.

    Attributes:
        replayed: the replay.
        same: whether its events are those that are expected, byte by byte.
        differences: what differs; may be empty where only the order does.
    """

    replayed: Replayed
    same: bool
    differences: tuple[Difference, ...]


def write_case(target: Path, replayed: Replayed, wish: Wish, note: str) -> None:
    """Make a folder that `check_case` can read: what was replayed, and what came of it.

    Args:
        target: folder that is not there, or empty.
        replayed: from the recording.
        wish: with which it was replayed; its configuration goes into the folder.
        note: what it shows, for whoever reads it later.

    Raises:
        RecordingError: the folder is not empty, or what was written does not give the same events.
        OSError: it cannot be written.
    """
    if wish.component is Component.PERCEPTION:
        raise RecordingError("a test holds no frames: make it of what was seen in them, with --part rules")
    require_fresh(target)
    with staged_directory(target) as staged:
        for number, (part, _) in enumerate(replayed.standings, start=1):
            name = f"{part.head.stream.value}-{number:06d}"
            _copy(part, staged / name, wish, replayed.base_ns)
        told = replay(open_recording(staged), Wish(component=wish.component)).events
        write_file(staged / _expected(wish.component), encoded(told))
        write_file(staged / NOTE, f"{note.strip()}\n".encode())
        if _without_reasons(told) != _without_reasons(replayed.events):
            raise RecordingError(
                "what was cut out gives other events than the recording: cut it elsewhere, with --from"
            )


def check_case(folder: Path) -> Checked:
    """Replay a case, and hold its events against those that are expected.

    Args:
        folder: from `write_case`.

    Raises:
        RecordingError: the folder is no case, or cannot be read.
    """
    component = component_of(folder)
    if component is None:
        raise RecordingError(f"{folder} says nothing of what is expected: make it with `replay --as-test`")
    replayed = replay(open_recording(folder), Wish(component=component))
    return checked(replayed, expected_events(folder, component))


def expected_events(folder: Path, component: Component) -> list[EventRecord]:
    """What a case expects.

    Raises:
        RecordingError: the file cannot be read.
    """
    return read_events(folder / _expected(component))


def checked(replayed: Replayed, expected: Sequence[EventRecord]) -> Checked:
    """Hold events against those that are expected, byte by byte."""
    same = encoded(replayed.events) == encoded(expected)
    differences = [] if same else compare(expected, replayed.events, _EXACTLY)
    return Checked(replayed, same, tuple(differences))


def component_of(folder: Path) -> Component | None:
    """Of which component a folder says what is expected; None where it is no case."""
    return next((one for one in Component if (folder / _expected(one)).is_file()), None)


def _expected(component: Component) -> str:
    return EXPECTED.format(component=component.value)


def _copy(part: Part, folder: Path, wish: Wish, base_ns: int) -> None:
    """The inputs of a part, numbered anew, with what replaying needs of the configuration."""
    folder.mkdir()
    head = part.head
    facts = needed(wish.config or head.config)
    cameras = {name: camera.model_copy(update={"pictures": False}) for name, camera in head.cameras.items()}
    changed = {"device": _DEVICE, "config": facts, "cameras": cameras}
    head.model_copy(update=changed).write(folder)
    writer = FlightWriter(folder, 1 << 40, drops_oldest=False)
    lines: list[bytes] = []
    standing = Standing()
    for record in cut(part, standing, wish, base_ns):
        if record.kind not in _OUTCOMES:
            lines.append(encode_record(_numbered(record, len(lines)), LONGEST_LINE))
    if writer.append(lines) < len(lines):
        raise RecordingError(f"{folder} cannot be written: {writer.error}")
    writer.sync()
    writer.close()


def _without_reasons(events: Sequence[EventRecord]) -> bytes:
    """Events without the sentences of cameras, which a case does not keep."""
    return encoded([event.model_copy(update={"reason": None}) for event in events])


def kept_fields(record: FlightRecord) -> dict[str, Any]:
    """What a case keeps of a record: no pictures, no sentences of cameras, no names and notes of people."""
    kept = {name: value for name, value in record.fields.items() if name not in _WITHOUT}
    for name in _SENTENCES if record.kind in _OF_CAMERAS else ():
        if kept.get(name):
            kept[name] = ""
    flight = kept.get("record")
    if isinstance(flight, dict):
        kept["record"] = {name: value for name, value in flight.items() if name not in _PEOPLE}
    return kept


def _numbered(record: FlightRecord, number: int) -> FlightRecord:
    kept = kept_fields(record)
    return FlightRecord(
        record.kind, record.at_ns, record.wall_ms, record.synced, record.boot, {**kept, "n": number}
    )
