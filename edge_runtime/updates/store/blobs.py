"""Content by its digest: a name that exists leads to complete bytes that were checked once."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.durable import sha256_file, sync_directory

_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was when its digest was right; anything that writes to it changes one of these."""

    inode: int
    size: int
    changed_ns: int


class Blobs:
    """The folder of blobs.

    Args:
        folder: exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._proved: dict[str, _Seen] = {}

    def path(self, sha256: str) -> Path:
        """Where the content lies, if it is here."""
        return self._folder / sha256

    def take(self, file: Path, sha256: str, length: int) -> bool:
        """Give a file of the same file system its name, if it has the right content.

        Returns:
            Whether it had; if not, the file is as it was.

        Raises:
            OSError: of the disk.
        """
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != length or sha256_file(file) != sha256:
            return False
        target = self.path(sha256)
        if self.is_whole(sha256, length):
            file.unlink()  # never written over: somebody may have it open
            return True
        file.chmod(_READ_ONLY)
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        file.replace(target)
        sync_directory(self._folder)
        self._remember(sha256)
        return True

    def is_whole(self, sha256: str, length: int) -> bool:
        """Whether the content is here and undamaged; read again only where the file may have changed since."""
        path = self.path(sha256)
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size != length:
                return False  # a link is none of ours, whatever it leads to
            if self._proved.get(sha256) == _seen(path):
                return True
            if sha256_file(path) != sha256:
                return False
        except OSError:
            return False
        self._remember(sha256)
        return True

    def remove(self, sha256: str) -> None:
        """Forget content; releases that are made of it keep it."""
        self._proved.pop(sha256, None)
        self.path(sha256).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """Bytes of each blob."""
        return {entry.name: entry.stat().st_size for entry in os.scandir(self._folder) if entry.is_file()}

    def _remember(self, sha256: str) -> None:
        self._proved[sha256] = _seen(self.path(sha256))


def _seen(path: Path) -> _Seen:
    found = path.stat()
    return _Seen(found.st_ino, found.st_size, found.st_mtime_ns)
