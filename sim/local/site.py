"""A server, a device that runs under its guard, a camera and a network between the two; all real processes."""

import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import yaml
from sqlalchemy import select

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.updates.store.places import Places
from fleet_server.storage import open_store
from fleet_server.storage.event_tables import EventRow
from sim.cable import Cable
from sim.local.around import Around
from sim.local.cart import Cart, Ends
from sim.local.device import Device
from sim.local.device_file import DEVICE, MODEL, SLOT, Surroundings, has_profile, write_device
from sim.local.neighbour import Neighbour
from sim.local.stepped_clock import SteppedClock
from sim.namespace import Namespace, NamespaceNetwork
from sim.network import Network
from sim.process import RoadError
from sim.road import Server, ask
from sim.robot import Robot
from sim.scenario.policy import SITE_POLICY
from sim.scenario.records import DeviceSpec, Protection, World
from sim.scene.camera import VirtualCamera

if TYPE_CHECKING:
    from sim.local.releases import Releases

WISH_M_S, BRAKE_M_S2, ACT_S = 0.1, 0.5, 0.1
TABLES = ("crawl", "full")
"""The cart of `device_file`, and its tables of limits in the lease's order."""

SERVER_TRIES = 3
BROKER_S = 60.0
"""A broker that was killed is there again within this time, also on a busy machine."""


class Site:
    """Everything, from nothing; `opened` makes and ends it.

    Args:
        folder: for everything that it leaves; made.
        spec: of the device.
        world: before its camera.
        without: protections that are taken away.
        needs: units of faults that need something more around the device: `clock` and `device` a clock of its own,
            `disk` a small one; `namespace` a network of its own.

    Attributes:
        spec, without: as given.
        device: its processes.
        server: fleet serve, with the broker that it starts.
        network: between the device and the broker.
        camera: before which the world is drawn.
        policy: the device's policy file.
        around: heat, battery, and what adapters report.
        cart: that drives; None for a camera on a wall.
        clock: of the device; None where it is the machine's.
        releases: that the fleet may assign; None where the device takes none.
        neighbour: that takes its processor.
    """

    def __init__(
        self,
        folder: Path,
        spec: DeviceSpec,
        world: World,
        *,
        without: Collection[Protection] = (),
        needs: Collection[str] = (),
    ) -> None:
        folder = folder.absolute()
        self._folder, self.spec, self._world = folder, spec, world
        self.without, self._needs = frozenset(without), frozenset(needs)
        folder.mkdir(parents=True, exist_ok=True)
        self.server = Server(folder)
        self.device = Device(folder)
        self.policy = folder / "policy.yaml"
        self.network: Network
        self.camera: VirtualCamera
        self.around: Around
        self.cart: Cart | None = None
        self.clock: SteppedClock | None = None
        self.releases: Releases | None = None
        self.neighbour = Neighbour(lambda: self.device.pid_of("perception"))
        self._clock = SystemClock()

    def build(self, stack: contextlib.ExitStack) -> None:
        """Start everything but the device.

        Raises:
            RoadError: a part did not start.
        """
        if not (MODEL / "centerface.onnx").exists():
            raise RoadError(f"{MODEL}: its weights are not there; `make assets` fetches them")
        if "namespace" in self._needs:
            self.device.namespace = stack.enter_context(Namespace())
            self.server.hosts = [self.device.namespace.here]
        with self.device.beside():
            self.camera = VirtualCamera(self._world, self.spec.local_fps)
        stack.callback(self.camera.close)
        stack.callback(self.server.stop)
        self._serve()
        if self.spec.updates:
            from sim.local.releases import Releases  # noqa: PLC0415 - it loads what makes models

            self.releases = Releases(self.server, MODEL, self._folder / "releases", SLOT, self._clock)
            stack.callback(self.releases.close)
        token = self.server.invite(DEVICE)
        ask(
            *("edge-runtime", "enrol", "--server", self.server.url),
            *("--token", token, "--state", str(self.device.state.path)),
        )
        self._connect(stack)
        self.give_policy()
        self._surround(stack)
        stack.callback(self.device.end)

    def _serve(self) -> None:
        """Start the server; its processes have half a minute each, which a busy machine may not give them at once.

        Raises:
            RoadError: it did not start.
        """
        for _ in range(SERVER_TRIES - 1):
            with contextlib.suppress(RoadError):
                return self.server.start()
        return self.server.start()

    def _connect(self, stack: contextlib.ExitStack) -> None:
        """Make the network.

        From a namespace both the broker and the server are reached over its link; the latter under the name that
        enrolment told, which is loopback. Without one only the broker is behind the network.
        """
        namespace = self.device.namespace
        if namespace is None:
            self.network = stack.enter_context(Network(self.server.broker))
            return
        self.network = stack.enter_context(NamespaceNetwork(self.server.broker, namespace))
        port = int(self.server.url.rpartition(":")[2])
        stack.enter_context(NamespaceNetwork(("127.0.0.1", port), namespace, port))
        with namespace.inside():
            stack.enter_context(Cable((namespace.here, port), ("127.0.0.1", port)))

    def _surround(self, stack: contextlib.ExitStack) -> None:
        """What the device has around it, and its configuration."""
        spec, state, drive = self.spec, self.device.state, self._folder / "drive.sock"
        if self._needs & {"clock", "device"}:
            self.clock = SteppedClock(self._folder / "clock")
            self.device.variables = self.clock.variables
        self.device.small_disk = "disk" in self._needs
        if spec.body == "cart":
            ends = Ends(state.motion_socket, drive, TABLES)
            robot = Robot(BRAKE_M_S2, ACT_S)
            self.cart = Cart(ends, robot, WISH_M_S, self._clock, gated="guard" not in self.without)
            stack.callback(self.cart.close)
        self.around = Around(self._folder / "machine", spec, state, self._clock, self.cart)
        stack.callback(self.around.close)
        stack.callback(self.neighbour.leave)
        places = Surroundings(
            folder=self._folder,
            camera=self.camera.url,
            broker=(self.network.host, self.network.port),
            state=state,
            policy=self.policy,
            root=self.around.machine.root,
            drive=drive,
            key=self.device.new_key(),
            clip=self.releases.clip if self.releases is not None else None,
        )
        write_device(places, spec, self.without)
        self.around.start()
        if self.cart is not None:
            self.cart.start()

    def is_ready(self, status: Mapping[str, Any]) -> bool:
        """Whether it works: NOMINAL, and a cart has its full speed. A body that waits for a person is served.

        Args:
            status: of the guard.
        """
        if status["state"] == "NOMINAL":
            if self.cart is not None:
                self.cart.is_wanted = True
            return self.cart is None or self.cart.at_full_speed
        if has_profile(self.spec, self.without):
            self.device.commission(status)
        return False

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
        brokers = self.server.family("nats-server")
        for process in brokers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return len(brokers)

    def step_clock(self, seconds: float) -> None:
        """Set the device's wall clock."""
        assert self.clock is not None, "a scenario whose clock steps has one"
        ahead_s = self.clock.ahead_s + seconds
        self.clock.step(ahead_s, boot_follows="boot_clock" in self.without)

    def assign(self, *, bad: bool) -> None:
        """The fleet rolls a release out to the device."""
        assert self.releases is not None, "a scenario with a release says device.updates"
        self.releases.assign(bad=bad)

    def cut_power(self) -> None:
        """All processes of the device end at once; the next boot is another one.

        Raises:
            RoadError: it does not run.
        """
        self.device.kill_guard()
        if self.clock is not None:
            self.clock.reboot()
        if "journal" in self.without:
            places = Places(self.device.state.updates)
            for path in (places.slots, places.slots_copy):
                path.unlink(missing_ok=True)

    def give_policy(self) -> None:
        """Put the policy's file there."""
        self.policy.write_text(yaml.safe_dump(SITE_POLICY), encoding="utf-8")

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
def opened(
    folder: Path,
    spec: DeviceSpec,
    world: World,
    *,
    without: Collection[Protection] = (),
    needs: Collection[str] = (),
) -> Iterator[Site]:
    """A site that runs; nothing of it is left at the end. See `Site` for what is given.

    Raises:
        RoadError: a part did not start.
    """
    site = Site(folder, spec, world, without=without, needs=needs)
    with contextlib.ExitStack() as stack:
        site.build(stack)
        site.device.start()
        yield site
