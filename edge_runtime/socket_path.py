"""Unix sockets at any path: `sun_path` holds 108 bytes, which the name of a state directory alone may take."""

import contextlib
import os
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
