"""A relay of TCP that cuts connections after a chosen number of bytes, wherever in a TLS record that is."""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType


class CuttingRelay:
    """Passes bytes to a port on loopback; `with` starts and ends it.

    Args:
        port: where they go.
        cut_after: called for each connection; so many bytes towards the client pass, then both ways end. None never
            cuts.

    Attributes:
        passed: bytes that went towards clients.
        connections: that were made.
        cut: called after each cut, before anything else happens.
    """

    def __init__(self, port: int, cut_after: Callable[[], int | None]) -> None:
        self._port, self._cut_after = port, cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.passed = self.connections = self.cuts = 0
        self.cut: Callable[[], None] = lambda: None
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"https://localhost:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "CuttingRelay":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for thread in self._threads:  # both sides of each connection know that it is over
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, client: socket.socket) -> None:
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port)) as server,
        ):
            up = threading.Thread(target=self._up, args=(client, server), daemon=True)
            up.start()
            left = self._cut_after()
            while left is None or left > 0:
                piece = server.recv(16 * 1024 if left is None else min(left, 16 * 1024))
                if not piece:
                    break
                client.sendall(piece)
                self.passed += len(piece)
                left = None if left is None else left - len(piece)
            if left == 0:
                self.cuts += 1
                self.cut()
            for side in (client, server):
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
            up.join()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(16 * 1024):
                server.sendall(piece)
