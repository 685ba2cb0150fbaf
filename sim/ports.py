"""Ports for programs that must be told where to listen before they do."""

import random
import socket

_LOW, _HIGH = 10_240, 32_767
"""Below the range from which the kernel draws ports for connections, 32,768 on: none of those is in the way."""

_TRIES = 100


def free_port() -> int:
    """A TCP port on loopback that nobody listens at, and that no connection will take before it is listened at.

    Raises:
        OSError: none was found.
    """
    for _ in range(_TRIES):
        port = random.randint(_LOW, _HIGH)  # noqa: S311 - two programs should not try the same one, no secret
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port from {_LOW} to {_HIGH}")
