"""Reads recordings: also one whose process was killed, whose disk was full, or whose oldest part was dropped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from edge_runtime.monitor.flight import Damage, FlightRecord, read_flight
from edge_runtime.recording.errors import RecordingError
from edge_runtime.recording.folder import LONGEST_LINE, parts_in
from edge_runtime.recording.head import HEAD, Head, Stream


@dataclass
class Standing:
    """What one reading of a part found.

    Attributes:
        records: that could be read, without the one that says how it ended.
        first_ns, last_ns: CLOCK_MONOTONIC of the first and the last of them; None where there is none.
        begins: number of the first one; more than 0 where the beginning was dropped.
        missing: records that are not there, by their numbers, beside the beginning.
        damaged: torn or damaged lines, and records that are not what they should be.
        unread: files that could not be read, and why.
        why: how it ended, as `Ending.why`; `cut` where nothing says it: the process was killed.
        text: the same as a sentence.
        lost: what could not be recorded, by cause.
    """

    records: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    begins: int = 0
    missing: int = 0
    damaged: int = 0
    unread: list[str] = field(default_factory=list)
    why: str = "cut"
    text: str = "nothing says how it ended: its process was killed, or lost power"
    lost: Mapping[str, int] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether nothing is missing between its first and its last record."""
        return not (self.begins or self.missing or self.damaged or self.unread)

    @property
    def seconds(self) -> float:
        """From the first to the last record."""
        if self.first_ns is None or self.last_ns is None:
            return 0.0
        return (self.last_ns - self.first_ns) / NS_PER_S


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a recording.

    Attributes:
        folder: of it.
        head: what it says of itself.
    """

    folder: Path
    head: Head

    @classmethod
    def read(cls, folder: Path) -> "Part":
        """A part by its folder.

        Raises:
            RecordingError: it is none, or of another major version.
        """
        return cls(folder, Head.read(folder))

    def records(self, standing: Standing) -> Iterator[FlightRecord]:
        """All records in their order, without the one that says how it ended.

        Args:
            standing: fresh; told what was found, complete when the last record was given.
        """
        damage = Damage()
        expected: int | None = None
        for record in read_flight(self.folder, damage, LONGEST_LINE):
            number = record.fields.get("n")
            if type(number) is not int or number < (expected or 0):
                standing.damaged += 1
                continue
            if expected is None:
                standing.begins = number
            else:
                standing.missing += number - expected
            expected = number + 1
            if record.kind == "end":
                _note_end(record, standing)
                continue
            standing.records += 1
            standing.first_ns = record.at_ns if standing.first_ns is None else standing.first_ns
            standing.last_ns = record.at_ns
            yield record
        standing.damaged += damage.lines
        standing.unread += damage.files
        if not standing.records and (standing.damaged or standing.unread):
            why = standing.unread[0] if standing.unread else "every line is damaged"
            raise RecordingError(f"nothing in {self.folder} can be read: {why}")


def open_recording(path: Path) -> list[Part]:
    """The parts of a recording: those of the cameras first, each stream's in their order.

    Args:
        path: folder of a recording, or of one of its parts.

    Raises:
        RecordingError: there is none, it cannot be read, or another major version wrote it.
    """
    if not path.is_dir():
        said = "is no folder" if path.exists() else "is not there"
        raise RecordingError(f"{path} {said}: name the folder of a recording")
    if (path / HEAD).exists():
        return [Part.read(path)]
    folders = [folder for folder in parts_in(path) if (folder / HEAD).exists()]
    if not folders:
        raise RecordingError(
            f"{path} holds no recording: it has no {HEAD}; name a folder that `edge-runtime record` has written"
        )
    parts = [Part.read(folder) for folder in folders]
    return sorted(parts, key=lambda part: part.head.stream is not Stream.CAMERAS)


def _note_end(record: FlightRecord, standing: Standing) -> None:
    lost = record.fields.get("lost")
    standing.why = str(record.fields.get("why", "cut"))
    standing.text = str(record.fields.get("text", ""))
    standing.lost = {str(name): number for name, number in lost.items()} if isinstance(lost, Mapping) else {}
