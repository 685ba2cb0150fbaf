"""An HTTPS server of blobs by digest, by device certificate, as the fleet's protocol says; it fails on request.

Written apart from the fleet server's own routes, so that a defect there cannot hide in both.
"""

import hashlib
import re
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.rigs.pki import Credentials

_RANGE = re.compile(r"bytes=(\d+)-")
_PIECE = 16 * 1024


class BlobServer:
    """Serves what is in `blobs`; `with` starts and ends it.

    Attributes:
        blobs: content by digest.
        requests: `Range` and `If-Range` of each request, in order.
        sent: bytes of bodies that were sent.
        fault: called for each request; a status and headers that it returns are the answer.
        cut_after: called for each body; so many bytes of it are sent and the connection is closed; None sends all.
        ranges: whether parts are served.
        etag: what content is called; by its digest where None.
        devices: common names that asked.
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
        self._lock = threading.Lock()
        self.blobs: dict[str, bytes] = {}
        self.requests: list[tuple[str | None, str | None]] = []
        self.sent = 0
        self.fault: Callable[[], tuple[int, dict[str, str]] | None] = lambda: None
        self.cut_after: Callable[[], int | None] = lambda: None
        self.ranges = True
        self.etag: str | None = None
        self.devices: set[str] = set()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def add(self, data: bytes) -> str:
        """Serve content; its digest."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def __enter__(self) -> "BlobServer":
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
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
            timeout = 60
            wbufsize = 32 * 1024  # a head and a small body are one packet: no waiting for acknowledgements

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                certificate: Any = self.connection.getpeercert()
                subject = {key: value for part in certificate["subject"] for key, value in part}
                wanted, condition = self.headers.get("Range"), self.headers.get("If-Range")
                with books._lock:
                    books.devices.add(subject["commonName"])
                    books.requests.append((wanted, condition))
                    fault = books.fault()
                data = books.blobs.get(self.path.rpartition("/")[2])
                if fault is None and data is None:
                    fault = 404, {}
                if fault is not None or data is None:
                    self._head(*(fault or (404, {})), 0)
                    return
                etag = books.etag or f'"{self.path.rpartition("/")[2]}"'
                found = _RANGE.fullmatch(wanted or "")
                if books.ranges and found and condition in (None, etag):
                    self._part(data, int(found[1]), etag)
                else:
                    self._head(200, {"ETag": etag}, len(data))
                    self._body(data)

            def _part(self, data: bytes, first: int, etag: str) -> None:
                if first >= len(data):
                    self._head(416, {"Content-Range": f"bytes */{len(data)}"}, 0)
                    return
                span = f"bytes {first}-{len(data) - 1}/{len(data)}"
                self._head(206, {"ETag": etag, "Content-Range": span}, len(data) - first)
                self._body(data[first:])

            def _head(self, status: int, headers: dict[str, str], length: int) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(length))
                self.end_headers()

            def _body(self, data: bytes) -> None:
                with books._lock:
                    cut = books.cut_after()
                sending = data if cut is None else data[:cut]
                for at in range(0, len(sending), _PIECE):
                    piece = sending[at : at + _PIECE]
                    self.wfile.write(piece)
                    with books._lock:
                        books.sent += len(piece)
                if len(sending) < len(data):
                    self.close_connection = True

        return Handler
