"""Ways to content that cost no download. The first is tried here; a delta from an older file would be another.

A shortcut is never trusted: what it writes is checked as if it had been downloaded, and if it failed once, the
whole content comes over the network (balena-supervisor #1054 waited for a missing base for ever).
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from edge_runtime.durable import sha256_file
from edge_runtime.updates.wants import Want

_PIECE = 1 << 20
_MOST_LOOKED_AT = 4096


class Shortcut(Protocol):
    """Writes wanted content from what lies on this device."""

    def bring(self, want: Want, target: Path) -> bool:
        """Write the whole content to `target`, a new file beside the parts.

        A delta checks that its base is here, and the base's digest, before it begins.

        Returns:
            Whether it was written; its digest is checked by the caller in any case.

        Raises:
            OSError: it cannot be written, or the base cannot be read.
        """
        ...


class LocalCopies:
    """Content that lies in folders of this device: the weights of the package that it was set up with, say.

    Args:
        folders: where to look, asked anew each time; all files below them.
    """

    def __init__(self, folders: Callable[[], Iterable[Path]]) -> None:
        self._folders = folders

    def bring(self, want: Want, target: Path) -> bool:
        """Copy the first file of this length and digest."""
        for path in self._candidates(want.length):
            with contextlib.suppress(OSError):
                if sha256_file(path) == want.sha256:
                    _copy(path, target)
                    return True
        return False

    def _candidates(self, length: int) -> Iterator[Path]:
        seen = 0
        for folder in self._folders():
            for place, _, names in os.walk(folder):
                for name in names:
                    seen += 1
                    if seen > _MOST_LOOKED_AT:
                        return
                    path = Path(place) / name
                    with contextlib.suppress(OSError):
                        found = path.lstat()
                        if stat.S_ISREG(found.st_mode) and found.st_size == length:
                            yield path


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        while piece := reader.read(_PIECE):
            writer.write(piece)
