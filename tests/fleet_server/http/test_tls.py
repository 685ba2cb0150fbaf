"""The API as devices and operators meet it: TLS, client certificates, evidence, slow clients, live streams."""

import contextlib
import hashlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.authority.authority import private_pem
from fleet_server.http import peer
from fleet_server.operators import Role
from tests.rigs.deliveries import DeviceRig, FakeClock, grant
from tests.rigs.enrolments import Asker
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.pki import Pki

CHUNK = {"Content-Type": "application/offset+octet-stream"}


@dataclass
class Site:
    """A served application and its parties."""

    api: FleetApi
    url: str
    folder: Path

    @property
    def authority(self) -> Path:
        return self.api.application.settings.paths.ca_certificate

    def context(self, pem: str | None = None, asker: Asker | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if pem is not None and asker is not None:
            file = self.folder / f"{hashlib.sha256(pem.encode()).hexdigest()[:12]}.pem"
            file.write_bytes(pem.encode() + private_pem(asker.key))
            context.load_cert_chain(file)
        return context

    def client(self, context: ssl.SSLContext | None = None, **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, verify=context or self.context(), headers=headers, trust_env=False, timeout=10
        )

    def enrolled(self, name: str) -> tuple[httpx.Client, str, Asker]:
        asker = Asker(name)
        operator = self.api.client(Role.OPERATOR)
        token = operator.post("/v1/invitations", json={"device": name}).json()["token"]
        with self.client() as nobody:
            answer = nobody.post("/v1/enrolment", json=asker.request(token).model_dump(mode="json"))
        assert answer.status_code == 200, answer.text
        pem = answer.json()["certificate"]
        return self.client(self.context(pem, asker)), pem, asker


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS  # certificates must be good for the real TLS
    for api in fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock):
        with served(api) as url:
            yield Site(api, url, tmp_path)


def expect_evidence(site: Site, device: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    rig = DeviceRig(device)
    item = rig.item(decision={"evidence": grant(digest, len(data))})
    site.api.take(rig.bundle(item))
    return digest


def test_a_device_enrols_renews_and_hands_in_evidence(site: Site) -> None:
    client, pem, asker = site.enrolled("dock-1")
    data = bytes(range(256)) * 3000
    digest = expect_evidence(site, "dock-1", data)
    path = f"/v1/evidence/{digest}"
    with client:
        begun = client.head(path)
        assert (begun.headers["upload-offset"], begun.headers["upload-length"]) == ("0", str(len(data)))
        first = client.patch(path, content=data[:1000], headers={"Upload-Offset": "0", **CHUNK})
        assert (first.status_code, first.headers["upload-offset"]) == (204, "1000")
        wrong = client.patch(path, content=data[:1000], headers={"Upload-Offset": "0", **CHUNK})
        assert (wrong.status_code, wrong.headers["upload-offset"]) == (409, "1000")
        rest = client.patch(path, content=data[1000:], headers={"Upload-Offset": "1000", **CHUNK})
        assert (rest.status_code, rest.headers["upload-offset"]) == (204, str(len(data)))
        challenge = client.post("/v1/renewal/challenge").json()["nonce"]
        renewed = client.post("/v1/renewal", json=asker.renewal(pem, challenge).model_dump(mode="json"))
        assert renewed.status_code == 200
    operator = site.api.client(Role.OPERATOR)
    number = operator.get("/v1/events").json()["events"][0]["id"]
    fetched = operator.get(f"/v1/events/{number}/evidence")
    assert fetched.content == data
    assert operator.get(f"/v1/events/{number}").json()["evidence"]["state"] == "complete"
    assert operator.get("/v1/audit").json()["entries"][0]["action"] == "evidence.fetch"
    assert site.api.client(Role.VIEWER).get(f"/v1/events/{number}/evidence").status_code == 403


def test_evidence_that_is_not_what_was_promised_begins_anew(site: Site) -> None:
    client, _, _ = site.enrolled("dock-1")
    digest = expect_evidence(site, "dock-1", b"right" * 100)
    with client:
        path = f"/v1/evidence/{digest}"
        wrong = client.patch(path, content=b"wrong" * 100, headers={"Upload-Offset": "0", **CHUNK})
        assert (wrong.status_code, wrong.json()["code"]) == (409, "wrong_digest")
        assert client.head(path).headers["upload-offset"] == "0"
        longer = client.patch(path, content=b"right" * 101, headers={"Upload-Offset": "0", **CHUNK})
        assert longer.status_code == 413
        untyped = client.patch(path, content=b"right" * 100, headers={"Upload-Offset": "0"})
        assert untyped.status_code == 415
        right = client.patch(path, content=b"right" * 100, headers={"Upload-Offset": "0", **CHUNK})
        assert right.status_code == 204


def test_a_device_reaches_its_own_evidence_and_nothing_else(site: Site) -> None:
    mine, _, _ = site.enrolled("dock-1")
    other, _, _ = site.enrolled("gate-1")
    digest = expect_evidence(site, "dock-1", b"x" * 100)
    with mine, other:
        assert other.head(f"/v1/evidence/{digest}").status_code == 403
        begin = {"Upload-Offset": "0", **CHUNK}
        assert other.patch(f"/v1/evidence/{digest}", content=b"x", headers=begin).status_code == 403
        assert mine.head(f"/v1/evidence/{'0' * 64}").status_code == 403
        assert mine.get("/v1/events").status_code == 401
        for trick in ("..%2f..%2fadmin.token", "%2e%2e", digest.upper(), digest + "%00", digest[:-1] + "/"):
            assert mine.head(f"/v1/evidence/{trick}").status_code in (404, 405, 422), trick
            status = mine.patch(f"/v1/evidence/{trick}", content=b"x", headers=begin).status_code
            assert status in (404, 405, 422), trick
    with site.client() as nobody:
        assert nobody.head(f"/v1/evidence/{digest}").status_code == 401


def test_a_revoked_certificate_is_out_at_once_and_a_rogue_one_never_in(site: Site) -> None:
    client, _, _ = site.enrolled("dock-1")
    digest = expect_evidence(site, "dock-1", b"x" * 100)
    with client:
        assert client.head(f"/v1/evidence/{digest}").status_code == 200
        site.api.client(Role.OPERATOR).post("/v1/devices/dock-1/revoke", json={})
        assert client.head(f"/v1/evidence/{digest}").status_code == 403
    rogue = Pki(site.folder / "rogue").device("dock-1")
    context = site.context()
    context.load_cert_chain(rogue.certificate, rogue.key)
    with site.client(context) as refused, pytest.raises(httpx.HTTPError):
        refused.head(f"/v1/evidence/{digest}")


def test_the_connection_is_verified_and_modern(site: Site) -> None:
    with (
        httpx.Client(trust_env=False) as untrusting,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY"),
    ):
        untrusting.get(site.url + "/healthz")
    host, port = "localhost", int(site.url.rpartition(":")[2])
    old = site.context()
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((host, port), 5) as plain, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(plain, server_hostname=host)
    shown = ssl.get_server_certificate((host, port))
    names = x509.load_pem_x509_certificate(shown.encode()).extensions
    assert names.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)


@contextlib.contextmanager
def connection_to(site: Site) -> Iterator[ssl.SSLSocket]:
    port = int(site.url.rpartition(":")[2])
    with (
        socket.create_connection(("localhost", port), 5) as plain,
        site.context().wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.settimeout(5)
        yield connection


def received(connection: ssl.SSLSocket) -> bytes:
    try:
        return connection.recv(2000)
    except OSError:
        return b""


def test_a_client_that_sends_no_whole_request_is_let_go(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "FIRST_REQUEST_S", 0.3)
    with connection_to(site) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        began = time.monotonic()
        assert received(connection) == b""
        assert time.monotonic() - began < 3
    with site.client() as client:
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\xff" * 1000,
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_close_one_connection_only(site: Site, bytes_sent: bytes) -> None:
    with connection_to(site) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(bytes_sent)
        answer = received(connection)
    assert answer == b"" or answer.split()[1].startswith(b"4"), answer
    with site.client() as client:
        assert client.get("/healthz").status_code == 200


def read_stream(response: httpx.Response, count: int) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    number = 0
    for line in response.iter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        if line.startswith("data: "):
            found.append((number, json.loads(line[6:])))
            if len(found) == count:
                break
    return found


def test_a_live_stream_begins_now_and_is_taken_up_where_it_was_left(site: Site) -> None:
    rig = DeviceRig("dock-1")
    site.api.deliver(rig, {}, {})
    token = site.api.client(Role.VIEWER).headers["authorization"]
    with site.client(authorization=token) as client:
        with client.stream("GET", "/v1/events/stream") as response:
            threading.Timer(0.5, lambda: site.api.deliver(rig, {"rule": "live"})).start()
            ((number, event),) = read_stream(response, 1)
            assert event["rule"] == "live"
        site.api.deliver(rig, {"rule": "missed"}, {"rule": "missed-too"})
        with client.stream("GET", "/v1/events/stream", headers={"Last-Event-ID": str(number)}) as response:
            assert [event["rule"] for _, event in read_stream(response, 2)] == ["missed", "missed-too"]
        with client.stream("GET", "/v1/events/stream", params={"after_id": 0, "rule": "live"}) as response:
            assert [found for found, _ in read_stream(response, 1)] == [number]


def test_streams_are_bounded_and_given_back(site: Site) -> None:
    most = site.api.application.services.limits.streams
    streams = site.api.application.app.state.streams
    token = site.api.client(Role.VIEWER).headers["authorization"]
    streams.open = most
    with site.client(authorization=token) as client:
        full = client.get("/v1/events/stream")
        assert (full.status_code, full.json()["code"]) == (503, "too_many_streams")
        streams.open = 0
        with client.stream("GET", "/v1/events/stream") as response:
            next(response.iter_lines())
            assert streams.open == 1
    deadline = time.monotonic() + 5
    while streams.open and time.monotonic() < deadline:
        time.sleep(0.05)
    assert streams.open == 0
