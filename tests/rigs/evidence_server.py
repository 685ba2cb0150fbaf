"""An HTTPS server that takes evidence as the protocol says, by device certificate, and misbehaves on request."""

import hashlib
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.rigs.pki import Credentials


class EvidenceServer:
    """Takes uploads into memory; `with` starts and ends it.

    Attributes:
        named: digest to length, of what a committed event named; all else gets 403.
        stored: bytes by digest, whole or not.
        done: digests that are complete.
        devices: common names that asked.
        requests: (method, digest, offset) in order.
        fault: called before a PATCH is taken; a status that it returns is the answer.
        cut_after: bytes of each PATCH that are taken before the connection is cut; None takes all.
        drip: answers come a byte a second.
    """

    def __init__(self, server: Credentials) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(server.authority))
        context.load_cert_chain(server.certificate, server.key)
        context.verify_mode = ssl.CERT_REQUIRED
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._http.socket = context.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.named: dict[str, int] = {}
        self.stored: dict[str, bytes] = {}
        self.done: list[str] = []
        self.devices: set[str] = set()
        self.requests: list[tuple[str, str, int | None]] = []
        self.fault: Callable[[], int | None] = lambda: None
        self.cut_after: int | None = None
        self.drip = False

    @property
    def url(self) -> str:
        return f"https://localhost:{self._http.server_address[1]}"

    def __enter__(self) -> "EvidenceServer":
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        books = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def log_message(self, *_: Any) -> None:
                pass

            def do_HEAD(self) -> None:
                digest = self._digest(None)
                if digest is not None:
                    self._answer(200, digest)

            def do_PATCH(self) -> None:
                offset = int(self.headers["Upload-Offset"])
                digest = self._digest(offset)
                if digest is None:
                    return
                length = int(self.headers["Content-Length"])
                taken = length if books.cut_after is None else min(length, books.cut_after)
                piece = self.rfile.read(taken)
                have = books.stored.get(digest, b"")
                if offset != len(have):
                    self._answer(409, digest)
                    return
                books.stored[digest] = have + piece
                if taken < length:
                    self.close_connection = True
                    self.connection.close()
                    return
                if len(books.stored[digest]) == books.named[digest]:
                    if hashlib.sha256(books.stored[digest]).hexdigest() != digest:
                        books.stored[digest] = b""
                        self._answer(409, digest)
                        return
                    books.done.append(digest)
                self._answer(204, digest)

            def _digest(self, offset: int | None) -> str | None:
                certificate: Any = self.connection.getpeercert()
                subject = {key: value for part in certificate["subject"] for key, value in part}
                books.devices.add(subject["commonName"])
                digest = self.path.rsplit("/", 1)[1]
                books.requests.append((self.command, digest, offset))
                fault = books.fault() if self.command == "PATCH" else None
                status = 403 if digest not in books.named else fault
                if status is None:
                    return digest
                self.close_connection = True
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None

            def _answer(self, status: int, digest: str) -> None:
                if books.drip:
                    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"s" * 60:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        time.sleep(0.1)
                self.send_response(status)
                self.send_header("Upload-Offset", str(len(books.stored.get(digest, b""))))
                self.send_header("Upload-Length", str(books.named[digest]))
                self.end_headers() if status == 204 else self._end_empty()

            def _end_empty(self) -> None:
                self.send_header("Content-Length", "0")
                self.end_headers()

        return Handler
