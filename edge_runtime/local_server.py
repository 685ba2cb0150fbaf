"""A Unix socket that serves processes of the same user, each connection in a thread of its own.

The kernel says who connects; whoever is not of this user, or root, is turned away. Who stalls or dies stalls nobody
else: connections are few, and what one of them waits for is its own affair.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from edge_runtime.socket_path import bind_for_owner, unbind
from edge_runtime.state import peer_uid
from edge_runtime.telemetry import get_logger

_BACKLOG = 64
_PAUSE_S = 0.1


class LocalServer:
    """Accepts connections until it is stopped.

    Args:
        path: of the socket; what an earlier process left there is replaced.
        serve: one connection to its end, which is closed afterwards; called in a thread of its own.
        name: of the threads, and for people.
        most: connections; more are turned away at once.
        join_s: how long `stop` waits for each.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(
        self, path: Path, serve: Callable[[socket.socket], None], *, name: str, most: int, join_s: float
    ) -> None:
        self._path, self._serve, self._name, self._most, self._join_s = path, serve, name, most, join_s
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._inode = bind_for_owner(self._listener, path)
            self._listener.listen(_BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self._thread = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether connections should come to their end."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Turn everybody away and wait for the threads; what is under way is answered if its peer reads."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._guard:
            connected = dict(self._connections)
        for connection in connected:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread in (self._thread, *connected.values()):
            if thread.is_alive():
                thread.join(self._join_s)
        unbind(self._path, self._inode)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._stopping.wait(_PAUSE_S):
                    return
                continue  # out of descriptors: those that are connected go on
            why = self._welcome(connection)
            if why is not None:
                connection.close()
                get_logger().warning("connection refused", server=self._name, why=why)

    def _welcome(self, connection: socket.socket) -> str | None:
        """Begin to serve a connection; why not."""
        try:
            if peer_uid(connection) not in (os.geteuid(), 0):
                return "another user"
        except OSError as error:
            return error.strerror or "it left"
        thread = threading.Thread(target=self._to_its_end, args=(connection,), name=self._name, daemon=True)
        with self._guard:
            if self._stopping.is_set():
                return "the process ends"
            if len(self._connections) >= self._most:
                return "too many"
            try:
                thread.start()  # it waits for the guard before it forgets itself
            except RuntimeError as error:  # the system gives no more threads: those that are connected go on
                return str(error)
            self._connections[connection] = thread
        return None

    def _to_its_end(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        finally:
            connection.close()
            with self._guard:
                self._connections.pop(connection, None)
