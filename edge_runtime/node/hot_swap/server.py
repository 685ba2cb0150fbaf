"""Perception's socket: processes of the same user (or root) are heard, a line at a time, in threads of their own.

Nobody can hold the cameras from here: lines are bounded, who is slow is turned away, and there are few connections.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.swap import MAX_LINE_BYTES
from edge_runtime.state import peer_uid, short_socket_path
from edge_runtime.telemetry import get_logger

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
        self._path, self._answer = path, answer
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._listener = _listen(path)
        self._inode = path.stat().st_ino
        self._thread = threading.Thread(target=self._accept, name="swap-accept", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Turn everybody away; a command under way is done to its end."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._guard:
            connected = dict(self._connections)
        for connection, thread in connected.items():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
            thread.join(_STOP_S)
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._stopping.wait(0.1):
                    return
                continue  # out of descriptors: those that are connected go on
            if not self._welcome(connection):
                connection.close()

    def _welcome(self, connection: socket.socket) -> bool:
        try:
            stranger = peer_uid(connection) not in (os.geteuid(), 0)
        except OSError:
            return False
        with self._guard:
            if stranger or len(self._connections) >= MAX_CONNECTIONS or self._stopping.is_set():
                get_logger().warning(
                    "connection to perception refused", why="another user" if stranger else "too many"
                )
                return False
            thread = threading.Thread(target=self._serve, args=(connection,), name="swap-ask", daemon=True)
            self._connections[connection] = thread
        thread.start()
        return True

    def _serve(self, connection: socket.socket) -> None:
        try:
            kept = b""
            while not self._stopping.is_set():
                line, kept = _line(connection, kept)
                if line is None:
                    return
                connection.settimeout(_LINE_S)
                connection.sendall(self._answer(line))
                if len(line) > MAX_LINE_BYTES:
                    return  # where the next line begins nobody knows
        except OSError:
            return  # it left or stalled
        finally:
            with self._guard:
                self._connections.pop(connection, None)
            connection.close()


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


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        with short_socket_path(path) as name:
            before = os.umask(0o177)
            try:
                listener.bind(name)
            finally:
                os.umask(before)
        listener.listen(MAX_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise SwapSocketError(f"perception cannot listen at {path}: {error.strerror}") from None
    return listener
