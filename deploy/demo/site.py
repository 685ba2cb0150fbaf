"""The demo's site: a fleet server of its own, one device enrolled at it, and two cables that can be pulled.

All of it lies in one folder that the next demo makes anew; every port is on loopback.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from deploy.demo.compose import HERE
from edge_runtime.clock import SystemClock
from edge_runtime.document import read_document
from edge_runtime.errors import ConfigError
from edge_runtime.outbox import OutboxClient, OutboxError
from edge_runtime.state import StateDirectory
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import choose
from fleet_server.settings import ServerSettings
from sim.cable import Cable
from sim.ports import free_port
from sim.road import Device, Server, ask

POLICY = HERE / "policy.yaml"
_MARK = ".made-by-make-demo"
_DRAIN_S = 40.0
_LOOK_S = 0.2
_ASK_S = 1.0
FOREIGN = (
    *("FLEET_DATABASE", "FLEET_BROKER", "FLEET_LISTEN", "FLEET_SERVER"),
    *("FLEET_TOKEN", "FLEET_CA", "FLEET_DATA", "EDGE_RUNTIME_STATE"),
)
"""Variables of somebody's real server or device, which must not reach the demo's."""


class Site:
    """Server, device and cables; a context manager whose end leaves no process and no port.

    Args:
        folder: made anew: data of the server, state of the device, logs.
        say: told in a sentence what now stands.

    Raises:
        ConfigError: the folder holds something that no demo made.
    """

    def __init__(self, folder: Path, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._ends = contextlib.ExitStack()
        self.folder = fresh_folder(folder)
        self.server = Server(self.folder)
        self.state = StateDirectory(self.folder / "device")
        self.device: Device
        self.uploads: Cable
        self.client: FleetClient
        self.outbox = OutboxClient(self.state.outbox_socket, SystemClock(), _ASK_S)

    def __enter__(self) -> "Site":
        for name in FOREIGN:
            os.environ.pop(name, None)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def build(self, configuration: Path, name: str) -> None:
        """Start the server, enrol the device, lay the cables, and complete the device's configuration.

        Args:
            configuration: gets its `delivery` and `evidence` sections.
            name: id of the device.

        Raises:
            RoadError: a part did not start or refused.
        """
        make_server_data(self.server.data)
        self._ends.callback(self.server.process.stop)  # before the start: it may be interrupted
        self.server.start()
        port = self.server.broker[1]
        self._say("server", f"{self.server.url}, embedded broker on port {port}")
        token = self.server.invite(name)
        ask("edge-runtime", "enrol", "--server", self.server.url, "--token", token, "--state", self._place)
        self._say("device", f"{name} enrolled: its own key, a certificate of the fleet")
        cable = self._ends.enter_context(Cable(self.server.broker))
        self.uploads = self._ends.enter_context(Cable(("127.0.0.1", _port(self.server.url))))
        complete(configuration, self.state, cable.port, self.uploads.port)
        self.device = Device(name, self.state, configuration, cable)
        authority, token_file = self.server.data / "authority" / "ca.pem", self.server.data / "admin.token"
        self.client = FleetClient.to(choose(self.server.url, token_file, authority, None, {}))
        self._ends.callback(self.client.close)

    @property
    def _place(self) -> str:
        return str(self.state.path)

    @property
    def log(self) -> Path:
        """What the device's run writes on its standard error."""
        return self.folder / "device.log"

    def cut(self) -> None:
        """Pull both cables, that of the events and that of the evidence."""
        self.device.cable.cut()
        self.uploads.cut()

    def heal(self) -> None:
        """Put them back."""
        self.device.cable.heal()
        self.uploads.heal()

    def drain(self, pause: Callable[[float], None]) -> None:
        """Let a device that has ended with events in its queue come back without cameras, and deliver them.

        Raises:
            RoadError: its processes do not start.
        """
        device = self.device
        self._ends.callback(device.outbox.stop)
        self._ends.callback(device.uplink.stop)
        device.outbox.start()
        device.uplink.start()
        for _ in range(round(_DRAIN_S / _LOOK_S)):
            with contextlib.suppress(OutboxError):
                status = self.outbox.status()
                if not status.ledger.queued and not status.evidence["due"]:
                    break
            pause(_LOOK_S)
        device.uplink.stop()
        device.outbox.stop()


def make_server_data(data: Path) -> None:
    """`fleet init`, and what only this demo's server has: loopback alone, and the class `restricted`.

    Faces are restricted, and a server takes that class only where somebody has said so. Here that is all right:
    server and device are one machine, and the clips are public test clips.

    Raises:
        RoadError: it cannot be made.
        ConfigError: its settings cannot be read.
    """
    ask("fleet", "init", str(data), "--listen", "127.0.0.1:0", "--broker-port", str(free_port()))
    settings = ServerSettings.load(data, {}).paths.settings
    text = settings.read_text(encoding="utf-8")
    text = text.replace("version = 1\n", 'version = 1\naccepts = ["restricted"]\n', 1)
    text = text.replace("[broker]\n", '[broker]\nhost = "127.0.0.1"\n', 1)
    settings.write_text(text, encoding="utf-8")


def complete(configuration: Path, state: StateDirectory, broker_port: int, uploads_port: int) -> None:
    """Write the way out into a device's configuration: through the cables, under the demo's policy."""
    data: dict[str, Any] = read_document(configuration.read_text(encoding="utf-8")).data
    data["evidence"] = {"directory": str(state.path / "crops").replace("${", "$${")}
    data["delivery"] = {
        "state": str(state.path).replace("${", "$${"),
        "policy": str(POLICY).replace("${", "$${"),
        "uplink": {
            "broker": {"host": "localhost", "port": broker_port},
            "server_url": f"https://localhost:{uploads_port}",
            "health_period": 1,
            "reconnect_cap": 2,  # one device on one machine: nobody to be spread from
        },
    }
    configuration.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


def fresh_folder(folder: Path) -> Path:
    """An empty folder that only its owner can read; one of an earlier demo is removed."""
    folder = folder.absolute()
    if folder.exists():
        if not (folder / _MARK).is_file():
            raise ConfigError(f"{folder} was not made by a demo: move it away, or choose another OUT")
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True)
    (folder / _MARK).touch()
    return folder
