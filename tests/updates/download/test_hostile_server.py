"""A server that does what no honest one does, byte by byte over real TLS: each ends in bounded time and bytes."""

import contextlib
import gzip
import hashlib
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.download import Want
from edge_runtime.updates.problems import UpdateRefused
from tests.rigs.downloads import Counted, Device
from tests.rigs.https_peer import https_peer
from tests.rigs.pki import Credentials, Pki

DATA = os.urandom(200_000)
WANT = Want(hashlib.sha256(DATA).hexdigest(), len(DATA))
CHUNK = 64 * 1024
Answer = Callable[[ssl.SSLSocket, bytes], None]

SHORT = {
    "first_wait_s": 0.01,
    "longest_wait_s": 0.02,
    "answer_s": 0.4,
    "stall_s": 5.0,
    "min_bytes_s": 5_000,
    "min_window_s": 0.4,
    "deadline_s": 1.5,
}


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Connection: close", *lines, "", ""]).encode()


def meet(folder: Path, pki: Pki, party: Credentials, answer: Answer, **rules: object) -> UpdateRefused:
    """One download from such a server; its refusal, with what was claimed of the budget and what is here."""
    with https_peer(pki.server(), answer) as url:
        device = Device(folder / "updates", url, party.client_context(), **{**SHORT, **rules})
        device.budget = budget = Counted()
        with pytest.raises(UpdateRefused) as caught:
            device.fetch(WANT)
    refused = caught.value
    refused.claimed = budget.claimed  # type: ignore[attr-defined]
    refused.part = device.part(WANT)  # type: ignore[attr-defined]
    assert device.blob(WANT) is None
    assert "Traceback" not in str(refused)
    assert "\n" not in str(refused)
    return refused


def dripped(connection: ssl.SSLSocket, data: bytes, seconds: float = 0.02) -> None:
    with contextlib.suppress(OSError):
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
            time.sleep(seconds)


def test_endless_body(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    def answer(connection: ssl.SSLSocket, _head: bytes) -> None:
        connection.sendall(head("Transfer-Encoding: chunked"))
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    found = meet(tmp_path, pki, party, answer, deadline_s=30.0)
    assert (found.code, found.again) == (UpdateCode.CONTENT_MISMATCH, False)
    assert found.claimed <= WANT.length + CHUNK + 1024  # type: ignore[attr-defined]


def test_endless_body_without_any_length(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    def answer(connection: ssl.SSLSocket, _head: bytes) -> None:
        connection.sendall(head())
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(bytes(0x10000))

    found = meet(tmp_path, pki, party, answer, deadline_s=30.0)
    assert (found.code, found.again) == (UpdateCode.CONTENT_MISMATCH, False)
    assert found.claimed <= WANT.length + CHUNK + 1024  # type: ignore[attr-defined]


def test_the_right_bytes_and_then_more(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    def answer(connection: ssl.SSLSocket, _head: bytes) -> None:
        connection.sendall(head() + DATA + b"!")

    assert meet(tmp_path, pki, party, answer).code is UpdateCode.CONTENT_MISMATCH


def test_a_body_that_drips(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    """No read ever times out, and a hundred bytes a second are none."""

    def answer(connection: ssl.SSLSocket, _head: bytes) -> None:
        connection.sendall(head(f"Content-Length: {len(DATA)}"))
        dripped(connection, DATA[:1000])

    found = meet(tmp_path, pki, party, answer, deadline_s=60.0)
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_TOO_SLOW, True)


def test_framing_that_drips(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    """Bytes between two pieces never reach whoever reads pieces."""

    def answer(connection: ssl.SSLSocket, _head: bytes) -> None:
        connection.sendall(head("Transfer-Encoding: chunked"))
        dripped(connection, b"10000;" + b"x" * 2000)

    found = meet(tmp_path, pki, party, answer, deadline_s=60.0)
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_TOO_SLOW, True)


def test_a_head_that_drips(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    found = meet(tmp_path, pki, party, lambda c, _: dripped(c, b"HTTP/1.1 200 OK\r\nX-Slow: " + b"s" * 5000))
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_DEADLINE, True)
    assert "no answer within" in str(found)


def test_a_server_that_says_nothing(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    found = meet(tmp_path, pki, party, lambda *_: time.sleep(1.0))
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_DEADLINE, True)


def test_redirects_are_not_followed(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    asked = []

    def answer(connection: ssl.SSLSocket, request: bytes) -> None:
        asked.append(request)
        connection.sendall(
            head("Location: https://localhost:1/elsewhere", "Content-Length: 0", status="302 Found")
        )

    found = meet(tmp_path, pki, party, answer)
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_FAILED, False)
    assert len(asked) == 1


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_nothing_is_unpacked(tmp_path: Path, pki: Pki, party: Credentials, coding: str) -> None:
    """Ten kilobytes that would be ten megabytes."""
    bomb = gzip.compress(bytes(10_000_000))
    asked = []

    def answer(connection: ssl.SSLSocket, request: bytes) -> None:
        asked.append(request)
        connection.sendall(head(f"Content-Encoding: {coding}", f"Content-Length: {len(bomb)}") + bomb)

    found = meet(tmp_path, pki, party, answer)
    assert (found.code, found.again) == (UpdateCode.DOWNLOAD_FAILED, False)
    assert found.part == 0  # type: ignore[attr-defined]
    assert b"accept-encoding: identity" in asked[0].lower()


def test_a_compressed_body_that_does_not_say_so(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    squeezed = gzip.compress(DATA)[: len(DATA)].ljust(len(DATA), b"\0")

    def answer(connection: ssl.SSLSocket, _head: bytes) -> None:
        connection.sendall(head(f"Content-Length: {len(DATA)}") + squeezed)

    assert meet(tmp_path, pki, party, answer).code is UpdateCode.CONTENT_MISMATCH


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["Content-Range: rubbish"],
        ["Content-Range: bytes 0-199999/200000"],
        ["Content-Range: bytes 50001-199999/200000"],
        ["Content-Range: bytes 50000-199999/*"],
    ],
)
def test_a_wrong_range_is_answered_by_asking_for_the_whole(
    tmp_path: Path, pki: Pki, party: Credentials, lines: list[str]
) -> None:
    """Such a part may be anything. The whole is asked for; what is here is passed over in it."""
    asked = []

    def answer(connection: ssl.SSLSocket, request: bytes) -> None:
        ranged = b"\r\nrange: bytes=50000-" in request.lower()
        asked.append(ranged)
        if ranged:
            connection.sendall(head(*lines, status="206 Partial Content") + b"rubbish")
        else:
            connection.sendall(head(f"Content-Length: {len(DATA)}") + DATA)

    with https_peer(pki.server(), answer) as url:
        device = Device(tmp_path / "updates", url, party.client_context(), **SHORT)
        (device.store.places.parts / f"{WANT.sha256}.part").write_bytes(DATA[:50_000])
        device.fetch(WANT)
    assert device.blob(WANT) == DATA
    assert asked == [True, False]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9e9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)) + b"\r\n",
        b"HTTP/1.1 200 \xff\xfe\r\nContent-Range: \xff\r\n\r\n\x00",
        b"\x00" * 1000,
    ],
)
def test_what_is_no_http(tmp_path: Path, pki: Pki, party: Credentials, raw: bytes) -> None:
    def answer(connection: ssl.SSLSocket, _head: bytes) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(raw)

    found = meet(tmp_path, pki, party, answer, deadline_s=0.5)
    assert found.code is UpdateCode.DOWNLOAD_DEADLINE
    assert found.again


def test_a_body_that_always_ends_early(tmp_path: Path, pki: Pki, party: Credentials) -> None:
    """No byte comes twice, and none is enough."""

    def answer(connection: ssl.SSLSocket, request: bytes) -> None:
        if b"range:" in request.lower():
            connection.sendall(head("Content-Range: bytes 1000-199999/200000", status="206 Partial Content"))
        else:
            connection.sendall(head(f"Content-Length: {len(DATA)}") + DATA[:1000])

    found = meet(tmp_path, pki, party, answer, deadline_s=0.6)
    assert (found.code, found.part) == (UpdateCode.DOWNLOAD_DEADLINE, 1000)  # type: ignore[attr-defined]


def test_a_handshake_that_never_ends(tmp_path: Path, party: Credentials) -> None:
    """A port that takes connections and is silent: the deadline of the answer covers the handshake."""
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    try:
        url = f"https://localhost:{listener.getsockname()[1]}"
        device = Device(tmp_path / "updates", url, party.client_context(), **SHORT)
        with pytest.raises(UpdateRefused) as caught:
            device.fetch(WANT)
    finally:
        listener.close()
    assert caught.value.code is UpdateCode.DOWNLOAD_DEADLINE
