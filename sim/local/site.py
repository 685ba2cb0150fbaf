"""A server, a device that runs under its guard, a camera and a network between the two; all real processes."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml
from sqlalchemy import select

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.faults import orders_file, read_orders
from edge_runtime.node.workers import ask_guard
from edge_runtime.outbox import OutboxClient, OutboxStatus, OutboxUnavailable, Submission
from edge_runtime.state import StateDirectory
from fleet_server.storage import open_store
from fleet_server.storage.event_tables import EventRow
from sim.network import Network
from sim.process import RoadError, bound
from sim.road import Server, ask, command
from sim.scenario.policy import SITE_POLICY
from sim.scenario.records import DeviceSpec, World
from sim.scene.camera import VirtualCamera

MODEL = Path(__file__).parents[2] / "models" / "centerface"
DEVICE = "sim-1"
BROKER_S = 60.0
"""A broker that was killed is there again within this time, also on a busy machine."""


class Site:
    """Everything, from nothing; `opened` makes and ends it.

    Attributes:
        server: fleet serve, with the broker that it starts.
        network: between the device and the broker.
        camera: before which the world is drawn.
        state: of the device.
        policy: the device's policy file.
    """

    def __init__(self, folder: Path, spec: DeviceSpec, world: World) -> None:
        self._folder, self._spec, self._world = folder, spec, world
        folder.mkdir(parents=True, exist_ok=True)
        self.server = Server(folder)
        self.state = StateDirectory(folder / "state")
        self.policy = folder / "policy.yaml"
        self.network: Network
        self.camera: VirtualCamera
        self._config = folder / "device.yaml"
        self._clock = SystemClock()
        self._process: subprocess.Popen[bytes] | None = None

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start everything but the device.

        Raises:
            RoadError: a part did not start.
        """
        if not (MODEL / "centerface.onnx").exists():
            raise RoadError(f"{MODEL}: its weights are not there; `make assets` fetches them")
        self.camera = VirtualCamera(self._world, self._spec.camera_fps)
        stack.callback(self.camera.close)
        stack.callback(self.server.stop)
        self.server.start()
        token = self.server.invite(DEVICE)
        ask(
            *("edge-runtime", "enrol", "--server", self.server.url),
            *("--token", token, "--state", str(self.state.path)),
        )
        self.network = Network(self.server.broker)
        stack.callback(self.network.close)
        self.give_policy()
        self._config.write_text(yaml.safe_dump(self._configuration()), encoding="utf-8")
        stack.callback(self.end)

    def _configuration(self) -> dict[str, Any]:
        source = {
            "kind": "http",
            "url": self.camera.url,
            "max_age": 3.0,
            "stall_after": 2.0,
            "frozen_after": 3.0,
            "backoff_first": 0.2,
            "backoff_max": 1.0,
            "open_timeout": 3.0,
        }
        camera = {
            "source": source,
            "model": "m",
            "data_class": "public",
            "rules": [{"kind": "absence", "name": "empty", "seconds": 2}],
        }
        return {
            "device": {"name": DEVICE, "purpose": "bench"},
            "faults": {"enabled": True},
            "models": {"m": {"package": str(MODEL), "threads": 1}},
            "cameras": {"front": camera},
            "guard": {"monitor": {"temperature": "none"}, "real_time": False},
            "delivery": {
                "state": str(self.state.path),
                "policy": str(self.policy),
                "uplink": {
                    "broker": {"host": "localhost", "port": self.network.port},
                    "reconnect_cap": 1,
                    "health_period": 5,
                },
            },
        }

    def start(self) -> None:
        """Start the device."""
        with (self._folder / "device.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                bound(command("edge-runtime", "run", str(self._config))),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self) -> None:
        """End the device, and whatever of it is left."""
        process, self._process = self._process, None
        if process is None:
            return
        left = [row["pid"] for row in (self.status() or {}).get("workers", ()) if row["pid"]]
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()

    def status(self) -> dict[str, Any] | None:
        """Of the guard; None where it does not answer."""
        return ask_guard(self.state)

    def last_words(self) -> str:
        """The end of what the device said."""
        log = self._folder / "device.log"
        return log.read_text(encoding="utf-8", errors="replace")[-800:] if log.exists() else ""

    def kill_guard(self) -> None:
        """SIGKILL; the others end with it.

        Raises:
            RoadError: it does not run.
        """
        if self._process is None or self._process.poll() is not None:
            raise RoadError(f"the guard does not run: {self.last_words()}")
        self._process.kill()
        self._process.wait()
        self._process = None

    def signal_worker(self, name: str, number: signal.Signals) -> None:
        """To one of the device's processes.

        Raises:
            RoadError: it does not run, or the guard does not answer.
        """
        rows = (self.status() or {}).get("workers", ())
        pid = next((row["pid"] for row in rows if row["name"] == name), None)
        if pid is None:
            raise RoadError(f"{name} does not run, or the guard does not answer: {self.last_words()}")
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            raise RoadError(f"{name} had just ended by itself: {self.last_words()}") from None

    def kill_broker(self) -> None:
        """SIGKILL; the server starts it again. Waits for one that is just being started.

        Raises:
            RoadError: none was there.
        """
        until, pause = self.seconds() + BROKER_S, threading.Event()
        while not self._kill_brokers():
            if self.seconds() > until:
                raise RoadError("no broker was there to be killed: the server did not start it again")
            pause.wait(0.05)

    def _kill_brokers(self) -> int:
        killed = 0
        for process in psutil.Process(self.server.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if any("nats-server" in word for word in process.cmdline()):
                    process.kill()
                    killed += 1
        return killed

    def give_policy(self) -> None:
        """Put the policy's file there."""
        self.policy.write_text(yaml.safe_dump(SITE_POLICY), encoding="utf-8")

    def order(self, unit: str, kind: str, seconds: float, amount: float | None) -> int:
        """Inject a fault, as a person at the device does; when it began, CLOCK_MONOTONIC.

        Raises:
            RoadError: it was refused.
        """
        words = ["fault", "inject", str(self._config), unit, kind, "--for", str(seconds), "--by", "scenario"]
        said = ask("edge-runtime", *words, *([] if amount is None else ["--amount", str(amount)]))
        key = said.partition(" ")[0]
        begins = [one.begins_ns for one in read_orders(orders_file(self.state)) if one.id == key]
        if not begins:
            raise RoadError(f"the order is not among those of the device: {said.strip()}")
        return begins[0]

    def put(self, submissions: list[Submission]) -> set[bytes]:
        """Hand events to the outbox; the keys that it answered for."""
        client = OutboxClient(self.state.outbox_socket, self._clock, 2.0)
        try:
            results = client.put(submissions)
        except OutboxUnavailable:
            return set()
        finally:
            client.close()
        return {one.key for one, result in zip(submissions, results, strict=True) if result.accepted}

    def outbox(self) -> OutboxStatus | None:
        """How it stands; None while it is away."""
        client = OutboxClient(self.state.outbox_socket, self._clock, 2.0)
        try:
            return client.status()
        except OutboxUnavailable:
            return None
        finally:
            client.close()

    def stored(self) -> list[tuple[bytes, str]]:
        """Keys and kinds of the server's rows, as often as they are there."""
        store = open_store(self.server.database)
        try:
            with store.read() as session:
                rows = session.execute(select(EventRow.key, EventRow.kind)).all()
                return [(bytes(row.key), row.kind) for row in rows]
        finally:
            store.close()

    def seconds(self) -> float:
        """CLOCK_MONOTONIC."""
        return self._clock.monotonic_ns() / NS_PER_S


@contextlib.contextmanager
def opened(folder: Path, spec: DeviceSpec, world: World) -> Iterator[Site]:
    """A site that runs; nothing of it is left at the end.

    Raises:
        RoadError: a part did not start.
    """
    site = Site(folder, spec, world)
    with contextlib.ExitStack() as stack:
        site.build(stack)
        site.start()
        yield site
