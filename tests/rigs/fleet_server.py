"""A real `fleet serve` in a process of its own, with its real broker and ingest.

with FleetServer(tmp_path / "data") as server:      # fleet init and fleet serve
    server.fleet("device", "list", "--json")        # the command line, in a process as well
"""

import contextlib
import json
import os
import select
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from fleet_server.authority.authority import private_pem
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import LocalTarget
from fleet_server.init import initialise
from sim.ports import free_port
from tests.rigs.brokers import Recorder
from tests.rigs.deliveries import DeviceRig
from tests.rigs.enrolments import Asker, serial_of
from tests.rigs.pki import Credentials
from tests.rigs.site import connect_to

READY_S = 120.0
"""Certificates, migrations and a broker take 5 s; beside all other tests on two slow cores 40 s were too few."""
FLEET = [sys.executable, "-m", "fleet_server.cli.main"]


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def environment() -> dict[str, str]:
    """This process's environment without another server in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}


@dataclass
class FleetServer:
    """One server. Its ports stay the same over restarts, as they do for a real one.

    Attributes:
        directory: its data directory, made when it is missing.
        database: URL instead of a file in the directory.
    """

    directory: Path
    database: str | None = None
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    url: str = field(default="", init=False)
    broker: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if not self.directory.exists():
            initialise(
                self.directory,
                listen=f"127.0.0.1:{free_port()}",
                broker_port=free_port(),
                database=self.database,
            )
        self._errors = self.directory.parent / f"{self.directory.name}.stderr"

    def __enter__(self) -> "FleetServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def authority(self) -> Path:
        return self.directory / "authority/ca.pem"

    @property
    def log(self) -> str:
        return self._errors.read_text()

    @property
    def broker_port(self) -> int:
        return int(self.broker.rpartition(":")[2])

    def start(self, *options: str) -> None:
        """Start it and wait for its ready line."""
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*FLEET, "serve", "--data", str(self.directory), *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(),
            )
        line = self._first_line(READY_S)
        words = line.split()
        assert words[:1] == ["ready"], (line, self.log)
        self.url, self.broker = words[1], words[3]
        assert urlsplit(self.url).scheme == "https"

    def stop(self, number: int = signal.SIGTERM, within_s: float = 20.0) -> int:
        """Ask it to end; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(within_s)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def kill(self) -> None:
        """SIGKILL, if it still runs, and wait for its children."""
        if self.process is None:
            return
        children = self.children()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
        psutil.wait_procs(children, timeout=15)

    def children(self) -> list[psutil.Process]:
        """Its processes, itself not among them."""
        assert self.process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def child(self, word: str) -> psutil.Process:
        """The one child whose command line has a word in it."""
        (found,) = [child for child in self.children() if any(word in part for part in child.cmdline())]
        return found

    def fleet(self, *arguments: str, within_s: float = 60.0, **variables: str) -> Finished:
        """A command of the command line, with this directory in its environment unless variables say otherwise."""
        settings = variables or {"FLEET_DATA": str(self.directory)}
        done = subprocess.run(
            [*FLEET, *arguments],
            capture_output=True,
            text=True,
            env=environment() | settings,
            timeout=within_s,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def ask(self, path: str) -> Any:
        """An answer of the API, in this process: ten times faster than a command."""
        client = FleetClient.to(LocalTarget(self.directory))
        try:
            return client.get(path)
        finally:
            client.close()

    def remote(self, token: str) -> dict[str, str]:
        """Variables with which a command speaks to it over the network."""
        return {"FLEET_SERVER": self.url, "FLEET_TOKEN": token, "FLEET_CA": str(self.authority)}

    def wait_until_ready(self, within_s: float = 30.0) -> None:
        """Wait until every part works again."""
        deadline = time.monotonic() + within_s
        while True:
            found = self.ask("/v1/health")["ready"]
            if found["ready"]:
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.2)

    def _first_line(self, within_s: float) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], within_s)
        return self.process.stdout.readline().decode() if readable else ""


@dataclass
class RealDevice:
    """An enrolled device that speaks MQTT to a real server, with one outbox file."""

    server: FleetServer
    name: str
    credentials: Credentials
    rig: DeviceRig

    @classmethod
    def enrol(cls, server: FleetServer, name: str) -> "RealDevice":
        """Invite it by the command line, and enrol over HTTPS."""
        token = server.fleet("device", "invite", "--device", name).out.strip()
        asker = Asker(name)
        context = ssl.create_default_context(cafile=str(server.authority))
        with httpx.Client(base_url=server.url, verify=context, trust_env=False) as client:
            answer = client.post("/v1/enrolment", json=asker.request(token).model_dump(mode="json"))
        assert answer.status_code == 200, answer.text
        folder = server.directory.parent
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_text(answer.json()["certificate"])
        key.write_bytes(private_pem(asker.key))
        serial = serial_of(certificate.read_text())
        found = Credentials(name, serial, certificate, key, server.authority)
        return cls(server, name, found, DeviceRig(name))

    @contextlib.contextmanager
    def connected(self) -> Iterator[Recorder]:
        """A session at the broker."""
        recorder = self._connect()
        try:
            yield recorder
        finally:
            recorder.close()

    def _connect(self, within_s: float = 10.0) -> Recorder:
        """The broker is told of a new device within a quarter of a second; a real one tries again, as this does."""
        deadline = time.monotonic() + within_s
        while True:
            with contextlib.suppress(OSError):
                recorder = connect_to(self.server.broker_port, self.credentials)
                if recorder.has_answer.wait(5) and recorder.accepted:
                    return recorder
                recorder.close()
            assert time.monotonic() < deadline, self.server.log
            time.sleep(0.2)

    def deliver(self, *events: dict[str, Any]) -> None:
        """Publish one bundle in a session of its own."""
        topic, payload = self.rig.bundle(*(self.rig.item(event=event) for event in events))
        with self.connected() as session:
            assert session.publish(topic, payload)
