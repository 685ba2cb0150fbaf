"""Ends a connection from outside: httpx bounds single reads only, so a server that drips could hold a download.

A drip need not even be in the body: bytes of the answer's head, or of the framing between two pieces, never reach
the one who reads pieces.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from typing_extensions import Self

from edge_runtime.errors import EdgeRuntimeError

_LOOK_S = 0.2


class DownloadCancelled(EdgeRuntimeError):
    """Whoever asked for a download no longer wants it; what came is kept for another time."""


class Watch:
    """Looks several times a second, in a thread of its own, whether to go on; if not, it cuts the connection.

    Used as a context, for one client whose every request has `trace` as its extension of that name.

    Args:
        look: returns why not to go on, or None; called from two threads, never at the same time.

    Attributes:
        reason: why it was cut; None while it was not.
    """

    def __init__(self, look: Callable[[], Exception | None]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="download-watch", daemon=True)
        self.reason: Exception | None = None

    def trace(self, name: str, info: dict[str, Any]) -> None:
        """For the `trace` extension of a request: httpcore tells every step, and we want the socket."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket")
                if self.reason is not None:
                    self._cut()

    def go_on(self) -> None:
        """Return if all is well.

        Raises:
            Exception: what `look` said, now or before.
        """
        with self._lock:
            self._ask()
            if self.reason is not None:
                raise self.reason

    def rest(self, seconds: float) -> None:
        """Wait, and look meanwhile.

        Raises:
            Exception: as `go_on`.
        """
        left = seconds
        while left > 0:
            self._ended.wait(min(left, _LOOK_S))
            left -= _LOOK_S
            self.go_on()

    def again(self) -> None:
        """Forget why the last connection was cut: another one begins."""
        with self._lock:
            self.reason = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            with self._lock:
                self._ask()
                if self.reason is not None:
                    self._cut()

    def _ask(self) -> None:
        if self.reason is None:
            self.reason = self._look()

    def _cut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError, ValueError):
                # The plain socket's own method: the TLS socket's would wait for the other side's goodbye, and would
                # change state that the reading thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
