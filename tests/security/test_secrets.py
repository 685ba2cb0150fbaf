"""After a whole run of the road no secret lies where it was not put: no log, file, argument or environment."""

import base64
import contextlib
import hashlib
import io
import json
import os
import stat
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.identity import Identity, renew
from edge_runtime.outbox import EvidenceFile, Submission
from edge_runtime.protocol import DecisionKind, uuid7
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent
from edge_runtime.protocol.enrolment import EnrolmentToken
from edge_runtime.uplink import UplinkSettings
from edge_runtime.uplink.__main__ import main as uplink
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import LocalTarget
from fleet_server.init import initialise
from sim.road import Device, Server, command, enrol, running
from tests.rigs.connect_proxy import ConnectProxy
from tests.rigs.databases import new_database
from tests.rigs.gate import event
from tests.rigs.road_events import submissions
from tests.rigs.roads import put, settled, wait_for

DATABASE_PASSWORD = "dbPw-7f3a91c2"
PROXY_PASSWORD = "prPw-50c1e8b7"

CONFIGURATION = """
models: {m: {package: nowhere}}
cameras:
  one: {model: m, data_class: internal, source: {kind: synthetic}, rules: [{kind: occupancy, name: r}]}
delivery:
  state: "{state}"
  uplink: {broker: {host: localhost, port: {broker_port}}, proxy: "${file:proxy.txt}"}
"""


def with_evidence(device: Device, crop: bytes) -> Submission:
    """An event whose crop may leave."""
    clock, digest = SystemClock(), hashlib.sha256(crop).hexdigest()
    (device.state.evidence / f"{digest}.jpg").write_bytes(crop)
    key = uuid.UUID(uuid7(clock.wall().unix_ns))
    seen = event(clock, id=uuid7(clock.wall().unix_ns))
    grant = {"mode": "redacted", "name": f"{digest}.jpg", "sha256": digest, "bytes": len(crop)}
    decision = DecisionReceipt.model_validate(
        {
            "id": str(key),
            "event": seen.id,
            "revision": seen.revision,
            "decision": "send",
            "reasons": ["permitted"],
            "rule": seen.rule,
            "camera": seen.camera,
            "severity": seen.severity,
            "data_class": seen.data_class,
            "recipients": ["fleet"],
            "purpose": "operations",
            "evidence": grant,
            "at": seen.at,
        }
    )
    body = ApprovedEvent(event=seen, decision=decision).encode(compress=False)
    return Submission(
        key.bytes,
        DecisionKind.SEND,
        seen.severity.rank,
        3600 * NS_PER_S,
        body,
        receipt=decision.encode(compress=False),
        evidence=EvidenceFile(digest, len(crop)),
    )


def processes(server: Server, device: Device) -> list[psutil.Process]:
    """Everybody on both sides."""
    main = psutil.Process(server.process.pid)
    return [
        main,
        *main.children(recursive=True),
        *map(psutil.Process, (device.outbox.pid, device.uplink.pid)),
    ]


class Seen:
    """What a whole run left behind, and the secrets that it used."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.tokens: list[str] = []
        self.keys: list[bytes] = []
        self.said = ""
        self.arguments = ""
        self.environments: dict[str, str] = {}
        self.database = ""

    @property
    def secrets(self) -> list[bytes]:
        """Each in the forms in which it could be written."""
        proxy = f"user:{PROXY_PASSWORD}"
        found = [PROXY_PASSWORD, base64.b64encode(proxy.encode()).decode(), DATABASE_PASSWORD]
        for token in self.tokens:
            found.append(token)
            if token.startswith("efr1."):
                found.append(EnrolmentToken.parse(token).secret)
        return [secret.encode() for secret in found] + self.keys


def secret_lines(path: Path) -> list[bytes]:
    """The lines of a private key in PEM that hold its private part.

    The third line of a P-256 key is its public part alone, which may stand in its certificate just so.
    """
    lines = [line for line in path.read_bytes().splitlines() if len(line) > 40 and b"-----" not in line]
    return lines[:2]


@contextlib.contextmanager
def operator(server: Server) -> Iterator[FleetClient]:
    """The API in this process: ten times faster than a command."""
    client = FleetClient.to(LocalTarget(server.data))
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Init, serve with a password in the arguments, invite, enrol, run through a proxy, upload, renew, revoke."""
    folder = tmp_path_factory.mktemp("secrets")
    plain = new_database(request, folder, "postgresql")
    server = Server(folder, database=plain.replace("fleet@", f"fleet:{DATABASE_PASSWORD}@"))
    found = Seen(server, folder)
    with running(server), ConnectProxy("user", PROXY_PASSWORD) as proxy:
        place = folder / "dev-1"
        place.mkdir()
        (place / "proxy.txt").write_text(f"http://user:{PROXY_PASSWORD}@127.0.0.1:{proxy.port}\n")
        (place / "proxy.txt").chmod(0o600)
        device = enrol(server, place, "dev-1", CONFIGURATION)
        try:
            with operator(server) as client:
                _live(found, device, proxy, client)
        finally:
            device.stop()
        with operator(server) as client:
            for path in ("/v1/health", "/v1/audit", "/v1/devices", "/v1/tokens"):
                found.said += json.dumps(client.get(path))
    with psycopg.connect(plain) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        for (table,) in tables:
            rows = connection.execute(f'SELECT t::text FROM "{table}" t').fetchall()
            found.database += "\n".join(row[0] for row in rows)
    return found


def _live(found: Seen, device: Device, proxy: ConnectProxy, client: FleetClient) -> None:
    server, state = found.server, device.state
    found.tokens += [
        str(client.post("/v1/invitations", {"device": "dev-9"})["token"]),
        str(client.post("/v1/tokens", {"name": "looker", "role": "viewer"})["token"]),
        (server.data / "admin.token").read_text().strip(),
    ]
    device.start()
    put(device, [*submissions(20), with_evidence(device, os.urandom(40_000))])
    settled(server, device)
    assert wait_for(lambda: client.get("/v1/health")["evidence"].get("complete", 0) == 1)
    assert proxy.asked
    for process in processes(server, device):
        found.arguments += " ".join(process.cmdline()) + "\n"
        found.environments[" ".join(process.cmdline())] = json.dumps(process.environ())
    identity = Identity.load(state)
    assert identity is not None
    before = secret_lines(state.identity / "device.key")
    renew(identity, clock=SystemClock(), proxy=None)
    found.keys += [*before, *secret_lines(state.identity / "device.key")]
    for path in (server.data / "authority" / "ca.key", *(server.data / "tls").glob("*.key")):
        found.keys += secret_lines(path)
    client.post("/v1/devices/dev-1/revoke", {"reason": "stolen"})


def test_the_run_used_what_is_looked_for(seen: Seen) -> None:
    assert len(seen.tokens) == 3
    assert len(seen.keys) >= 4 + 3
    assert "stolen" in seen.database
    assert "dev-1" in seen.said


def test_files_hold_secrets_only_where_they_belong_and_for_their_owner_alone(seen: Seen) -> None:
    holders: dict[str, set[bytes]] = {}
    for path in seen.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            raw = path.read_bytes()
            held = {secret for secret in seen.secrets if secret in raw}
            if held or b"PRIVATE KEY" in raw:
                holders[str(path.relative_to(seen.folder))] = held
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    keys = {name for name in holders if name.endswith(".key")}
    assert set(holders) - keys <= {"fleet/admin.token", "dev-1/proxy.txt"}
    assert keys == {
        "fleet/authority/ca.key",
        "fleet/tls/server.key",
        "fleet/tls/ingest.key",
        "dev-1/state/identity/device.key",
    }


def test_no_process_shows_a_secret_to_others(seen: Seen) -> None:
    assert seen.arguments.count("\n") >= 5  # server, broker, ingest, outbox, uplink
    assert [secret for secret in seen.secrets if secret.decode() in seen.arguments] == []
    for words, environment in seen.environments.items():
        held = [secret for secret in seen.secrets if secret.decode() in environment]
        may = (
            "fleet_server" in words
        )  # the server and its ingest open the database; only their owner reads this
        assert held == ([DATABASE_PASSWORD.encode()] if may and held else []), words


def test_the_database_and_what_commands_say_hold_none(seen: Seen) -> None:
    for place in (seen.database, seen.said):
        assert [secret for secret in seen.secrets if secret.decode() in place] == []


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://fleet:{DATABASE_PASSWORD}@127.0.0.1:1/nothing",
        f"postgresql://127.0.0.1:1/nothing?user=fleet&password={DATABASE_PASSWORD}",
        f"postgresql://fleet:{DATABASE_PASSWORD}/nothing",
        f"mysql://fleet:{DATABASE_PASSWORD}@127.0.0.1/nothing",
    ],
)
def test_a_database_that_cannot_be_used_is_said_without_its_password(url: str, tmp_path: Path) -> None:
    initialise(tmp_path / "fleet")
    done = subprocess.run(
        command(
            "fleet", "serve", "--data", str(tmp_path / "fleet"), "--listen", "127.0.0.1:0", "--database", url
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2), done.stderr
    assert done.stderr.count("error: ") == 1
    assert DATABASE_PASSWORD not in done.stderr + done.stdout


def test_an_uplink_takes_a_password_from_a_file_or_its_standard_input_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = json.dumps({"proxy": f"http://user:{PROXY_PASSWORD}@127.0.0.1:1"})
    (tmp_path / "settings.json").write_text(settings)

    def said(word: str, given: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        assert uplink(["--state", str(tmp_path / "state"), "--settings", word]) == 2
        found = capsys.readouterr()
        assert PROXY_PASSWORD not in found.out + found.err
        assert found.err.count("\n") == 1
        return found.err

    assert "every user reads the proxy's password on a command line" in said(settings)
    assert "not enrolled" in said("-", settings)
    assert "not enrolled" in said(f"@{tmp_path / 'settings.json'}")
    assert "No such file" in said("@nowhere.json")
    assert "are not JSON" in said("-", "{")
    assert PROXY_PASSWORD not in repr(UplinkSettings.parse(settings))
