"""A simulated device that can be switched off and on, and the time around it."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from hil.device_parts import SeenEvent
from hil.rig import Pace
from hil.simulated.view import PlainView
from sim.scenario.records import DeviceSpec
from sim.simulated.clock import SimClock
from sim.simulated.device import SimDevice, View
from sim.simulated.updates import SimUpdates

STEP_S = 0.03
"""Of simulated time, and shorter than a lease: a cart whose lease ended between two steps never drives."""

CART = DeviceSpec(body="cart", camera_fps=5.0)
STILL = DeviceSpec(body="camera", camera_fps=0.0)
HOT = DeviceSpec(body="camera", camera_fps=0.0, heat=True, air=(25.0, 45.0), warms=200.0)
LONG: Mapping[Pace, tuple[DeviceSpec, float]] = {
    "minutes": (STILL, 0.25),
    "heat": (HOT, 1.0),
    "hours": (STILL, 60.0),
}
_LOOK_S = 1.0
"""Devices of long runs, with the steps of their time."""


class SimulatedBench:
    """One device with its plug; also the rig's clock.

    Args:
        folder: for the device's state; empty.

    Attributes:
        view: what the camera is pointed at.
        updates: of the device, with a clock that outlives boots.
        device: None while it is off.
        events: since the rig was opened.
        frames: since the device was switched on.
        passed: commands of all boots before this one.
        throttled_s: of devices that are gone.
        linked: the network lets something through.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.view = PlainView()
        self.updates_clock = SimClock()
        self.updates_root = folder / "updates"
        self.updates = SimUpdates(self.updates_root, self.updates_clock, frozenset())
        self.updates.power_off()
        self.device: SimDevice | None = None
        self.events: list[SeenEvent] = []
        self.frames = self.passed = self._boots = 0
        self.throttled_s = 0.0
        self.linked = True
        self._now_ns = 0
        self._unix_ns = SimClock().unix_ns
        self._step_s, self._spec, self._place = STEP_S, CART, folder / "device"
        self._before: SimDevice | None = None

    # ---- power

    def switch_on(self) -> None:
        """The device boots, where it is not on."""
        if self.device is not None:
            return
        self._boots += 1
        self.frames = 0
        self.device = self._made()
        self.updates_clock.boot_id = self.device.clock.boot_id
        self.updates.boot()

    def switch_off(self) -> None:
        """The device is off, in the middle of whatever it did."""
        if self.device is None:
            return
        self._put_away(self.device)
        self._before, self.device = self.device, None
        self.updates.power_off()

    def _made(self) -> SimDevice:
        clock = SimClock(unix_ns=self._unix_ns, boot_id=f"simulated-{self._boots}")
        view = View(self.view.draw, self.view.truth)
        device = SimDevice(self._place, self._spec, view, frozenset(), clock)
        if self._before is not None:  # the server and the network are still those of before
            device.uplink.server = self._before.uplink.server
            device.load = self._before.load
        device.uplink.up = self.linked
        return device

    def _put_away(self, device: SimDevice) -> None:
        self.passed += device.motion.passed if device.motion is not None else 0
        self.throttled_s += device.machine.heat.throttled_s
        device.close()

    def close(self) -> None:
        """End it."""
        self.switch_off()

    # ---- time

    @property
    def look_s(self) -> float:
        """As often as time steps; in long runs once a second at least."""
        return min(self._step_s, _LOOK_S)

    def now(self) -> float:
        """Seconds since the rig was opened."""
        return self._now_ns / NS_PER_S

    def wait(self, seconds: float) -> None:
        """Let time pass for the device, and without it while it is off."""
        left_ns = round(seconds * NS_PER_S)
        while left_ns > 0:
            step_ns = min(left_ns, round(self._step_s * NS_PER_S))
            left_ns -= step_ns
            self._now_ns += step_ns
            self._unix_ns += step_ns
            self.updates_clock.advance(step_ns)
            if self.device is None:
                continue
            seen = self.device.step(step_ns / NS_PER_S)
            self.frames += seen.taken
            self.events += [
                SeenEvent(one.rule, one.state.value, one.latency_ms, one.late) for one in seen.events
            ]
            self.updates.step()

    @contextlib.contextmanager
    def long_run(self, pace: Pace) -> Iterator[None]:
        """Another device in the place of this one: it stands still and sees nothing."""
        kept = self.device, self._before, self._spec, self._place
        self._spec, self._step_s = LONG[pace]
        self._place = self._folder / f"long-{self._now_ns}"
        self.device, self._before = self._made(), None
        try:
            yield
        finally:
            if self.device is not None:
                self._put_away(self.device)
            self._step_s = STEP_S
            self.device, self._before, self._spec, self._place = kept
