"""Scratch folders that do not pile up: those that a killed process left behind are removed by the next one.

A process that is killed, or loses its power where /tmp is on a disk, cannot clean up, and each such folder may
hold the weights of a model. Whoever works in one has it locked; the kernel takes the lock back when he ends.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from edge_runtime.clock import NS_PER_S, SystemClock

_PREFIX: Final = "edge-runtime-"
_UNLOCKED_S: Final = 60.0
"""Nobody needs so long between making a folder and locking it."""


@contextlib.contextmanager
def scratch_directory(purpose: str) -> Iterator[Path]:
    """A temporary folder that is removed when the block ends; forgotten ones of this user are removed first.

    Args:
        purpose: a word for the folder's name.

    Raises:
        OSError: no temporary folder can be made.
    """
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{purpose}-") as name, _opened(Path(name)) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield Path(name)


def _sweep(root: Path) -> None:
    # File times are wall time, so their age can only be told by it. A clock that jumped ahead takes nothing that
    # is in use, because that is locked.
    oldest = SystemClock().wall().unix_ns / NS_PER_S - _UNLOCKED_S
    with contextlib.suppress(OSError):
        for path in root.glob(f"{_PREFIX}*-*"):
            facts = path.lstat()
            if (
                path.is_dir()
                and not path.is_symlink()
                and facts.st_uid == os.getuid()
                and facts.st_mtime < oldest
            ):
                _remove_unless_used(path)


def _remove_unless_used(path: Path) -> None:
    with contextlib.suppress(OSError), _opened(path) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield found
    finally:
        os.close(found)
