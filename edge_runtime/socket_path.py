"""Unix sockets at any path: `sun_path` holds 108 bytes, which the name of a state directory alone may take."""

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edge_runtime.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@contextlib.contextmanager
def short_socket_path(path: "str | Path") -> Iterator[str]:
    """A name of a socket by its folder's descriptor, valid inside the `with`.

    It is short enough where the socket's own name has at most 80 bytes.

    Raises:
        OSError: the socket's folder does not exist.
    """
    parent, name = os.path.split(path)
    folder = os.open(parent or os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{name}"
    finally:
        os.close(folder)


def takes_datagrams(path: "str | Path") -> bool:
    """Whether somebody has a datagram socket there that is not closed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.settimeout(0)
        try:
            with short_socket_path(path) as name:
                probe.connect(name)
        except OSError:
            return False
    return True


def bind_for_owner(end: socket.socket, path: "str | Path") -> int:
    """Bind at a path, in the place of whatever lies there, so that the owner of this process alone may use it.

    Returns:
        What `unbind` knows the name by.

    Raises:
        OSError: it cannot be bound there.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with short_socket_path(path) as name:
        before = os.umask(0o177)
        try:
            end.bind(name)
        finally:
            os.umask(before)
    return os.stat(path).st_ino


def unbind(path: "str | Path", inode: int) -> None:
    """Remove a name that `bind_for_owner` made, unless somebody else has bound there since."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_ino == inode:
            os.unlink(path)


class DatagramSocket:
    """Where one process of a device hears datagrams, never waiting; what a dead one left there is replaced.

    Args:
        path: of the socket.
        who: listens, for people: "monitor".

    Attributes:
        end: to receive from and to answer through.

    Raises:
        ConfigError: it cannot be made there, or another process listens at it.
    """

    def __init__(self, path: "str | Path", who: str) -> None:
        self._path = path
        self.end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.end.settimeout(0)
        try:
            if takes_datagrams(path):
                raise ConfigError(f"another {who} listens at {path}; a device has one")
            self._inode = bind_for_owner(self.end, path)
        except OSError as error:
            self.end.close()
            raise ConfigError(f"the {who} cannot listen at {path}: {error.strerror or error}") from None
        except ConfigError:
            self.end.close()
            raise

    def fileno(self) -> int:
        """To wait on."""
        return self.end.fileno()

    def close(self) -> None:
        """Listen no more."""
        self.end.close()
        unbind(self._path, self._inode)
