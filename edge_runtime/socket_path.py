"""Unix sockets at any path: `sun_path` holds 108 bytes, which the name of a state directory alone may take."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def short_socket_path(path: Path) -> Iterator[str]:
    """A name of a socket by its folder's descriptor, valid inside the `with`.

    It is short enough where the socket's own name has at most 80 bytes.

    Raises:
        OSError: the socket's folder does not exist.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def takes_datagrams(path: Path) -> bool:
    """Whether somebody has a datagram socket there that is not closed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.settimeout(0)
        try:
            with short_socket_path(path) as name:
                probe.connect(name)
        except OSError:
            return False
    return True
