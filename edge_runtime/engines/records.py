"""Small records on disk, and reading what may be anything: bounded, through no link, waiting for no pipe."""

import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from edge_runtime.config.regular_file import NotRegularError, special_kind
from edge_runtime.durable import write_file
from edge_runtime.engines.recipe import canonical_json

PART: Final = ".part-"
"""In the name of every file that is not whole yet; whoever holds the store's lock may remove those he finds."""

MAX_RECORD_BYTES: Final = 64 * 1024


class Record(BaseModel):
    """Base of what is kept on disk."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class TooLarge(OSError):
    """A file is longer than anything that is written under its name."""


RecordT = TypeVar("RecordT", bound=Record)


def read_whole(path: Path, largest: int) -> bytes:
    """A regular file's bytes.

    Raises:
        TooLarge: it has more than `largest` bytes; none of them is read.
        NotRegularError: it is a pipe, a socket or a device.
        OSError: it cannot be opened or read; a symbolic link and a folder are not opened either.
    """
    _require_regular(path.lstat())  # a device may act on being opened
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb", buffering=0) as file:
        facts = os.fstat(fd)
        _require_regular(facts)
        if facts.st_size > largest:
            raise TooLarge(0, f"has {facts.st_size} bytes, more than the {largest} that it may have")
        pieces, left = [], facts.st_size
        while left and (piece := file.read(left)):  # one call gives at most 2 GiB
            pieces.append(piece)
            left -= len(piece)
        if file.read(1):
            raise TooLarge(0, "grows while it is read")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)  # an engine is not copied once more


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file, or whatever else has its name; the caller holds the store's lock.

    Raises:
        OSError: the folder cannot be written or the disk is full; nothing is left behind.
    """
    remove_folder(path)
    write_file(path, data, 0o600, part=f"{path.name}{PART}{secrets.token_hex(4)}")


def read_record(kind: type[RecordT], path: Path) -> RecordT | None:
    """A record that was written by `write_record`; None where there is no file.

    Raises:
        ValueError: it is not such a record; the text says why.
        OSError: it cannot be read.
    """
    try:
        return kind.model_validate_json(read_whole(path, MAX_RECORD_BYTES))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None


def write_record(path: Path, record: Record) -> None:
    """Replace a record's file; the caller holds the store's lock.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, canonical_json(record.model_dump(mode="json")))


def first_problem(error: ValidationError) -> str:
    """The first thing that pydantic found, without the content."""
    found: dict[str, Any] = dict(
        error.errors(include_url=False, include_context=False, include_input=False)[0]
    )
    place = ".".join(str(part) for part in found["loc"])
    message = str(found["msg"])[:200]
    return f"{place}: {message}" if place else message


def remove_whatever(path: Path) -> None:
    """Remove a file, a link, a pipe or a folder, or nothing.

    Raises:
        OSError: it cannot be removed.
    """
    try:
        folder = stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if folder:
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder that has a file's name, onto which nothing can be renamed; anything else stays.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        remove_whatever(path)


def size_of(path: Path) -> int:
    """Bytes of a regular file; 0 for anything else and where there is nothing."""
    try:
        facts = path.lstat()
    except OSError:
        return 0
    return facts.st_size if stat.S_ISREG(facts.st_mode) else 0


def names_in(folder: Path) -> list[str]:
    """What lies in a folder, sorted; nothing where there is no folder.

    Raises:
        OSError: it cannot be listed.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - Path.iterdir makes a Path of each
    except FileNotFoundError:
        return []


def _require_regular(facts: os.stat_result) -> None:
    if stat.S_ISLNK(facts.st_mode):
        raise NotRegularError("a symbolic link")
    if stat.S_ISDIR(facts.st_mode):
        raise NotRegularError("a folder")
    kind = special_kind(facts.st_mode)
    if kind is not None:
        raise NotRegularError(kind)
