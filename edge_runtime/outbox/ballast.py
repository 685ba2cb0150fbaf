"""A file that is given up when the disk is full, so that deletes and the ledger still fit."""

import contextlib
import os
from pathlib import Path

_BLOCK = 64 * 1024


class Ballast:
    """Holds some blocks of the disk.

    Args:
        path: the file.
        size: bytes; 0 keeps none.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size

    @property
    def held(self) -> bool:
        """Whether the file is there in its full length."""
        if not self._size:
            return True
        try:
            return self._path.stat().st_size >= self._size
        except OSError:
            return False

    def drop(self) -> bool:
        """Give the blocks back; whether there were any."""
        held = self._size > 0 and self._path.exists()
        with contextlib.suppress(OSError):
            self._path.unlink()
            return held
        return False

    def take(self) -> bool:
        """Hold the blocks again if the disk has as much again beside them; whether it is held now.

        Zeros are written, because some file systems keep no blocks for an allocation that was only announced.
        """
        if self.held:
            return True
        part = self._path.with_suffix(".part")
        try:
            if self.free() < 2 * self._size:
                return False
            with part.open("wb") as file:
                for _ in range(0, self._size, _BLOCK):
                    file.write(bytes(min(_BLOCK, self._size)))
                file.truncate(self._size)
                os.fsync(file.fileno())
            part.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
            return False
        return True

    def free(self) -> int:
        """Bytes that the file system has left for this user; 0 when it cannot be asked."""
        try:
            found = os.statvfs(self._path.parent)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize
