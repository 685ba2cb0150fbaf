"""The outbox's socket: one thread for each connection, so that who stalls or dies stalls nobody else.

Threads wait for the common writer, which commits what all of them want at once.
"""

import contextlib
import socket
from pathlib import Path
from typing import Any

from edge_runtime.clock import Clock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.local_server import LocalServer
from edge_runtime.outbox.calls import OWNED, signature
from edge_runtime.outbox.frames import FrameError, FrameStream, encode_frame
from edge_runtime.outbox.outbox import Outbox
from edge_runtime.outbox.packing import CallError
from edge_runtime.outbox.records import OutboxError

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
        self._outbox, self._clock = outbox, clock
        try:
            # whoever holds the outbox's lock may take the socket's place: another server cannot be alive
            self._server = LocalServer(
                path, self._serve, name="outbox-client", most=max_connections, join_s=FRAME_S
            )
        except OSError as error:
            raise OutboxError(f"the outbox cannot listen at {path}: {error.strerror}") from None

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self) -> None:
        """Turn everybody away and wait for the threads; requests under way are answered if their peer reads."""
        self._server.stop()

    def _serve(self, connection: socket.socket) -> None:
        stream = FrameStream(connection, self._clock)
        try:
            while not self._server.stopping:
                self._answer(stream, stream.read(FRAME_S, first_s=None))
        except (OSError, FrameError):
            pass  # it left, stalled, or spoke something else: its leases end below
        finally:
            with contextlib.suppress(EdgeRuntimeError):
                self._outbox.unlease(owner=stream)

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
        while not self._server.stopping:
            if self._outbox.wait(min(left, _WAIT_SLICE_S)):
                return True
            left -= _WAIT_SLICE_S
            if left <= 0 or stream.has_left():
                break
        return False
