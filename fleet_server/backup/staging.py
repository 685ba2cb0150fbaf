"""A folder that is filled beside its place and moved there whole: killed at any point, it is there or it is not.

What a killed process left behind has a name of its own and a lock that died with it: the next one clears it away.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.durable import sync_directory
from fleet_server.backup.copying import flush_tree, make_folder
from fleet_server.backup.manifest import PRIVATE, PRIVATE_FOLDER
from fleet_server.backup.problems import BackupFailed


@contextlib.contextmanager
def turn(lock: Path, busy: str) -> Iterator[None]:
    """Hold a lock that dies with the process.

    Args:
        lock: its file, made when it is missing; it stays.
        busy: the sentence for whoever comes second.

    Raises:
        BackupFailed: another process holds it.
        OSError: the file cannot be made.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupFailed(busy) from None
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def staged(target: Path, busy: str) -> Iterator[Path]:
    """A new folder beside `target`, which takes its name at the end, for good.

    Args:
        target: missing or empty.
        busy: the sentence for whoever fills one for the same target meanwhile.

    Raises:
        BackupFailed: another process does.
        OSError: it cannot be made, or `target` is there by now. Nothing is left behind.
    """
    make_folder(target.parent)
    part = target.with_name(staged_name(target.name))
    handle = _held(part, busy)
    try:
        _empty(part)  # of what a killed process left
        yield part
        flush_tree(part)
        part.rename(target)  # also onto an empty directory
        sync_directory(target.parent)
    finally:
        if part.exists():
            shutil.rmtree(part, ignore_errors=True)
        os.close(handle)


def staged_name(name: str) -> str:
    """How the folder is called until it takes its name."""
    return f".{name}.part"


def clear_staged(part: Path) -> None:
    """Delete such a folder, unless a process fills it."""
    try:
        handle = _held(part, "it is filled")
    except (BackupFailed, OSError):
        return
    try:
        shutil.rmtree(part, ignore_errors=True)
    finally:
        os.close(handle)


def _held(part: Path, busy: str) -> int:
    """A descriptor of the folder, locked: the lock dies with the process, the folder may outlive it."""
    part.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    handle = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BackupFailed(busy) from None
    if not part.is_dir() or part.stat().st_ino != os.fstat(handle).st_ino:
        os.close(handle)  # whoever had it has just finished
        raise BackupFailed(busy)
    return handle


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
