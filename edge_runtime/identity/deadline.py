"""One end for a whole conversation: httpx bounds single reads only, so a server that drips could hold a client."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any

from typing_extensions import Self

from edge_runtime.clock import NS_PER_S, Clock


class Deadline:
    """Cuts the connection when the time is over, whatever it is doing.

    Used as a context, as often as one likes, one after the other. A client that keeps its connection needs the same
    object for all its requests: the socket is learnt only when a connection is made.

    Args:
        seconds: for everything inside the context.
        clock: measures.

    Attributes:
        is_over: whether the time of the present or the last context ran out.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._clock = clock
        self._seconds = seconds
        self._ends_ns = 0
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        self.is_over = False

    @property
    def left_s(self) -> float:
        """Seconds left, at least a millisecond: a timeout of zero means something else to a socket."""
        return max(0.001, (self._ends_ns - self._clock.monotonic_ns()) / NS_PER_S)

    def trace(self, name: str, info: dict[str, Any]) -> None:
        """For the `trace` extension of a request: httpcore tells every step, and we want the socket."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket")
                if self.is_over:
                    self._cut()

    def __enter__(self) -> Self:
        with self._lock:
            self.is_over = False
        self._ends_ns = self._clock.monotonic_ns() + round(self._seconds * NS_PER_S)
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            self._cut()

    def _cut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError, ValueError):
                # The plain socket's own method: the TLS socket's would wait for the other side's goodbye, and would
                # change state that the reading thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
