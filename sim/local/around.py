"""What a device on this machine has around it: heat, power and a battery, an adapter with pose and map, wheels.

Heat and battery stand in a tree that looks like /sys and /proc, which the real monitor and the real governor read.
Pose, map and the wheels' standstill are told as a robot's own software tells them, over the device's sockets.
"""

import contextlib
import json
import math
import socket
import threading
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.socket_path import short_socket_path
from edge_runtime.state import StateDirectory
from sim.local.cart import Cart
from sim.scenario.records import DeviceSpec
from sim.simulated.machine import VirtualMachine

PERIOD_S = 0.1
SPREAD_M = 0.05
_IDLE = 0.3


class Around:
    """Goes on in a thread of its own.

    Args:
        folder: of the tree; made.
        spec: of the device.
        state: of the device, where its sockets are.
        clock: of the machine.
        cart: whose wheels have a sensor; None for a body without wheels.

    Attributes:
        machine: what the device runs on; its battery drains only while it is told to.
        speaks: the adapter reports.
        maps: it reports new maps.
    """

    def __init__(
        self,
        folder: Path,
        spec: DeviceSpec,
        state: StateDirectory,
        clock: Clock,
        cart: Cart | None,
    ) -> None:
        self._spec, self._state, self._clock, self._cart = spec, state, clock, cart
        self.machine = VirtualMachine(folder, battery=spec.battery, lasts_s=math.inf)
        self.machine.warm_to(spec.air[0])
        self.machine.show()
        self.speaks = self.maps = True
        self._map_ns = clock.monotonic_ns()
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.setblocking(False)  # noqa: FBT003 - the call takes no keyword
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="around", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self._end.close()

    def _work(self) -> None:
        before_ns = self._clock.monotonic_ns()
        while not self._over.wait(PERIOD_S):
            now_ns = self._clock.monotonic_ns()
            self.machine.advance((now_ns - before_ns) / NS_PER_S, _IDLE)
            self.machine.show()
            before_ns = now_ns
            if self._spec.pose and self.speaks:
                self._report(now_ns)
            if self._cart is not None:
                self._tell(self._state.guard_socket, {"ask": "standstill", "moves": not self._cart.stands})

    def _report(self, now_ns: int) -> None:
        if self.maps:
            self._map_ns = now_ns
        report = {
            "pose": {"captured_ns": now_ns, "spread_m": SPREAD_M},
            "map": {"built_ns": self._map_ns},
        }
        self._tell(self._state.adapters_socket, report)

    def _tell(self, path: Path, value: object) -> None:
        """A datagram; whoever is away hears nothing, and nobody waits."""
        with contextlib.suppress(OSError), short_socket_path(path) as name:
            self._end.sendto(json.dumps(value).encode(), name)
