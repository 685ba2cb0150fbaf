"""Where a recording lies: a folder with a part for each start of a process, numbered in their order."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.durable import sync_directory
from edge_runtime.recording.errors import RecordingError
from edge_runtime.recording.head import Stream, WhenFull

MIB = 1024 * 1024

LEAST_BYTES = MIB
"""A part with less room is not begun."""

LONGEST_LINE = MIB // 2
"""Ten thousand boxes."""

PICTURES = "pictures"
"""The folder of the frames, in that of a part."""

MONITOR_SHARE = 8
"""The monitor's part of a recording has one of so many parts of its bytes."""

_PART = re.compile(r"(cameras|monitor)-(\d{6})")


@dataclass(frozen=True, slots=True)
class Place:
    """A new part.

    Attributes:
        folder: of it, empty.
        bytes: that are left for it.
    """

    folder: Path
    bytes: int


def parts_in(root: Path, stream: Stream | None = None) -> list[Path]:
    """The folders of a recording's parts, each stream's in their order.

    Raises:
        RecordingError: the folder cannot be read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise RecordingError(f"{root} cannot be read: {error.strerror}") from None
    found = [(name, match) for name in names if (match := _PART.fullmatch(name))]
    return [root / name for name, match in found if stream is None or match[1] == stream.value]


def require_fresh(root: Path) -> None:
    """Stop before a recording is mixed with what lies in its folder.

    Raises:
        RecordingError: the folder is there and not empty, or cannot be looked into.
    """
    try:
        if root.exists() and any(root.iterdir()):
            raise RecordingError(f"{root} is not empty: name a new folder for the recording")
    except OSError as error:
        raise RecordingError(f"{root} cannot be used for a recording: {error.strerror}") from None


def new_part(root: Path, stream: Stream, most_bytes: int, when_full: WhenFull) -> Place:
    """Make the folder of another part; of a recording that drops its oldest, whole parts make room for it.

    Args:
        root: of the recording; made where it is missing.
        stream: whose part it is.
        most_bytes: of all parts of the stream.
        when_full: what happens when they are used up.

    Raises:
        RecordingError: the folder cannot be made, or nothing of the bytes is left.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = parts_in(root, stream)
        sizes = {part: bytes_in(part) for part in before}
        while when_full is WhenFull.OLDEST and sizes and most_bytes - sum(sizes.values()) < most_bytes // 2:
            oldest = next(iter(sizes))
            shutil.rmtree(oldest)
            del sizes[oldest]
        left = most_bytes - sum(sizes.values())
        if left < LEAST_BYTES:
            raise RecordingError(
                f"the {most_bytes // MIB} MiB of the recording in {root} are used up: name a new folder"
            )
        number = 1 + (int(before[-1].name.rpartition("-")[2]) if before else 0)
        folder = root / f"{stream.value}-{number:06d}"
        folder.mkdir(mode=0o700)
        sync_directory(root)
    except OSError as error:
        raise RecordingError(f"{root} cannot be used for a recording: {error.strerror}") from None
    return Place(folder, left)


def bytes_in(folder: Path) -> int:
    """Bytes of the files in a folder and below it."""
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
