"""A device becomes a member of a fleet: against the real server over TLS, and against servers that misbehave."""

import hashlib
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from securesystemslib.signer import CryptoSigner

from edge_runtime.clock import SystemClock, WallLabel
from edge_runtime.errors import ConfigError
from edge_runtime.identity import (
    Identity,
    IdentityError,
    Refused,
    ServerUnreachable,
    WrongServer,
    enrol,
    renew,
    ssl_context,
)
from edge_runtime.identity.client import MAX_ANSWER_BYTES, checked_url
from edge_runtime.identity.files import enrolment_folder, locked
from edge_runtime.protocol.enrolment import EnrolmentState, EnrolmentToken
from edge_runtime.protocol.metadata_limits import MAX_ROOT_BYTES
from edge_runtime.state import StateDirectory
from edge_runtime.updates.trust.bootstrap import read_root, write_root
from tests.rigs.connect_proxy import ConnectProxy
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.https_peer import https_peer, response
from tests.rigs.pki import MovableClock, Pki
from tests.rigs.signed_repository import SignedRepository


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def fleet(tmp_path: Path, clock: MovableClock) -> Iterator[FleetApi]:
    yield from fleet_api(tmp_path / "server", f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock)  # type: ignore[arg-type]


@pytest.fixture
def url(fleet: FleetApi) -> Iterator[str]:
    with served(fleet) as url:
        yield url


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "device")


@pytest.fixture
def token(fleet: FleetApi) -> EnrolmentToken:
    return invite(fleet)


def invite(fleet: FleetApi, **arguments: object) -> EnrolmentToken:
    made = fleet.application.services.registry.invite("alice", **arguments)  # type: ignore[arg-type]
    return EnrolmentToken.parse(made.token)


def loaded(state: StateDirectory) -> Identity:
    identity = Identity.load(state)
    assert identity is not None
    return identity


def test_the_root_of_releases_is_there_before_the_identity(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken
) -> None:
    root = '{"signed":{"_type":"root"},"signatures":[]}'
    fleet.application.services.enrolment.release_root = lambda: root
    taken: list[tuple[str, bool]] = []

    def fails(given: str) -> None:
        taken.append((given, Identity.load(state) is None))
        raise IdentityError("the disk is full")

    with pytest.raises(IdentityError, match="the disk is full"):
        enrol(url, token, state, device="dev-1", take_root=fails)
    assert Identity.load(state) is None
    answer = enrol(url, token, state, device="dev-1", take_root=lambda given: taken.append((given, False)))
    assert answer.release_root == root  # asked again with the same key, answered the same
    assert taken == [(root, True), (root, False)]
    assert loaded(state).device == "dev-1"
    renew(loaded(state))
    assert len(taken) == 2


def test_a_root_of_300_kb_is_enrolled_with(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken
) -> None:
    """As long as a refresh may fetch it: keys of many years and people, each with a quoted line of its own."""
    repository = SignedRepository()
    for key in (CryptoSigner.generate_ed25519().public_key for _ in range(1_200)):
        repository.root.add_key(key, "root")
    root = repository.forge(repository.root, repository.signers["root"], "1.root.json").decode()
    assert 300_000 < len(root) < MAX_ROOT_BYTES
    fleet.application.services.enrolment.release_root = lambda: root
    updates = state.path / "updates"
    enrol(url, token, state, device="dev-1", take_root=lambda given: write_root(updates, given.encode()))
    assert read_root(updates) == root.encode()


def test_a_fleet_without_keys_for_releases_hands_out_no_root(
    url: str, state: StateDirectory, token: EnrolmentToken
) -> None:
    taken: list[str] = []
    assert enrol(url, token, state, take_root=taken.append).release_root is None
    assert taken == []


def test_a_device_enrols_and_its_certificate_opens_the_server(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken
) -> None:
    assert Identity.load(state) is None
    answer = enrol(url + "/", token, state, serial="SN-1", device="dev-1")
    assert answer.state is EnrolmentState.ACTIVE
    identity = loaded(state)
    assert (identity.device, identity.server_url, identity.broker) == ("dev-1", url, answer.broker)
    assert identity.client_id.startswith("dev-1-")
    assert len(identity.client_id) == len("dev-1-") + 16
    assert stat.S_IMODE(identity.key_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.identity.stat().st_mode) == 0o700
    assert {path.name for path in state.path.iterdir()} == {
        "identity",
        "enrolment",
        "outbox",
        "engines",
        "guard",
        "run",
        "evidence",
        "updates",
    }
    assert {path.name for path in enrolment_folder(state).iterdir()} == {"lock"}
    certificate = x509.load_pem_x509_certificate(identity.certificate_path.read_bytes())
    assert identity.not_after_ms == certificate.not_valid_after_utc.timestamp() * 1000
    due_s = identity.renew_in_s(SystemClock().wall())
    assert due_s is not None
    assert 17.9 < due_s / 86_400 < 20.1
    with httpx.Client(verify=ssl_context(identity), trust_env=False) as client:
        found = client.head(f"{url}/v1/evidence/{'0' * 64}")
        assert found.status_code != 401  # the server knows who asks


def test_the_key_never_leaves_the_device(
    fleet: FleetApi, tmp_path: Path, url: str, state: StateDirectory, token: EnrolmentToken
) -> None:
    enrol(url, token, state, device="dev-1")
    secret = "".join(loaded(state).key_path.read_text().splitlines()[1:-1])
    for path in (tmp_path / "server").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()


def test_a_pending_device_asks_again_with_the_same_key(
    fleet: FleetApi, url: str, state: StateDirectory, tmp_path: Path
) -> None:
    enrol(url, invite(fleet), StateDirectory(tmp_path / "first"), device="dev-1")
    token = invite(fleet)
    assert enrol(url, token, state, device="dev-1").state is EnrolmentState.PENDING
    assert Identity.load(state) is None
    key = (enrolment_folder(state) / "device.key").read_bytes()
    assert enrol(url, token, state, device="dev-1").state is EnrolmentState.PENDING
    fleet.application.services.registry.approve("bob", "dev-1")
    assert enrol(url, token, state, device="dev-1").state is EnrolmentState.ACTIVE
    assert loaded(state).key_path.read_bytes() == key


def test_a_key_that_the_server_put_out_is_replaced(
    fleet: FleetApi, url: str, state: StateDirectory, tmp_path: Path
) -> None:
    enrol(url, invite(fleet), StateDirectory(tmp_path / "first"), device="dev-1")
    token = invite(fleet)
    enrol(url, token, state, device="dev-1")
    before = (enrolment_folder(state) / "device.key").read_bytes()
    fleet.application.services.registry.revoke("bob", "dev-1")
    with pytest.raises(Refused, match="used already") as caught:
        enrol(url, token, state, device="dev-1")
    assert caught.value.code == "token_used"
    assert enrol(url, invite(fleet), state, device="dev-1").state is EnrolmentState.PENDING
    assert (enrolment_folder(state) / "device.key").read_bytes() != before


def test_an_answer_that_was_lost_is_asked_for_again(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["edge_runtime.identity.enrol"], "take", dies)
        with pytest.raises(KeyboardInterrupt):
            enrol(url, token, state, device="dev-1")
    assert Identity.load(state) is None
    assert (
        enrol(url, token, state, device="dev-1").state is EnrolmentState.ACTIVE
    )  # the same token, used once


@pytest.mark.parametrize("kind", ["another authority", "another secret"])
def test_a_wrong_token_changes_nothing(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken, kind: str
) -> None:
    error: type[Exception]
    if kind == "another authority":
        wrong, error = token.model_copy(update={"authority": "0" * 64}), WrongServer
    else:
        wrong, error = token.model_copy(update={"secret": "x" * 43}), Refused
    with pytest.raises(error) as caught:
        enrol(url, wrong, state, device="dev-1")
    assert token.secret not in str(caught.value)
    assert Identity.load(state) is None


def test_whoever_sits_between_learns_nothing(state: StateDirectory, tmp_path: Path) -> None:
    """The token pins an authority; a peer with another one gets a request for its certificate and no more."""
    mine, theirs = Pki(tmp_path / "mine"), Pki(tmp_path / "theirs")
    heads: list[bytes] = []

    def answer(connection: ssl.SSLSocket, head: bytes) -> None:
        heads.append(head)
        connection.sendall(response(theirs.authority.read_bytes(), kind="text/plain"))

    with https_peer(theirs.server(), answer) as url, pytest.raises(WrongServer, match="nothing was sent"):
        enrol(url, token_for(mine), state)
    assert [head.split(b" ")[:2] for head in heads] == [[b"GET", b"/v1/authority"]]


def test_the_right_authority_over_another_servers_tls_is_refused(
    state: StateDirectory, tmp_path: Path
) -> None:
    """The authority is public: a peer may hand out the right one, and still cannot speak TLS under it."""
    mine, theirs = Pki(tmp_path / "mine"), Pki(tmp_path / "theirs")
    heads: list[bytes] = []

    def answer(connection: ssl.SSLSocket, head: bytes) -> None:
        heads.append(head)
        connection.sendall(response(mine.authority.read_bytes(), kind="text/plain"))

    with https_peer(theirs.server(), answer) as url:
        with pytest.raises(WrongServer, match="not the server that was expected"):
            enrol(url, token_for(mine), state)
        assert len(heads) == 1


def token_for(pki: Pki) -> EnrolmentToken:
    digest = hashlib.sha256(pki.certificate.public_bytes(Encoding.DER)).hexdigest()
    return EnrolmentToken(id="0" * 16, secret="s" * 43, authority=digest)


def drip(connection: ssl.SSLSocket, head: bytes) -> None:
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Drip: 1\r\n" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def drip_body(connection: ssl.SSLSocket, head: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b"x")
        time.sleep(0.02)


def silence(connection: ssl.SSLSocket, head: bytes) -> None:
    connection.recv(1)


@pytest.mark.parametrize("answer", [drip, drip_body, silence])
def test_no_server_holds_a_device_beyond_the_deadline(
    state: StateDirectory, tmp_path: Path, answer: Callable[[ssl.SSLSocket, bytes], None]
) -> None:
    pki = Pki(tmp_path / "pki")
    with https_peer(pki.server(), answer) as url:
        began = time.monotonic()
        with pytest.raises(ServerUnreachable, match="no whole answer in time"):
            enrol(url, token_for(pki), state, deadline_s=0.6)
        assert time.monotonic() - began < 3


BAD_ANSWERS = [
    (b"{}", "200 OK", "application/json", IdentityError, "one certificate of its authority"),
    (b"x" * (MAX_ANSWER_BYTES + 1), "200 OK", "text/plain", IdentityError, "far too long"),
    (b"", "302 Found", "text/plain", IdentityError, "answered with 302"),
    (b"<html>", "404 Not Found", "text/html", IdentityError, "is this the fleet server's address"),
    (b'{"detail": "busy\\nvery"}', "503 No", "application/problem+json", ServerUnreachable, "busy very"),
    (b"[" * 5000, "403 No", "application/problem+json", IdentityError, "answered with 403"),
    (
        b'{"detail": "\\u001b[31mred", "code": 5}',
        "403 No",
        "application/problem+json",
        Refused,
        r"refused: \[31mred",
    ),
]


@pytest.mark.parametrize(("body", "status", "kind", "error", "text"), BAD_ANSWERS)
def test_odd_answers_are_one_sentence(
    state: StateDirectory,
    tmp_path: Path,
    body: bytes,
    status: str,
    kind: str,
    error: type[Exception],
    text: str,
) -> None:
    pki = Pki(tmp_path / "pki")

    def answer(connection: ssl.SSLSocket, head: bytes) -> None:
        connection.sendall(response(body, status, kind))

    with https_peer(pki.server(), answer) as url, pytest.raises(error, match=text) as caught:
        enrol(url, token_for(pki), state)
    assert "\n" not in str(caught.value)


def test_nobody_there(state: StateDirectory, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(ServerUnreachable, match="cannot be reached: Connection refused"):
            enrol(f"https://127.0.0.1:{port}", token_for(Pki(tmp_path / "pki")), state)


def test_a_server_certificate_for_another_name_is_said(state: StateDirectory, tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")

    def answer(connection: ssl.SSLSocket, head: bytes) -> None:
        connection.sendall(response(pki.authority.read_bytes(), kind="text/plain"))

    with (
        https_peer(pki.server(), answer, "127.0.0.2") as url,
        pytest.raises(WrongServer, match="for another name"),
    ):
        enrol(url, token_for(pki), state)


@pytest.mark.parametrize(
    "url",
    ["http://h", "https://", "h:1", "https://a:b@h", "https://h?q", "https://h:99999", "https://h#f", ""],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError, match="--server") as caught:
        checked_url(url)
    assert "a:b" not in str(caught.value)


def test_through_a_proxy(url: str, state: StateDirectory, token: EnrolmentToken) -> None:
    with ConnectProxy("user", "pass") as proxy:
        with pytest.raises(ServerUnreachable, match="the proxy did not let us through"):
            enrol(url, token, state, proxy=f"http://127.0.0.1:{proxy.port}")
        enrol(url, token, state, device="dev-1", proxy=f"http://user:pass@127.0.0.1:{proxy.port}")
        renew(loaded(state), proxy=f"http://user:pass@127.0.0.1:{proxy.port}")
        assert set(proxy.asked) == {url.removeprefix("https://")}


def test_refusals_are_counted_for_a_monitoring_system(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken, tmp_path: Path
) -> None:
    enrol(url, token, state, device="dev-1")
    with pytest.raises(Refused):
        enrol(url, token, StateDirectory(tmp_path / "second"))
    counted = fleet.application.services.metrics.text().decode()
    assert 'fleet_enrolments{outcome="active"} 1.0' in counted
    assert 'fleet_enrolments{outcome="token_used"} 1.0' in counted


def test_only_one_process_changes_the_identity(
    url: str, state: StateDirectory, token: EnrolmentToken
) -> None:
    with locked(state), pytest.raises(IdentityError, match="another enrolment"):
        enrol(url, token, state)


def test_a_full_disk_is_said_and_the_token_stays_good(
    url: str, state: StateDirectory, token: EnrolmentToken, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edge_runtime.identity.files.write_file", full)
        with pytest.raises(IdentityError, match="No space left on device"):
            enrol(url, token, state, device="dev-1")
    assert enrol(url, token, state, device="dev-1").state is EnrolmentState.ACTIVE


def test_renewal_brings_a_new_key_and_keeps_who_it_is(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken, clock: MovableClock
) -> None:
    enrol(url, token, state, device="dev-1")
    before = loaded(state)
    old = (before.key_path.read_bytes(), before.certificate_path.read_bytes())
    after = renew(before)
    assert (after.device, after.client_id, after.token_id) == ("dev-1", before.client_id, token.id)
    assert after.key_path.read_bytes() != old[0]
    assert after.certificate_path.read_bytes() != old[1]
    assert loaded(state) == after
    ssl_context(after)


def test_a_certificate_that_ran_out_is_renewed_and_a_revoked_one_is_not(
    fleet: FleetApi, url: str, state: StateDirectory, token: EnrolmentToken, clock: MovableClock
) -> None:
    enrol(url, token, state, device="dev-1")
    clock.pass_days(31 + 60)
    identity = renew(loaded(state), clock=clock)
    assert identity.renew_in_s(clock.wall()) is not None
    fleet.application.services.registry.revoke("bob", "dev-1")
    with pytest.raises(Refused, match="was revoked") as caught:
        renew(identity, clock=clock)
    assert caught.value.code == "certificate_revoked"
    assert loaded(state) == identity


def test_renewal_speaks_to_no_other_server(
    url: str, state: StateDirectory, token: EnrolmentToken, tmp_path: Path
) -> None:
    enrol(url, token, state, device="dev-1")
    asked: list[bytes] = []
    with https_peer(Pki(tmp_path / "theirs").server(), lambda _, head: asked.append(head)) as other:
        record = state.identity / "identity.json"
        record.write_text(record.read_text().replace(url, other))
        with pytest.raises(WrongServer):
            renew(loaded(state))
    assert asked == []


def test_a_clock_of_1970_cannot_say_when_to_renew(
    url: str, state: StateDirectory, token: EnrolmentToken
) -> None:
    class Early(SystemClock):
        def wall(self) -> WallLabel:
            return WallLabel(1_000_000_000, synced=False, boot_id="x")

    enrol(url, token, state, device="dev-1", clock=Early())
    identity = loaded(state)
    assert identity.renew_in_s(Early().wall()) is None
    assert identity.not_before_ms < identity.renew_at_ms < identity.not_after_ms


def test_damaged_files_are_said(url: str, state: StateDirectory, token: EnrolmentToken) -> None:
    enrol(url, token, state, device="dev-1")
    identity = loaded(state)
    for name in ("device.key", "device.pem", "authority.pem"):
        kept = (state.identity / name).read_bytes()
        (state.identity / name).write_bytes(b"")
        with pytest.raises(IdentityError, match="enrol again"):
            ssl_context(identity)
        (state.identity / name).unlink()
        with pytest.raises(IdentityError, match="enrol again"):
            ssl_context(identity)
        (state.identity / name).write_bytes(kept)
    (state.identity / "identity.json").write_text('{"version": 1}')
    with pytest.raises(IdentityError, match="damaged or of a newer release"):
        Identity.load(state)


KILLED = """
import os, sys
from pathlib import Path
from edge_runtime.identity import files
from edge_runtime.state import StateDirectory
from edge_runtime.protocol.enrolment import BrokerAddress

point, state = int(sys.argv[1]), StateDirectory(Path(sys.argv[2]))
if sys.argv[3] == "plain":
    files.exchange = lambda first, second: False
seen = 0
def step(frame, event, argument):
    global seen
    if event == "line" and frame.f_code.co_filename.endswith(("identity/files.py", "edge_runtime/durable.py")):
        seen += 1
        if seen == point:
            os.kill(os.getpid(), 9)
    return step
record = files.load_record(state).model_copy(update={"device": "new"})
sys.settrace(step)
files.save(state, {files.KEY: b"new", files.CERTIFICATE: b"new", files.AUTHORITY: b"new"}, record)
sys.settrace(None)
print("done", seen)
"""


WAYS = ("exchange", "plain")


@pytest.mark.parametrize("way", WAYS)
def test_killed_anywhere_there_is_the_old_identity_or_the_new_one(
    url: str, state: StateDirectory, token: EnrolmentToken, tmp_path: Path, way: str
) -> None:
    """A sample: most of it from the end, where the folders change places."""
    enrol(url, token, state, device="old")
    last = steps_of_a_save(state, tmp_path, way)
    check_kills(state, tmp_path, way, [1, last // 2, *range(max(1, last - 24), last + 1, 4), last])


@pytest.mark.trial
@pytest.mark.parametrize("way", WAYS)
def test_killed_at_every_line_there_is_the_old_identity_or_the_new_one(
    url: str, state: StateDirectory, token: EnrolmentToken, tmp_path: Path, way: str
) -> None:
    enrol(url, token, state, device="old")
    check_kills(state, tmp_path, way, range(1, steps_of_a_save(state, tmp_path, way) + 1))


def steps_of_a_save(state: StateDirectory, scratch: Path, way: str) -> int:
    """How many lines a save runs through."""
    done = run_killed(0, copied(state, scratch / "whole"), way)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[1])


def check_kills(state: StateDirectory, scratch: Path, way: str, points: Iterable[int]) -> None:
    names = ("device.key", "device.pem", "authority.pem")
    old = [(state.identity / name).read_bytes() for name in names]
    outcomes = []
    for point in sorted(set(points)):
        copy = StateDirectory(copied(state, scratch / f"at-{point}"))
        assert run_killed(point, copy.path, way).returncode == -signal.SIGKILL
        copy.ensure()  # what the next start does first
        identity = loaded(copy)
        found = [(copy.identity / name).read_bytes() for name in names]
        assert (identity.device, found) in (("old", old), ("new", [b"new"] * 3)), point
        outcomes.append(identity.device)
        shutil.rmtree(copy.path)
    assert outcomes[0] == "old"
    assert outcomes[-1] == "new"


def run_killed(point: int, state: Path, way: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED, str(point), str(state), way]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def copied(state: StateDirectory, where: Path) -> Path:
    shutil.copytree(state.path, where)
    return where
