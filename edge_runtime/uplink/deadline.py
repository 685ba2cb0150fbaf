"""An end for one HTTP request that holds however slowly the other side drips: httpx bounds single reads only."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any

from typing_extensions import Self


class Deadline:
    """Cuts the connection of a request when its time is over.

    `trace` goes into the request's extensions; it learns the socket when a connection is made. One object serves
    one client, request after request.

    Args:
        limit_s: for one request, seconds.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self._over = False

    def trace(self, name: str, info: dict[str, Any]) -> None:
        """Called by httpcore at every step of a connection."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            found = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._socket = found
                if self._over:
                    self._cut()

    def __enter__(self) -> Self:
        with self._lock:
            self._over = False
        self._timer = threading.Timer(self._limit_s, self._end)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        with self._lock:
            self._over = True
            self._cut()

    def _cut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError, ValueError):
                # The socket's own method: an SSL socket's would change state that the reading thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
