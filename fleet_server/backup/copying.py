"""Copies of files that are on the disk before they are called whole, and whose bytes were read on the way.

A second name for a file of an earlier backup is kept only once its bytes were read as well: what has rotten there
since is never passed on.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.durable import sha256_file, sync_directory
from fleet_server.backup.manifest import PRIVATE, PRIVATE_FOLDER
from fleet_server.backup.problems import BackupFailed

_PIECE = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


def copy_file(source: Path, target: Path) -> tuple[int, str]:
    """Copy one file, readable by its owner alone, and flush it.

    Returns:
        Its bytes and their SHA-256, of what was read.

    Raises:
        FileNotFoundError: it is gone.
        OSError: it cannot be read, or the copy cannot be written.
    """
    make_folder(target.parent)
    digest, length = hashlib.sha256(), 0
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(descriptor, "rb") as reading, os.fdopen(os.open(target, flags, PRIVATE), "wb") as writing:
        while piece := reading.read(_PIECE):
            writing.write(piece)
            digest.update(piece)
            length += len(piece)
        writing.flush()
        os.fsync(writing.fileno())
    return length, digest.hexdigest()


def link_file(source: Path, target: Path, sha256: str) -> bool:
    """Give a file that never changes a second name, when it is what it was.

    Returns:
        False where it has other bytes, is not the owner's alone, is not there, or cannot have a second name.
    """
    make_folder(target.parent)
    try:
        target.hardlink_to(source)
    except OSError:  # another file system, one without links, or too many of them: it is copied
        return False
    if _is_private(target) and _holds(target, sha256):
        return True
    target.unlink()
    return False


def _is_private(path: Path) -> bool:
    found = path.stat(follow_symlinks=False)
    return stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077 and found.st_uid == os.geteuid()


def _holds(path: Path, sha256: str) -> bool:
    try:
        return sha256_file(path) == sha256
    except OSError:  # a sector that cannot be read any more
        return False


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, readable by their owner alone.

    Raises:
        OSError: it cannot be made.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def flush_tree(folder: Path) -> None:
    """Flush the entries of a folder and of all below it.

    Raises:
        OSError: one of them cannot be read.
    """
    for here, _, _ in os.walk(folder):
        sync_directory(Path(here))


def require_space(folder: Path, needed: int) -> None:
    """Refuse to begin what the disk has no room for.

    Raises:
        BackupFailed: too few bytes are free.
    """
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    if free < needed:
        raise BackupFailed(
            f"{folder} has {free >> 20} MiB free and {(needed >> 20) + 1} are needed: make room first"
        )


@contextlib.contextmanager
def disk_problems(what: str) -> Iterator[None]:
    """Say in a sentence what the disk refuses.

    Raises:
        BackupFailed: an OSError was raised within.
    """
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in _FULL else (error.strerror or "the disk failed")
        name = "" if error.filename is None else f" ({error.filename})"
        raise BackupFailed(f"{what}: {reason}{name}") from None
