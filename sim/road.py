"""The whole road on one machine: a fleet server, enrolled devices, and cables between them that can be pulled.

Everything is a real process with real certificates; only the distance is missing. The demo and the delivery tests
drive it: start, kill, cut, heal, and ask both sides what they counted.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from edge_runtime.clock import SystemClock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.outbox import OutboxClient
from edge_runtime.state import StateDirectory
from sim.cable import Cable
from sim.mosquitto import Mosquitto
from sim.ports import free_port
from sim.process import Process, RoadError

_READY = re.compile(
    r"^ready https://(?P<host>[^:/\s]+):(?P<port>\d+) broker (?P<broker>[^:\s]+):(?P<mqtt>\d+)$"
)
_COMMAND_S = 240.0
_MODULES = {"fleet": "fleet_server.cli.main", "edge-runtime": "edge_runtime.cli.main"}


def command(program: str, *arguments: str) -> list[str]:
    """The command line of `fleet` or `edge-runtime` in this environment."""
    return [sys.executable, "-m", _MODULES[program], *arguments]


def ask(program: str, *arguments: str, within_s: float = _COMMAND_S) -> str:
    """Run a command to its end; its standard output.

    Raises:
        RoadError: it failed or took too long.
    """
    words = f"{program} {' '.join(arguments[:2])}"
    try:
        done = subprocess.run(  # noqa: S603 - our own commands
            command(program, *arguments), capture_output=True, text=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise RoadError(f"{words} took longer than {within_s:g} s") from None
    if done.returncode:
        raise RoadError(f"{words} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout


class Server:
    """A fleet server of its own, with the embedded broker unless `broker` names another.

    Args:
        folder: for its data and its log.
        database: URL of a database instead of its own file.
        mosquitto: a broker of its own instead of the embedded one; started with the server.
        workers: processes of ingest.
        hosts: names and addresses beside loopback by which devices reach it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        database: str | None = None,
        mosquitto: Mosquitto | None = None,
        workers: int = 1,
        hosts: Sequence[str] = (),
    ) -> None:
        self.data = folder / "fleet"
        self.mosquitto, self._workers = mosquitto, workers
        self.hosts = list(hosts)
        self._extra = [
            *(("--database", database) if database else ()),
            *(("--broker", mosquitto.url) if mosquitto else ()),
        ]
        self.database = database or f"sqlite:///{self.data / 'fleet.db'}"
        self.url = ""
        self.broker = ("", 0)
        self.process = Process((), folder / "fleet.log")

    def start(self) -> None:
        """Make its directory if there is none, and serve; later starts use the same ports.

        Raises:
            RoadError: it did not start.
        """
        if not self.data.exists():
            self._init()
        listen = self.url.removeprefix("https://") or "127.0.0.1:0"
        self.process.arguments = command(
            "fleet", "serve", "--data", str(self.data), "--listen", listen, *self._extra
        )
        self.process.spawn()
        if self.mosquitto is not None and not self.mosquitto.runs:
            # it needs files that the server writes, and the server is ready only once it has a broker
            try:
                self.mosquitto.start(self.data)
            except EdgeRuntimeError as error:
                self.process.kill()
                raise RoadError(f"{error}; the server said: {self.process.last_words()}") from None
        line = self.process.ready()
        found = _READY.match(line)
        if found is None:
            raise RoadError(f"the server's ready line cannot be read: {line}")
        self.url = f"https://{found['host']}:{found['port']}"
        self.broker = (found["broker"], int(found["mqtt"]))

    def stop(self) -> None:
        """End it, and its mosquitto."""
        self.process.stop()
        if self.mosquitto is not None:
            self.mosquitto.kill()

    def family(self, word: str = "") -> list[psutil.Process]:
        """Processes that it started, those with a word in their command line: `nats-server`, `fleet_server.ingest`.

        Raises:
            RoadError: it is not running.
        """
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if any(word in part for part in process.cmdline()):
                        found.append(process)
        return found

    def _init(self) -> None:
        # the first is the one that it tells devices, and by which its own parts find each other
        hosts = [word for host in ("localhost", *self.hosts) for word in ("--host", host)]
        if self.mosquitto is None:
            ask("fleet", "init", str(self.data), "--broker-port", str(free_port()), *hosts)
        else:
            ask("fleet", "init", str(self.data), *hosts)
        words = ", ".join(json.dumps(word) for word in self.mosquitto.reload) if self.mosquitto else ""
        with (self.data / "settings.toml").open("a", encoding="utf-8") as settings:
            settings.write(f"\n[broker]\nreload = [{words}]\n" if words else "")
            settings.write(f"\n[ingest]\nworkers = {self._workers}\n")

    def fleet(self, *arguments: str) -> Any:
        """What a `fleet` command with `--json` prints.

        Raises:
            RoadError: it failed.
        """
        return json.loads(ask("fleet", *arguments, "--data", str(self.data), "--json"))

    def invite(self, device: str) -> str:
        """A token for one device."""
        return str(self.fleet("device", "invite", "--device", device)["token"])


@dataclass(slots=True)
class Device:
    """An enrolled device without cameras: its outbox and its uplink.

    Attributes:
        name: its id.
        state: its state directory.
        configuration: YAML with a `delivery` section, for the uplink.
        cable: between it and the broker.
        limits: settings of the outbox's process; its defaults when empty.
        pace: settings of an uplink alone, without the configuration's file and without review; None for the other.
    """

    name: str
    state: StateDirectory
    configuration: Path
    cable: Cable
    limits: Mapping[str, Any] = field(default_factory=dict)
    pace: Mapping[str, Any] | None = None
    outbox: Process = field(init=False)
    uplink: Process = field(init=False)

    def __post_init__(self) -> None:
        place = ("--state", str(self.state.path), "--with-parent")
        folder = self.state.path.parent
        python = (sys.executable, "-m")
        limits = ("--settings", json.dumps(self.limits))
        outbox = (*python, "edge_runtime.outbox", *limits, *place)
        self.outbox = Process(self.cable.within(outbox), folder / "outbox.log")
        words: tuple[str, ...] = ("edge_runtime.node.uplink_process", "--config", str(self.configuration))
        if self.pace is not None:
            broker = {"host": self.cable.host, "port": self.cable.port}
            words = ("edge_runtime.uplink", "--settings", json.dumps({**self.pace, "broker": broker}))
        self.uplink = Process(self.cable.within((*python, *words, *place)), folder / "uplink.log")

    def client(self) -> OutboxClient:
        """A connection of one's own to its outbox."""
        return OutboxClient(self.state.outbox_socket, SystemClock())

    def start(self) -> None:
        """Start both processes.

        Raises:
            RoadError: one did not become ready.
        """
        self.outbox.start()
        self.uplink.start()

    def kill(self) -> None:
        """SIGKILL for both, as a device that loses its power without losing its disk."""
        self.uplink.kill()
        self.outbox.kill()

    def stop(self) -> None:
        """End both processes and pull the cable."""
        self.uplink.stop()
        self.outbox.stop()
        self.cable.close()


def enrol(
    server: Server,
    folder: Path,
    name: str,
    configuration: str = "",
    *,
    limits: Mapping[str, Any] | None = None,
    pace: Mapping[str, Any] | None = None,
    cable: Cable | None = None,
) -> Device:
    """A new device behind a cable of its own; nothing of it runs yet.

    Args:
        server: running.
        folder: for its state, configuration and logs.
        name: wished id.
        configuration: YAML; `{broker_port}` and `{state}` in it are replaced.
        limits: settings of the outbox's process.
        pace: settings of an uplink without the configuration's file; see `Device`.
        cable: to the server's broker; one on loopback where none is given.

    Raises:
        RoadError: the server refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = StateDirectory(folder / "state")
    token = server.invite(name)
    ask("edge-runtime", "enrol", "--server", server.url, "--token", token, "--state", str(state.path))
    cable = cable or Cable(server.broker)
    path = folder / "device.yaml"
    text = configuration.replace("{broker_port}", str(cable.port)).replace("{state}", str(state.path))
    path.write_text(text, encoding="utf-8")
    return Device(name, state, path, cable, limits or {}, pace)


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """Start a server, and end it whatever happens."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


def start(arguments: Sequence[str], log: IO[str]) -> "subprocess.Popen[str]":
    """A child whose output goes to `log`, as wide as a terminal."""
    return subprocess.Popen(  # noqa: S603 - our own commands
        list(arguments), stdout=log, stderr=subprocess.STDOUT, text=True, env=os.environ | {"COLUMNS": "100"}
    )
