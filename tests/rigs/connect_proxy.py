"""An HTTP proxy that knows CONNECT only, with an optional password, on loopback; it counts what passes."""

import base64
import contextlib
import socket
import threading
from types import TracebackType


class ConnectProxy:
    """Tunnels to whatever is asked for; `with` starts and ends it.

    Attributes:
        asked: the targets, `host:port`.
        up_bytes, down_bytes: that passed.
        refused: requests without the right password, or that were no CONNECT.
    """

    def __init__(self, user: str | None = None, password: str | None = None) -> None:
        self._wanted: str | None = None
        if user is not None:
            self._wanted = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.asked: list[str] = []
        self.refused = 0
        self.up_bytes = 0
        self.down_bytes = 0

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> "ConnectProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break every tunnel."""
        with self._lock:
            for side in self._open:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < 8192:
                part = client.recv(1024)
                if not part:
                    return
                head += part
            lines = head.decode("latin-1").split("\r\n")
            method, target, *_ = lines[0].split(" ")
            asking = "proxy-authorization: basic "
            given = [line[len(asking) :] for line in lines if line.lower().startswith(asking)]
            if method != "CONNECT" or (self._wanted is not None and self._wanted not in given):
                self.refused += 1
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            self.asked.append(target)
            host, port = target.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                with self._lock:
                    self._open += [client, server]
                back = threading.Thread(target=self._pump, args=(server, client, False), daemon=True)
                back.start()
                self._pump(client, server, True)
                back.join()

    def _pump(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                with self._lock:
                    self.up_bytes += len(part) if up else 0
                    self.down_bytes += 0 if up else len(part)
                sink.sendall(part)
        for side in (source, sink):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
