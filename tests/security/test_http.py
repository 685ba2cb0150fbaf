"""The HTTP API of a running server under attack: refused, bounded, nothing given away, and it goes on answering."""

import contextlib
import hashlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from fleet_server.authority import CertificateAuthority
from fleet_server.authority.authority import new_serial, private_pem
from fleet_server.http.limits import Limits
from fleet_server.operators import Role
from fleet_server.serve.door import MOST_OF_ONE_ADDRESS
from sim.road import Server
from tests.rigs.deliveries import DeviceRig, FakeClock, grant
from tests.rigs.enrolments import Asker
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.parties import Operator, Party, admitted
from tests.rigs.pki import Credentials, MovableClock, Pki
from tests.rigs.roads import wait_for

CHUNK = {"Content-Type": "application/offset+octet-stream"}


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority))


def client_of(server: Server, party: Credentials | None = None, address: str = "127.0.0.1") -> httpx.Client:
    """A client without a token, from an address of loopback."""
    context = trusting(server.data / "authority" / "ca.pem") if party is None else party.client_context()
    return httpx.Client(
        base_url=server.url.replace("127.0.0.1", "localhost"),
        transport=httpx.HTTPTransport(verify=context, local_address=address, trust_env=False),
        timeout=20,
    )


@contextlib.contextmanager
def raw(port: int, authority: Path) -> Iterator[ssl.SSLSocket]:
    """A TLS connection for bytes of one's own."""
    with (
        socket.create_connection(("localhost", port), 5) as plain,
        trusting(authority).wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.settimeout(10)
        yield connection


def all_of(connection: ssl.SSLSocket) -> bytes:
    """What comes until the other side closes, or has said nothing for a second."""
    found = b""
    connection.settimeout(1)
    with contextlib.suppress(OSError):
        while data := connection.recv(65_536):
            found += data
    return found


def statuses(answer: bytes) -> list[int]:
    """Of all responses in it."""
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def test_one_address_cannot_have_every_place(server: Server) -> None:
    """Silent connections, which are there before TLS and before any limit of requests."""
    port = port_of(server.url)
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.3", 0)))
            for _ in range(MOST_OF_ONE_ADDRESS + 20)
        ]
        with client_of(server, address="127.0.0.2") as other:
            assert other.get("/healthz").status_code == 200
            assert other.get("/readyz").status_code == 200
        peers[-1].settimeout(10)
        assert peers[-1].recv(1) == b"", "the last of them is turned away at once"
    with client_of(server, address="127.0.0.3") as back:
        assert wait_for(lambda: answers(back), 20), "and its address is welcome when they have gone"
        token = (server.data / "admin.token").read_text().strip()
        numbers = back.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text
    (line,) = [line for line in numbers.splitlines() if line.startswith("fleet_http_turned_away_total ")]
    assert float(line.split()[1]) >= 20, "each is counted"
    assert "connections are turned away" in server.process.log.read_text()


def answers(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return client.get("/healthz").status_code == 200
    return False


SMUGGLED = b"GET /v1/devices HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n"
        + SMUGGLED,
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n" + SMUGGLED,
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nContent-Length: +44\r\n\r\n" + SMUGGLED,
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nContent-Length: 0x2c\r\n\r\n" + SMUGGLED,
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx",
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n",
        b"GET /v1/devices HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /v1/devices HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /v1/devices HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET /v1/devices?" + b"a=1&" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET  /v1/devices HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/devices HTTP/9.9\r\nHost: x\r\n\r\n",
        b"\x00" * 20_000,
    ],
)
def test_what_two_parsers_could_read_in_two_ways_is_refused(server: Server, head: bytes) -> None:
    with raw(port_of(server.url), server.data / "authority" / "ca.pem") as connection:
        with contextlib.suppress(OSError):
            connection.sendall(head)
        found = statuses(all_of(connection))
    assert all(400 <= status < 500 for status in found), found
    assert len(found) <= 1, "what stood in a body was answered as a request"


def test_methods_hosts_and_origins_open_nothing(server: Server) -> None:
    with client_of(server, address="127.0.0.4") as client:
        for method in ("OPTIONS", "TRACE", "CONNECT", "PUT", "PROPFIND", "DEBUG"):
            for path in ("/v1/events", "/healthz", "/v1/evidence/" + "0" * 64):
                answer = client.request(
                    method, path, headers={"X-Secret": "mirror-me", "Origin": "https://evil"}
                )
                assert answer.status_code in (400, 401, 404, 405), (method, path)
                assert "mirror-me" not in answer.text
        for headers in (
            {"Host": "evil.example", "Origin": "https://evil.example"},
            {"Host": "evil.example:1", "X-Forwarded-Host": "evil.example", "X-Forwarded-For": "10.9.8.7"},
            {"Host": "evil.example", "Forwarded": "for=10.9.8.7;host=evil.example"},
        ):
            for path in ("/healthz", "/v1/events", "/openapi.json", "/v1/events/"):
                answer = client.get(path, headers=headers)
                assert "evil.example" not in answer.text + str(answer.headers)
                assert not [name for name in answer.headers if name.lower().startswith("access-control")]
                assert answer.status_code in (200, 401, 404)


def certificates(server: Server, tmp_path: Path) -> dict[str, Credentials | None]:
    """One in each state in which it is not good for a device's evidence."""
    operator = Operator(server)
    revoked, replaced, other = (Party.enrolled(server) for _ in range(3))
    operator.post(f"/v1/devices/{revoked.name}/revoke", {"reason": "stolen"})
    token = operator.post("/v1/invitations", {"device": replaced.name})["token"]
    admitted(server, replaced.name, token, state="pending")
    operator.post(f"/v1/devices/{replaced.name}/approve", {})
    unknown = of_the_authority(server, tmp_path, "unknown", other.name, MovableClock())
    return {
        "none": None,
        "revoked": revoked.credentials,
        "superseded": replaced.credentials,
        "another device's": other.credentials,
        "of no row": unknown,
    }


def of_the_authority(server: Server, folder: Path, stem: str, name: str, clock: MovableClock) -> Credentials:
    """A certificate that the server's own authority signed, as a clock says, and that no row knows."""
    authority = server.data / "authority" / "ca.pem"
    signer = CertificateAuthority.load(server.data / "authority" / "ca.key", authority, clock)
    key, serial = Asker(name).key, new_serial()
    issued = signer.sign_client(name, key.public_key(), serial=serial, lifetime_s=86_400)
    files = folder / f"{stem}.pem", folder / f"{stem}.key"
    files[0].write_text(issued.pem)
    files[1].write_bytes(private_pem(key))
    return Credentials(name, serial, *files, authority)


def test_evidence_needs_the_present_certificate_of_its_device(server: Server, tmp_path: Path) -> None:
    owner = Party.enrolled(server)
    crop = os.urandom(5000)
    digest = hashlib.sha256(crop).hexdigest()
    path = f"/v1/evidence/{digest}"
    owner.send(owner.rig.bundle(owner.rig.item(decision={"evidence": grant(digest, len(crop))})))
    begin = {"Upload-Offset": "0", **CHUNK}
    with client_of(server, owner.credentials) as client:
        assert wait_for(lambda: client.head(path).status_code == 200)
    for kind, party in certificates(server, tmp_path).items():
        with client_of(server, party) as client:
            found = client.head(path).status_code, client.patch(path, content=crop, headers=begin).status_code
            assert set(found) == {401 if party is None else 403}, kind
    old = MovableClock()
    old.pass_days(-10)
    rogue = Pki(tmp_path / "rogue").device(owner.name)
    expired = of_the_authority(server, tmp_path, "expired", owner.name, old)
    for party in (expired, Credentials(*_files_of(rogue), server.data / "authority" / "ca.pem")):
        with client_of(server, party) as client, pytest.raises(httpx.HTTPError):
            client.head(path)

    with client_of(server, owner.credentials) as client:
        for offset in ("1", "999999999999999", "-1", "0x0", "1e3", "", "9" * 40):
            answer = client.patch(path, content=crop, headers={"Upload-Offset": offset, **CHUNK})
            assert answer.status_code in (409, 422), offset
        assert client.patch(path, content=crop + b"x", headers=begin).status_code == 413
        assert client.patch(path, content=bytes(5000), headers=begin).status_code == 409, "another digest"
        for trick in (
            "../admin.token",
            "%2e%2e%2fadmin.token",
            f"{digest}%00",
            f"{digest}\u2024",
            f"{digest}/../x",
        ):
            assert client.patch(f"/v1/evidence/{trick}", content=b"x", headers=begin).status_code in (
                404,
                405,
                422,
            )
        assert client.head(path).headers["upload-offset"] == "0"
        assert client.patch(path, content=crop, headers=begin).status_code == 204
    names = {file.name for file in (server.data / "evidence").rglob("*") if file.is_file()}
    assert all(set(name.split(".")[0]) <= set("0123456789abcdef") for name in names), names


def _files_of(party: Credentials) -> tuple[str, str, Path, Path]:
    return party.name, party.serial, party.certificate, party.key


STRICT = Limits(body_s=0.6, chunk_s=0.6, send_s=0.6, token_streams=2, streams=3)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[tuple[FleetApi, str]]:
    """A served application whose patience is short."""
    clock = FakeClock()
    clock.wall_ms = SystemClock().wall().unix_ns // NS_PER_MS
    for api in fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}", STRICT, clock):
        with served(api) as url:
            yield api, url


def authority_of(api: FleetApi) -> Path:
    return api.application.settings.paths.ca_certificate


def test_a_body_that_drips_is_given_up(strict: tuple[FleetApi, str]) -> None:
    api, url = strict
    for head in (
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
        b"POST /v1/enrolment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
    ):
        with raw(port_of(url), authority_of(api)) as connection:
            connection.sendall(head)
            connection.settimeout(0.1)
            answer = b""
            for _ in range(100):
                with contextlib.suppress(OSError):
                    connection.sendall(b"1\r\nx\r\n" if b"chunked" in head else b"x")
                    answer = connection.recv(65_536)
                    break
            assert statuses(answer) == [408], head


def test_streams_of_one_token_leave_places_for_others(strict: tuple[FleetApi, str]) -> None:
    api, url = strict
    greedy, other = (api.client(Role.VIEWER).headers["authorization"] for _ in range(2))
    context = trusting(authority_of(api))
    with contextlib.ExitStack() as stack:
        kept: list[Iterator[str]] = []

        def stream(token: str) -> httpx.Response:
            client = stack.enter_context(
                httpx.Client(base_url=url, verify=context, trust_env=False, timeout=10)
            )
            found = stack.enter_context(
                client.stream("GET", "/v1/events/stream", headers={"Authorization": token})
            )
            if found.status_code == 200:
                lines = found.iter_lines()
                next(lines)
                kept.append(lines)  # one that is thrown away closes its stream
            return found

        assert [stream(greedy).status_code for _ in range(3)] == [200, 200, 429]
        assert stream(other).status_code == 200
        assert stream(other).status_code == 503
    streams = api.application.app.state.streams
    assert wait_for(lambda: (streams.open, dict(streams.of_token)) == (0, {}), 10)


def test_streams_that_are_asked_for_at_once_are_as_few(strict: tuple[FleetApi, str]) -> None:
    api, url = strict
    token = api.client(Role.VIEWER).headers["authorization"]
    context = trusting(authority_of(api))
    together, over = threading.Barrier(12), threading.Event()

    def ask() -> int:
        with httpx.Client(base_url=url, verify=context, trust_env=False, timeout=20) as client:
            client.get("/healthz")
            together.wait(20)
            with client.stream("GET", "/v1/events/stream", headers={"Authorization": token}) as found:
                if found.status_code == 200:
                    lines = found.iter_lines()
                    next(lines)
                    over.wait(20)
                return found.status_code

    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask) for _ in range(12)]
        assert wait_for(lambda: sum(found.done() for found in asked) == 10, 20)
        over.set()
    assert sorted(found.result() for found in asked) == [200] * 2 + [429] * 10


def test_a_reader_that_takes_nothing_is_let_go(
    strict: tuple[FleetApi, str], caplog: pytest.LogCaptureFixture
) -> None:
    api, url = strict
    token = api.client(Role.VIEWER).headers["authorization"]
    rig = DeviceRig("dock-1")
    for _ in range(20):
        api.deliver(rig, *({"rule": "r" * 60, "camera": "c" * 60} for _ in range(60)))
    streams = api.application.app.state.streams
    with (
        socket.socket() as plain,
        contextlib.ExitStack() as stack,
    ):
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("localhost", port_of(url)))
        connection = stack.enter_context(
            trusting(authority_of(api)).wrap_socket(plain, server_hostname="localhost")
        )
        connection.sendall(
            f"GET /v1/events/stream?after_id=0 HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n".encode()
        )
        assert wait_for(lambda: streams.open == 1)
        began = time.monotonic()
        while streams.open and time.monotonic() - began < 30:
            api.deliver(rig, *({"rule": "r" * 60} for _ in range(60)))
            time.sleep(0.05)
        assert streams.open == 0
    assert "Traceback" not in caplog.text
    with httpx.Client(base_url=url, verify=trusting(authority_of(api)), trust_env=False) as client:
        assert client.get("/healthz").status_code == 200
