"""Everything that the demo stands on: a fleet server, the real device with its camera, and simulated devices.

The real device is `edge-runtime run` with an `updates` section, on the demo's clip played again and again. The
simulated ones live in a thread of this process; only their bodies are not real.
"""

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from deploy.demo.assets import CLIPS, MODEL
from deploy.demo.rollout.people import People
from deploy.demo.site import FOREIGN, POLICY, fresh_folder, make_server_data
from edge_runtime.durable import write_file
from edge_runtime.state import StateDirectory
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import choose
from fleet_server.operators.roles import Role
from fleet_server.serve.composition import Application, open_application
from sim.road import Server, ask, command
from sim.virtual.character import Shares
from sim.virtual.members import enrol_many
from sim.virtual.perception import Behaviour
from sim.virtual_fleet import VirtualFleet

REAL, SLOT = "cabin-demo", "detector"
"""Names of the real device, and of the model in its configuration."""

SIMULATED = tuple(f"sim-{number:02}" for number in range(1, 51))
CLIP = CLIPS / "carphone.mp4"
_END_S = 30.0
_SHARES = Shares(download_s=(0.5, 2.0), load_s=(0.3, 1.2), fps=25.0)


class Stage:
    """A context manager whose end leaves no process and no port.

    Args:
        folder: made anew: data of the server, keys of people, state of the devices, logs.
        say: told in a sentence what now stands.
        preset: of the people's keys.
        seed: of the simulated devices.
    """

    def __init__(self, folder: Path, say: Callable[[str, str], None], preset: str, seed: int) -> None:
        self._say, self._preset, self._seed = say, preset, seed
        self._ends = contextlib.ExitStack()
        self.folder = fresh_folder(folder)
        self.server = Server(self.folder)
        self.state = StateDirectory(self.folder / "device")
        self.behaviours: dict[str, Behaviour] = {}
        self.people: People
        self._application: Application
        self.fleet: VirtualFleet
        self.device: subprocess.Popen[bytes]

    def __enter__(self) -> "Stage":
        for name in FOREIGN:
            os.environ.pop(name, None)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def hold_ceremony(self) -> None:
        """Make the server's data and the people's keys; nothing runs yet.

        Raises:
            RoadError: a part refused.
        """
        make_server_data(self.server.data)
        application = open_application(self.server.data, {})
        self._ends.callback(application.close)
        self._application = application
        self.people = People(self.folder / "people", application.services.releases, self._preset)
        self.people.begin()
        one = f"{self.people.builder} holds a key to build with and a key to approve with"
        two = f"{self.people.builder} builds, {self.people.approver} approves, and a third keeps a key"
        self._say("keys", f"preset {self._preset}: {one if self._preset == 'single' else two}")

    def start(self, package: str) -> None:
        """Enrol everybody, start the server and the devices.

        Args:
            package: digest of the model that all devices were set up with.

        Raises:
            RoadError: a part did not start or refused.
        """
        members = enrol_many(self.server.data, SIMULATED)
        self._ends.callback(self.server.process.stop)
        self.server.start()
        self._say("server", f"{self.server.url}, embedded broker on port {self.server.broker[1]}")
        self._live(members, package)
        self._say("devices", f"{len(SIMULATED)} simulated ones: own keys, real state machines, no cameras")
        invitation = self._application.services.registry.invite("the demo", device=REAL)
        token, place = str(invitation.token), str(self.state.path)
        ask("edge-runtime", "enrol", "--server", self.server.url, "--token", token, "--state", place)
        self._start_device()
        self._say("device", f"{REAL}: a real one, its camera on {CLIP.name} in a loop")

    def client(self, name: str, role: str) -> FleetClient:
        """The API as one person, with a token of their own."""
        services, made = self._application.services, self.folder / f"{name}.token"
        with services.store.write() as session:
            _, text = services.tokens.create(session, name, Role(role))
        write_file(made, text.encode(), 0o600)
        authority = self.server.data / "authority" / "ca.pem"
        client = FleetClient.to(choose(self.server.url, made, authority, None, {}))
        self._ends.callback(client.close)
        return client

    @property
    def everybody(self) -> Sequence[str]:
        """Ids of all devices."""
        return (REAL, *SIMULATED)

    def said(self) -> str:
        """The end of what the real device wrote, for whoever looks for a fault."""
        return (self.folder / "device.log").read_text(encoding="utf-8", errors="replace")[-2000:]

    def _live(self, members: Sequence[Any], package: str) -> None:
        self.fleet = VirtualFleet(
            members,
            self.server.broker,
            self.server.url,
            self.folder / "simulated",
            package,
            slots=(SLOT,),
            shares=_SHARES,
            behave=lambda sha256: self.behaviours.get(sha256, Behaviour()),
            seed=self._seed,
            arrive_s=3.0,
        )
        loop, stopping = asyncio.new_event_loop(), asyncio.Event()
        thread = threading.Thread(
            target=lambda: loop.run_until_complete(self.fleet.run(stopping)), name="simulated", daemon=True
        )

        def end() -> None:
            loop.call_soon_threadsafe(stopping.set)
            thread.join(_END_S)

        thread.start()
        self._ends.callback(end)

    def _start_device(self) -> None:
        configuration = self.folder / "device.yaml"
        configuration.write_text(yaml.safe_dump(self._configuration(), sort_keys=False), encoding="utf-8")
        log = self._ends.enter_context((self.folder / "device.log").open("wb"))
        self.device = subprocess.Popen(  # noqa: S603 - our own command
            command("edge-runtime", "run", str(configuration), "--state", str(self.state.path)),
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends it in order
        )
        self._ends.callback(_end, self.device)

    def _configuration(self) -> Mapping[str, Any]:
        return {
            "version": 1,
            "device": {"name": REAL},
            "models": {SLOT: {"package": str(MODEL), "threads": 1}},
            "cameras": {
                "cabin": {
                    "model": SLOT,
                    "data_class": "restricted",
                    "source": {"kind": "file", "path": str(CLIP), "loop": True, "pacing": "real_time"},
                    "rules": [
                        {
                            "name": "driver_present",
                            "kind": "occupancy",
                            "labels": ["face"],
                            "min_height": 0.3,
                            "hold": 0.5,
                            "severity": "info",
                        }
                    ],
                }
            },
            "delivery": {
                "state": str(self.state.path).replace("${", "$${"),
                "policy": str(POLICY).replace("${", "$${"),
                "uplink": {"health_period": 5, "reconnect_cap": 2},
            },
            "updates": {"reserve_mb": 16},
        }


def _end(device: "subprocess.Popen[bytes]") -> None:
    """End the device's run with all of its processes."""
    if device.poll() is not None:
        return
    device.terminate()
    try:
        device.wait(_END_S)
    except subprocess.TimeoutExpired:
        device.kill()
        device.wait()
