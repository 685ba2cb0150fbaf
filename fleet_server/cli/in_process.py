"""The HTTP API of a data directory without a network: the same application, the same answers."""

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import anyio.from_thread
import httpx

from edge_runtime.errors import ConfigError
from fleet_server.http.app import FleetApp
from fleet_server.serve.composition import open_application

_ADMIN_TOKEN_BYTES = 1024
_PIECES = 16
_END = None


def local_client(directory: Path) -> httpx.Client:
    """A client of a data directory, with its admin token.

    Raises:
        ConfigError: it is no data directory, or its token cannot be read.
    """
    application = open_application(directory)
    token_file = application.settings.paths.admin_token
    try:
        with token_file.open("rb") as stream:
            token = stream.read(_ADMIN_TOKEN_BYTES).decode("ascii", errors="replace").strip()
    except OSError as error:
        application.close()
        raise ConfigError(f"{token_file}: {error.strerror}") from None
    return httpx.Client(
        base_url="https://in-process",
        headers={"Authorization": f"Bearer {token}"},
        transport=AsgiTransport(application.app, application.close),
        timeout=httpx.Timeout(60.0),
    )


class AsgiTransport(httpx.BaseTransport):
    """Runs requests through an ASGI application in an event loop of its own; bodies of answers stream.

    Args:
        app: the application.
        on_close: called when the client is closed.
    """

    def __init__(self, app: FleetApp, on_close: Any) -> None:
        self._app, self._on_close = app, on_close
        self._portal_context = anyio.from_thread.start_blocking_portal()
        self._portal = self._portal_context.__enter__()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Start one request and return once its answer has begun."""
        exchange = _Exchange(self._app, request)
        exchange.task = self._portal.start_task_soon(exchange.run)
        exchange.begun.wait()
        if exchange.status == 0:
            raise httpx.RemoteProtocolError("the application gave no answer")
        return httpx.Response(exchange.status, headers=exchange.headers, stream=exchange)

    def close(self) -> None:
        """End the event loop."""
        self._portal_context.__exit__(None, None, None)
        self._on_close()

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.close()


class _Exchange(httpx.SyncByteStream):
    """One request and its answer; pieces of the body wait in a bounded queue."""

    def __init__(self, app: FleetApp, request: httpx.Request) -> None:
        self._app = app
        self._body = request.read()
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "https",
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "root_path": "",
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": ("in-process", 443),
            "client": None,
        }
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_PIECES)
        self._sent = False
        self.begun = threading.Event()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.task: Any = None

    async def run(self) -> None:
        """In the event loop."""
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            self.begun.set()
            await self._put(_END)

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self._pieces.get()) is not _END:
            yield piece

    def close(self) -> None:
        """The reader leaves: the application is cancelled where it still writes."""
        if self.task is not None:
            self.task.cancel()

    async def _receive(self) -> dict[str, Any]:
        if self._sent:
            await anyio.sleep_forever()  # the client leaves by cancelling
        self._sent = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message.get("headers", ()))
            self.begun.set()
        elif message["type"] == "http.response.body" and message.get("body"):
            await self._put(message["body"])

    async def _put(self, piece: bytes | None) -> None:
        while self._pieces.full():  # this loop is the only one that puts
            await anyio.sleep(0.005)
        self._pieces.put_nowait(piece)
