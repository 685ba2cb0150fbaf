"""Scratch folders that do not pile up: those that a killed process left behind are removed later.

A process that is killed, or loses its power where /tmp is on a disk, cannot clean up, and each such folder may
hold the weights of a model.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from edge_runtime.clock import NS_PER_S, SystemClock

_PREFIX: Final = "edge-runtime-"
_STALE_S: Final = 24 * 3600.0
"""No command works in one scratch folder for a day."""


@contextlib.contextmanager
def scratch_directory(purpose: str) -> Iterator[Path]:
    """A temporary folder that is removed when the block ends; stale ones of this user are removed first.

    Args:
        purpose: a word for the folder's name.

    Raises:
        OSError: no temporary folder can be made.
    """
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{purpose}-") as name:
        yield Path(name)


def _sweep(root: Path) -> None:
    # File times are wall time, so their age can only be told by it. A clock that jumped ahead removes a folder
    # too early at worst while another command uses it, which that command reports.
    oldest = SystemClock().wall().unix_ns / NS_PER_S - _STALE_S
    with contextlib.suppress(OSError):
        for path in root.glob(f"{_PREFIX}*-*"):
            facts = path.lstat()
            if (
                path.is_dir()
                and not path.is_symlink()
                and facts.st_uid == os.getuid()
                and facts.st_mtime < oldest
            ):
                shutil.rmtree(path, ignore_errors=True)
