"""What the command line asks, and bounds of what it waits for and takes, against a server that drips."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from edge_runtime.clock import NS_PER_S, WallLabel
from fleet_server.cli.client import FleetClient
from fleet_server.cli.errors import NotReachable, ServerRefused
from fleet_server.cli.target import LocalTarget


class Ticking:
    """A clock on which every look takes a second."""

    def __init__(self) -> None:
        self._now = 0

    def monotonic_ns(self) -> int:
        self._now += NS_PER_S
        return self._now

    def boottime_ns(self) -> int:
        return self.monotonic_ns()

    def wall(self) -> WallLabel:
        return WallLabel(self._now, True, "boot")


class Drips(BaseHTTPRequestHandler):
    """Answers with a hundred pieces of ten bytes; below `/said` with what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/said"):
            body = json.dumps(self.path).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for _ in range(100):
                self.wfile.write(b"a\r\n0123456789\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the client had enough

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads no log."""


@pytest.fixture
def client() -> Iterator[FleetClient]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Drips)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = FleetClient(lambda: LocalTarget(None), Ticking())  # type: ignore[arg-type] # never opened
    made._opened = httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}")
    yield made
    made.close()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "parameters", "asked"),
    [
        ("/said", {}, "/said"),
        ("/said", {"limit": 5, "after": None}, "/said?limit=5"),
        ("/said?state=running", {}, "/said?state=running"),
        ("/said?state=running", {"limit": 5}, "/said?state=running&limit=5"),
        ("/said/a%2Fb?x=%26", {"after": "ä b"}, "/said/a%2Fb?x=%26&after=%C3%A4+b"),
    ],
)
def test_what_stands_in_a_path_is_asked_with_the_rest(
    client: FleetClient, path: str, parameters: dict[str, Any], asked: str
) -> None:
    assert client.get(path, **parameters) == asked


def test_a_download_is_whole(client: FleetClient) -> None:
    into = io.BytesIO()
    assert client.download("/", into) == 1000
    assert into.getvalue() == b"0123456789" * 100


def test_a_download_has_a_bound_of_bytes_and_of_time(client: FleetClient) -> None:
    with pytest.raises(ServerRefused, match="more than 50 bytes"):
        client.download("/", io.BytesIO(), most=50)
    with pytest.raises(NotReachable, match="not all of it came within 1 s"):
        client.download("/", io.BytesIO(), within_s=1.0)
