"""Perception's socket: processes of the same user (or root) are heard, a line at a time, in threads of their own.

Nobody can hold the cameras from here: lines are bounded, who is slow is turned away, and there are few connections.
"""

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.local_server import LocalServer
from edge_runtime.protocol.swap import MAX_LINE_BYTES

MAX_CONNECTIONS: Final = 8
IDLE_S: Final = 120.0
"""A connection that asks nothing for so long is closed."""

_LINE_S: Final = 5.0
_STOP_S: Final = 5.0


class SwapSocketError(EdgeRuntimeError):
    """Perception cannot listen for the updates' process."""


class SwapServer:
    """Serves lines on a Unix socket.

    Args:
        path: of the socket; what an earlier process left there is replaced.
        answer: to a line, without its end; called from several threads, never raises.

    Raises:
        SwapSocketError: the socket cannot be made.
    """

    def __init__(self, path: Path, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        try:
            self._server = LocalServer(
                path, self._serve, name="swap-ask", most=MAX_CONNECTIONS, join_s=_STOP_S
            )
        except OSError as error:
            raise SwapSocketError(f"perception cannot listen at {path}: {error.strerror}") from None

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self) -> None:
        """Turn everybody away; a command under way is done to its end."""
        self._server.stop()

    def _serve(self, connection: socket.socket) -> None:
        kept = b""
        with contextlib.suppress(OSError):  # it left or stalled
            while not self._server.stopping:
                line, kept = _line(connection, kept)
                if line is None:
                    return
                connection.settimeout(_LINE_S)
                connection.sendall(self._answer(line))
                if len(line) > MAX_LINE_BYTES:
                    return  # where the next line begins nobody knows


def _line(connection: socket.socket, kept: bytes) -> tuple[bytes | None, bytes]:
    """The next line and what came after it; None at the end. Of one that is too long only its beginning."""
    connection.settimeout(IDLE_S)
    until = 0.0
    while b"\n" not in kept:
        if len(kept) > MAX_LINE_BYTES:
            return kept, b""
        piece = connection.recv(1 << 16)
        if not piece:
            return None, b""
        kept += piece
        until = until or time.monotonic() + _LINE_S
        connection.settimeout(max(0.001, until - time.monotonic()))  # all of it in time, however it drips
    line, _, rest = kept.partition(b"\n")
    return line, rest
