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
        self._sizes = (size, size // 4)

    @property
    def bytes_held(self) -> int:
        """Bytes that are held: all, a quarter, or none."""
        try:
            there = self._path.stat().st_size
        except OSError:
            return 0
        return next((size for size in self._sizes if there >= size), 0)

    def drop(self) -> bool:
        """Give the blocks back; whether there were any."""
        held = self._size > 0 and self._path.exists()
        with contextlib.suppress(OSError):
            self._path.unlink()
            return held
        return False

    def take(self) -> bool:
        """Hold the blocks again if the disk has as much again beside them; whether any are held now.

        A disk that has too little room for them holds a quarter.
        """
        if not self._size:
            return True
        return any(self.bytes_held >= size or self._write(size) for size in self._sizes)

    def _write(self, size: int) -> bool:
        """Zeros are written, because some file systems keep no blocks for an allocation that was only announced."""
        part = self._path.with_suffix(".part")
        try:
            if self.free() < 2 * size:
                return False
            with part.open("wb") as file:
                for _ in range(0, size, _BLOCK):
                    file.write(bytes(min(_BLOCK, size)))
                file.truncate(size)
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
