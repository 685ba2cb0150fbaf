"""Metadata over real TLS: honest, slow, endless, cut, and from somebody else; only refusals come out."""

import contextlib
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.identity.problems import IdentityError
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import FetchFailed, FetchLimits, HttpFetch
from tests.rigs.https_peer import Answer, https_peer, response
from tests.rigs.pki import Credentials, Pki
from tests.rigs.signed_repository import SignedRepository, make_release
from tests.rigs.trusting_device import TrustingDevice

UNAVAILABLE = UpdateCode.METADATA_UNAVAILABLE
QUICK = FetchLimits(gap_s=0.6, grace_s=0.3, bytes_per_s=2000, total_s=3)
"""Bounds that a test can wait for; what the device uses differs in size alone."""

BOMB = zlib.compress(bytes(8 << 20), 9)
"""8 MiB in as many kilobytes."""


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


class MetadataServer:
    """Serves a repository's files to devices with a certificate, as the fleet server does.

    Attributes:
        devices: common names that asked.
        connections: that were made.
        asked: paths, in order.
    """

    def __init__(self, fleet: SignedRepository, party: Credentials) -> None:
        self.devices: set[str] = set()
        self.asked: list[str] = []
        self.connections = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None:
                pass

            def setup(self) -> None:
                super().setup()
                server.connections += 1

            def do_GET(self) -> None:
                certificate: Any = self.connection.getpeercert()
                subject = {key: value for part in certificate["subject"] for key, value in part}
                server.devices.add(subject["commonName"])
                server.asked.append(self.path)
                data = fleet.files.get(self.path.removeprefix("/v1/updates/metadata/"))
                self.send_response(200 if data is not None else 404)
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                self.wfile.write(data or b"")

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(party.authority))
        context.load_cert_chain(party.certificate, party.key)
        context.verify_mode = ssl.CERT_REQUIRED
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"https://localhost:{self._http.server_address[1]}/"

    @contextlib.contextmanager
    def serving(self) -> Iterator["MetadataServer"]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join(10)


def fetching(pki: Pki, url: str, limits: FetchLimits = QUICK, **other: Any) -> HttpFetch:
    device = pki.device("cam-07")
    return HttpFetch(url, device.client_context, clock=SystemClock(), limits=limits, **other)


def test_a_device_refreshes_over_one_connection_with_its_certificate(pki: Pki, tmp_path: Path) -> None:
    fleet = SignedRepository()
    release = fleet.release(1)
    fleet.publish("root")
    device = TrustingDevice(tmp_path / "updates", fleet)
    with MetadataServer(fleet, pki.server()).serving() as server:
        device.road = fetching(pki, server.url, FetchLimits())
        device.trust.refresh()
        assert device.admit(device.assigned(release)).terms == release.terms
        assert server.devices == {"cam-07"}
        assert server.connections == 1
        assert server.asked[:2] == ["/v1/updates/metadata/2.root.json", "/v1/updates/metadata/3.root.json"]
        server.asked.clear()
        device.trust.refresh()  # as it mostly is: nothing is new
        assert server.asked == ["/v1/updates/metadata/3.root.json", "/v1/updates/metadata/timestamp.json"]


def drip(connection: ssl.SSLSocket, pieces: Callable[[], Iterator[bytes]], pause_s: float) -> None:
    with contextlib.suppress(OSError):
        for piece in pieces():
            connection.sendall(piece)
            time.sleep(pause_s)


def endless(connection: ssl.SSLSocket, _: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _number in range(4096):
            connection.sendall(b"0" * 65_536)


def endless_by_its_length(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    endless(connection, b"")


def packed_endless(connection: ssl.SSLSocket, _: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: {len(BOMB)}\r\n\r\n"
    connection.sendall(head.encode() + BOMB)


def slow_body(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
    drip(connection, lambda: iter([b"{"] * 100), 0.05)


def slow_head(connection: ssl.SSLSocket, _: bytes) -> None:
    drip(connection, lambda: (bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"s" * 200), 0.05)


def stalled(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{")
    time.sleep(1.2)


def cut(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{")


def nothing_at_all(connection: ssl.SSLSocket, _: bytes) -> None:
    pass


def no_http(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"220 mail.example ESMTP\r\n\r\n")


def rubbish_in_the_head(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}")


def a_chunk_that_is_none(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n")


def elsewhere(connection: ssl.SSLSocket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n")


def status(code: str) -> Answer:
    def answer(connection: ssl.SSLSocket, _: bytes) -> None:
        connection.sendall(response(b"{}", code))

    return answer


ANSWERS: list[tuple[str, Answer, UpdateCode]] = [
    ("endless", endless, UpdateCode.METADATA_INVALID),
    ("endless by its length", endless_by_its_length, UpdateCode.METADATA_INVALID),
    ("packed", packed_endless, UpdateCode.METADATA_INVALID),
    ("slow drip", slow_body, UpdateCode.DOWNLOAD_TOO_SLOW),
    ("slow drip of the head", slow_head, UpdateCode.DOWNLOAD_DEADLINE),
    ("stalled", stalled, UNAVAILABLE),
    ("cut", cut, UNAVAILABLE),
    ("nothing", nothing_at_all, UNAVAILABLE),
    ("no HTTP", no_http, UNAVAILABLE),
    ("rubbish in the head", rubbish_in_the_head, UNAVAILABLE),
    ("a chunk that is none", a_chunk_that_is_none, UNAVAILABLE),
    ("elsewhere", elsewhere, UNAVAILABLE),
    ("401", status("401 Unauthorized"), UNAVAILABLE),
    ("403", status("403 Forbidden"), UNAVAILABLE),
    ("429", status("429 Too Many Requests"), UNAVAILABLE),
    ("503", status("503 Service Unavailable"), UNAVAILABLE),
    ("a page of a hotel", status("200 OK"), UpdateCode.METADATA_INVALID),
]


@pytest.mark.parametrize(("name", "answer", "code"), ANSWERS, ids=[name for name, _, _ in ANSWERS])
def test_a_server_that_is_not_well(
    name: str, answer: Answer, code: UpdateCode, pki: Pki, fleet: SignedRepository, device: TrustingDevice
) -> None:
    """Refused by name, and the device goes on by what it has."""
    kept = device.stored()
    with https_peer(pki.server(), answer) as url:
        device.road = fetching(pki, url)
        with pytest.raises(UpdateRefused) as refused:
            device.trust.refresh()
    assert refused.value.code is code, str(refused.value)
    assert refused.value.again
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) <= 300
    assert device.stored() == kept
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_many_small_files_have_one_end(pki: Pki, fleet: SignedRepository, device: TrustingDevice) -> None:
    """A server that leads along root after root, each of them in time: the conversation ends all the same."""
    for _ in range(40):
        fleet.publish("root")

    def answer(connection: ssl.SSLSocket, head: bytes) -> None:
        time.sleep(0.1)
        name = head.split(b" ")[1].rsplit(b"/", 1)[1].decode()
        connection.sendall(response(fleet.files[name]))

    with https_peer(pki.server(), answer) as url:
        limits = FetchLimits(gap_s=5, grace_s=5, bytes_per_s=1, total_s=1)
        device.road = fetching(pki, url, limits)
        with pytest.raises(UpdateRefused) as refused:
            device.trust.refresh()
    assert refused.value.code is UpdateCode.DOWNLOAD_DEADLINE


def test_somebody_else_answers(pki: Pki, tmp_path: Path, device: TrustingDevice) -> None:
    stranger = Pki(tmp_path / "stranger")
    with https_peer(stranger.server(), status("200 OK")) as url:
        device.road = fetching(pki, url)
        with pytest.raises(UpdateRefused, match="not the fleet server") as refused:
            device.trust.refresh()
    assert refused.value.code is UNAVAILABLE


def test_a_certificate_that_is_not_valid_by_this_clock(pki: Pki, device: TrustingDevice) -> None:
    """To a clock far ahead every certificate has ended: the clock is named and not the server."""
    with https_peer(pki.stale_server(), status("200 OK")) as url:
        device.road = fetching(pki, url)
        with pytest.raises(UpdateRefused, match="set the clock") as refused:
            device.trust.refresh()
    assert refused.value.code is UpdateCode.CLOCK


def test_nobody_listens(pki: Pki, device: TrustingDevice) -> None:
    device.road = fetching(pki, "https://localhost:9")
    with pytest.raises(UpdateRefused, match="cannot be reached") as refused:
        device.trust.refresh()
    assert refused.value.code is UNAVAILABLE


def test_a_name_that_nobody_knows(pki: Pki, device: TrustingDevice) -> None:
    device.road = fetching(pki, "https://fleet.invalid")
    with pytest.raises(UpdateRefused) as refused:
        device.trust.refresh()
    assert refused.value.code is UNAVAILABLE


def test_a_proxy_that_is_none(pki: Pki, device: TrustingDevice) -> None:
    device.road = fetching(pki, "https://localhost:9", proxy="squid://user:secret@proxy")
    with pytest.raises(UpdateRefused) as refused:
        device.trust.refresh()
    assert refused.value.code is UNAVAILABLE
    assert "secret" not in str(refused.value)


def test_a_device_without_an_identity(device: TrustingDevice) -> None:
    def lost() -> ssl.SSLContext:
        raise IdentityError("the identity is damaged: enrol again with a new token")

    device.road = HttpFetch("https://localhost:9", lost, clock=SystemClock())
    with pytest.raises(UpdateRefused, match="enrol again") as refused:
        device.trust.refresh()
    assert refused.value.code is UNAVAILABLE


def test_only_failures_of_a_fetch_come_out_of_it(pki: Pki) -> None:
    with (
        https_peer(pki.server(), cut) as url,
        fetching(pki, url).conversation() as get,
        pytest.raises(FetchFailed) as failed,
    ):
        get("timestamp.json", 16_384)
    assert failed.value.status is None
    assert failed.value.code is UNAVAILABLE
