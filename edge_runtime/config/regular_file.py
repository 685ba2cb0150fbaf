"""Opening what must be a file: a pipe nobody writes to would keep its reader waiting for ever."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class NotRegularError(OSError):
    """The path names a pipe, a socket or a device; `kind` says which, with its article."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, f"is {kind}, not a file")
        self.kind = kind


def special_kind(mode: int) -> str | None:
    """What a `st_mode` that is neither a file's nor a folder's stands for, such as `a pipe`."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return _KINDS.get(stat.S_IFMT(mode), "something special")


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading without ever waiting for somebody to write it.

    Raises:
        NotRegularError: it is a pipe, a socket or a device.
        OSError: it cannot be opened.
        ValueError: the path holds a null byte.
    """
    kind = special_kind(path.stat().st_mode)  # a device may act on being opened, and a socket cannot be
    if kind is not None:
        raise NotRegularError(kind)
    # Without O_NONBLOCK a pipe that took the file's place a moment ago would still be waited for.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = special_kind(os.fstat(fd).st_mode)
        if kind is not None:
            raise NotRegularError(kind)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise
