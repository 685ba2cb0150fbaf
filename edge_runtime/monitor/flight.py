"""The flight recorder's files: lines of JSON, each behind its CRC-32, in a bounded row of segments.

    3f1c0a9e {"kind":"change","at_ns":…,"wall_ms":…,"synced":true,"boot":"9f3c…", …}

The oldest segment makes room for a new one. Nothing has to be closed: a process that is killed leaves at most a
torn last line, which readers skip and count, and the next one begins a line of its own. People can read it with
`tail`, programs with `edge-runtime recorder dump --json`.
"""

import contextlib
import errno
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from edge_runtime.durable import sync_directory

FLIGHT = "flight"
"""The recorder's folder, in the guard's."""

SEGMENTS = 8
"""The recorder's bytes are divided among so many files."""

LEAST_SEGMENTS = 2
"""On a full disk older segments make room before their time, down to so many."""

LARGEST_LINE = 16 * 1024

_SEGMENT = re.compile(r"(\d{12,30})\.flight")
_CRC_DIGITS = 8


@dataclass(frozen=True, slots=True)
class FlightRecord:
    """One line.

    Attributes:
        kind: what it is about.
        at_ns: CLOCK_MONOTONIC; comparable within `boot` only.
        wall_ms: milliseconds since 1970, a label.
        synced: whether the wall clock was synchronised then.
        boot: the kernel's id of that boot.
        fields: the rest, by kind.
    """

    kind: str
    at_ns: int
    wall_ms: int
    synced: bool
    boot: str
    fields: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        head = {
            "kind": self.kind,
            "at_ns": self.at_ns,
            "wall_ms": self.wall_ms,
            "synced": self.synced,
            "boot": self.boot,
        }
        return head | {name: value for name, value in self.fields.items() if name not in head}


@dataclass
class Damage:
    """What could not be read.

    Attributes:
        lines: torn or damaged ones.
        files: that could not be opened or read to their end; the folder itself, where it cannot be read.
    """

    lines: int = 0
    files: list[str] = field(default_factory=list)


def encode_record(record: FlightRecord, longest: int = LARGEST_LINE) -> bytes:
    """The line of a record, with its line break.

    Raises:
        ValueError: it is longer than `longest` bytes.
    """
    text = json.dumps(record.to_json(), separators=(",", ":"), allow_nan=False).encode()
    line = b"%08x %b\n" % (zlib.crc32(text), text)
    if len(line) > longest:
        raise ValueError(f"a record of kind {record.kind} is {len(line)} bytes; the most is {longest}")
    return line


def decode_line(line: bytes) -> FlightRecord | None:
    """The record of a line without its break; None if it is torn, damaged, or none."""
    head, _, text = line.partition(b" ")
    try:
        if len(head) != _CRC_DIGITS or int(head, 16) != zlib.crc32(text):
            return None
        found = json.loads(text)
        return FlightRecord(
            kind=str(found.pop("kind")),
            at_ns=int(found.pop("at_ns")),
            wall_ms=int(found.pop("wall_ms")),
            synced=bool(found.pop("synced")),
            boot=str(found.pop("boot")),
            fields=found,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def segments(folder: Path) -> list[Path]:
    """The files, oldest first; none where there is no folder.

    Raises:
        OSError: the folder is there, and cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    numbered = [name for name in names if _SEGMENT.fullmatch(name)]
    return [folder / name for name in sorted(numbered, key=lambda name: int(name.partition(".")[0]))]


def read_flight(folder: Path, damage: Damage, longest: int = LARGEST_LINE) -> Iterator[FlightRecord]:
    """All records, oldest first, of a folder that nobody has to have closed.

    Args:
        folder: of the recorder.
        damage: told what could not be read.
        longest: bytes of a line.
    """
    try:
        paths = segments(folder)
    except OSError as error:
        damage.files.append(f"{folder.name}: {error.strerror}")
        return
    for path in paths:
        yield from _records(path, damage, longest)


def _records(path: Path, damage: Damage, longest: int) -> Iterator[FlightRecord]:
    try:
        with path.open("rb") as stream:
            yield from _lines(stream, damage, longest)
    except OSError as error:
        damage.files.append(f"{path.name}: {error.strerror}")


def _lines(stream: BinaryIO, damage: Damage, longest: int) -> Iterator[FlightRecord]:
    while line := stream.readline(longest + 1):
        if line == b"\n":
            continue
        record = decode_line(line.removesuffix(b"\n"))
        if record is None:
            damage.lines += 1
        else:
            yield record


class FlightWriter:
    """The one writer of a folder.

    Args:
        folder: is made where it is missing.
        most_bytes: of all segments together.
        drops_oldest: make room by dropping the oldest segment; without it the caller keeps to the bytes.

    Attributes:
        error: why the last append did not write everything; empty where it did.
    """

    def __init__(self, folder: Path, most_bytes: int, *, drops_oldest: bool = True) -> None:
        self._folder, self._segment_bytes = folder, most_bytes // SEGMENTS
        self._drops_oldest = drops_oldest
        self._fd: int | None = None
        self._size = 0
        self._torn = False
        self.error = ""

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines behind what is there.

        Returns:
            How many of them were written whole; less than all where the disk is full or fails, see `error`.
        """
        self.error = ""
        written = 0
        for line in lines:  # each by itself: after a failure it is known which are there
            if not self._put(line):
                break
            written += 1
        return written

    def sync(self) -> bool:
        """Put what was appended onto the disk; False where that fails, see `error`."""
        if self._fd is None:
            return True
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            self.error = error.strerror or "cannot be synced"
            return False
        return True

    def close(self) -> None:
        """Let the file go."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None

    def _put(self, line: bytes) -> bool:
        while True:
            try:
                if self._fd is None or self._size + len(line) > self._segment_bytes:
                    self._open(len(line))
                self._write(line)
            except OSError as error:
                if error.errno == errno.ENOSPC and self._make_room():
                    continue
                self.error = error.strerror or "cannot be written"
                return False
            return True

    def _write(self, line: bytes) -> None:
        assert self._fd is not None
        data = b"\n" + line if self._torn else line
        done = os.write(self._fd, data)
        if done == len(data):
            self._size, self._torn = self._size + done, False
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._size, self._torn = self._size + done, True
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self, needed: int) -> None:
        """The newest segment if there is room in it, else a new one."""
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700)
            sync_directory(self._folder.parent)
        there = segments(self._folder)
        if self._fd is None and there and there[-1].stat().st_size + needed <= self._segment_bytes:
            self._fd = os.open(there[-1], os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._size = os.fstat(self._fd).st_size
            self._torn = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"
            return
        for old in there[: max(0, len(there) - SEGMENTS + 1)] if self._drops_oldest else ():
            old.unlink(missing_ok=True)
        number = 1 + (int(there[-1].stem) if there else 0)
        while (path := self._folder / f"{number:012d}.flight").is_symlink() or path.exists():
            number += 1  # whatever a damaged file system left there
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fresh = os.open(path, flags, 0o600)
        self.sync()
        self.close()
        self._fd, self._size, self._torn = fresh, 0, False
        sync_directory(self._folder)

    def _make_room(self) -> bool:
        """Give up the oldest segment, on a full disk; False where too few are left, or it cannot be done."""
        if not self._drops_oldest:
            return False
        try:
            there = segments(self._folder)
            if len(there) <= LEAST_SEGMENTS:
                return False
            there[0].unlink(missing_ok=True)
        except OSError:
            return False
        return True
