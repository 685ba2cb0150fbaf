"""Whether the configuration is still the one that was checked at the start."""

import os
import stat

LOOK_NS = 1_000_000_000
"""How often the file is looked at; it is read again only when its size, time or inode has changed."""

_LARGEST = 1 << 20


class Configuration:
    """A file from which the guard's settings were compiled.

    Args:
        path: of the file.
        sha256: of what it held then, in hex.
    """

    def __init__(self, path: str, sha256: str) -> None:
        self._path, self._sha256 = path, sha256
        self._looked_ns: int | None = None
        self._known: tuple[int, int, int] | None = None
        self._changed = False

    def changed(self, now_ns: int) -> bool:
        """Whether it holds something else now, or cannot be read."""
        import hashlib  # noqa: PLC0415 - see loop.Guard._load

        if self._looked_ns is not None and now_ns - self._looked_ns < LOOK_NS:
            return self._changed
        self._looked_ns = now_ns
        try:
            found = os.stat(self._path)
            facts = (found.st_size, found.st_mtime_ns, found.st_ino)
            if facts != self._known:
                data = _read(self._path)
                self._changed = hashlib.sha256(data).hexdigest() != self._sha256
                self._known = facts
        except OSError:
            self._known, self._changed = None, True
        return self._changed


def _read(path: str) -> bytes:
    """What a file holds, without ever waiting: in the place of the file there may be a pipe now.

    Raises:
        OSError: it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise FileNotFoundError
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read(_LARGEST + 1)
    finally:
        os.close(fd)
