"""The outbox's socket: one thread for each connection, so that who stalls or dies stalls nobody else.

Only processes of the same user (or root) are served, by the kernel's word about the other side. Threads wait for
the common writer, which commits what all of them want at once.
"""

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

from edge_runtime.clock import Clock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.outbox.calls import OWNED, signature
from edge_runtime.outbox.frames import FrameError, FrameStream, encode_frame
from edge_runtime.outbox.outbox import Outbox
from edge_runtime.outbox.packing import CallError
from edge_runtime.outbox.records import OutboxError
from edge_runtime.state import peer_uid, short_socket_path
from edge_runtime.telemetry import get_logger

FRAME_S = 10.0
"""Seconds in which a frame must come or go in full."""

_WAIT_SLICE_S = 0.25
_MAX_WAIT_S = 60.0


class OutboxServer:
    """Serves an outbox on a Unix socket.

    Args:
        outbox: what is served.
        path: of the socket; replaced when it is a stale one.
        clock: times.
        max_connections: more are turned away at once.

    Raises:
        OutboxError: the socket cannot be made.
    """

    def __init__(self, outbox: Outbox, path: Path, clock: Clock, max_connections: int) -> None:
        self._outbox, self._path, self._clock, self._max = outbox, Path(path), clock, max_connections
        self._log = get_logger()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._listener = _listen(self._path)
        self._thread = threading.Thread(target=self._accept, name="outbox-accept", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Turn everybody away and wait for the threads; requests under way are answered if their peer reads."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._guard:
            open_now = dict(self._connections)
        for connection in open_now:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread in open_now.values():
            thread.join(FRAME_S)
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

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
            if stranger or len(self._connections) >= self._max or self._stopping.is_set():
                self._log.warning("connection refused", why="another user" if stranger else "too many")
                return False
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="outbox-client", daemon=True
            )
            self._connections[connection] = thread
        thread.start()
        return True

    def _serve(self, connection: socket.socket) -> None:
        stream = FrameStream(connection, self._clock)
        try:
            while not self._stopping.is_set():
                self._answer(stream, stream.read(FRAME_S, first_s=None))
        except (OSError, FrameError):
            pass  # it left, stalled, or spoke something else: its leases end below
        finally:
            with contextlib.suppress(EdgeRuntimeError):
                self._outbox.unlease(owner=stream)
            connection.close()
            with self._guard:
                self._connections.pop(connection, None)

    def _answer(self, stream: FrameStream, request: Any) -> None:
        try:
            method, given = request
            how = signature(str(method))
            answer = self._call(stream, str(method), how.check(given))
            reply = encode_frame(["ok", how.answer.pack(answer)])
        except OutboxError as error:
            reply = encode_frame(["failed", str(error)])
        except (CallError, FrameError) as error:
            reply = encode_frame(["refused", str(error)])
        except (ValueError, TypeError, OverflowError) as error:  # SQLite takes no number beyond 64 bits
            reply = encode_frame(["refused", f"{type(error).__name__}: {error}"[:200]])
        stream.send(reply, FRAME_S)

    def _call(self, stream: FrameStream, method: str, arguments: dict[str, Any]) -> Any:
        if method == "wait":
            return self._wait(stream, arguments["timeout_s"])
        if method in OWNED:
            arguments["owner"] = stream
        return getattr(self._outbox, method)(**arguments)

    def _wait(self, stream: FrameStream, timeout_s: float) -> bool:
        """As `Outbox.wait`, in slices: a client that died meanwhile must not keep its thread or its leases."""
        left = min(timeout_s, _MAX_WAIT_S)
        while not self._stopping.is_set():
            if self._outbox.wait(min(left, _WAIT_SLICE_S)):
                return True
            left -= _WAIT_SLICE_S
            if left <= 0 or stream.has_left():
                break
        return False


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)  # whoever holds the outbox's lock may: another server cannot be alive
        with short_socket_path(path) as name:
            before = os.umask(0o177)
            try:
                listener.bind(name)
            finally:
                os.umask(before)
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise OutboxError(f"the outbox cannot listen at {path}: {error.strerror}") from None
    return listener
