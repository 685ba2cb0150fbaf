"""Runs a scenario on a simulated device, and leaves a trace."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.faults import Injection, injection, orders_file, write_orders
from sim.scenario.faults import WORLD, fault_text
from sim.scenario.records import Fault, Protection, Scenario
from sim.scenario.trace import Trace, Window
from sim.scene.render import Renderer
from sim.simulated.device import SimDevice, View
from sim.simulated.driving import Driving, names_of
from sim.simulated.eyes import ABSENCE_S, Seen
from sim.simulated.post import POLICY

_READY_S = 120.0


class NeverReady(EdgeRuntimeError):
    """The device did not come to work before the faults began."""


def run_simulated(
    scenario: Scenario,
    without: frozenset[Protection] = frozenset(),
    view: Callable[[Renderer], View] | None = None,
) -> Trace:
    """Run it to its end; the same scenario always gives the same trace.

    Args:
        scenario: what happens.
        without: protections that are taken away.
        view: what the camera sees instead of the drawn world, for many quick runs.

    Raises:
        NeverReady: the device did not come to work.
    """
    renderer = Renderer(scenario.world)
    seen = View(renderer.draw, renderer.truth) if view is None else view(renderer)
    with tempfile.TemporaryDirectory(prefix="sim-") as folder:
        device = SimDevice(Path(folder), scenario.device, seen, without)
        try:
            return _Run(scenario, device, renderer).trace()
        finally:
            device.close()


@dataclass(slots=True)
class _Action:
    at_ns: int
    do: Callable[[], None]


class _Run:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, device: SimDevice, renderer: Renderer) -> None:
        self._scenario, self._device, self._renderer = scenario, device, renderer
        self._trace = Trace()
        self._actions: list[_Action] = []
        self._held: frozenset[str] = frozenset()
        self._stop_from_m: float | None = None
        self._blind_since: float | None = None
        self._zero_ns = 0

    def trace(self) -> Trace:
        """Until the device works, then the timeline, then what is left to do."""
        device, scenario = self._device, self._scenario
        warm = min(scenario.step, 0.05)
        for _ in range(round(_READY_S / warm)):
            device.step(warm)
            if device.ready():
                break
        else:
            tripped = ", ".join(sorted(names_of(device.tripped))) or "nothing"
            raise NeverReady(f"{scenario.name}: still {device.guarding.state.value}; {tripped} holds")
        self._zero_ns = device.clock.now_ns
        passed = 0 if device.driving is None else device.driving.passed
        self._schedule()
        self._watch(Seen())
        while self._now() < scenario.duration:
            for action in [one for one in self._actions if one.at_ns <= device.clock.now_ns]:
                self._actions.remove(action)
                action.do()
            self._watch(device.step(scenario.step))
        self._close(passed)
        return self._trace

    def _now(self) -> float:
        return (self._device.clock.now_ns - self._zero_ns) / NS_PER_S

    def _schedule(self) -> None:
        orders: list[Injection] = []
        for fault in self._scenario.fault:
            ends = self._scenario.duration if fault.lasts is None else fault.at + fault.lasts
            self._trace.windows.append(Window(fault.name, fault_text(fault), fault.at, ends))
            self._at(fault.at, lambda fault=fault: self._tell(fault))  # type: ignore[misc]
            if (fault.unit, fault.kind) in WORLD:
                self._world(fault, ends)
            else:
                orders.append(self._order(fault, len(orders)))
        if orders:
            write_orders(orders_file(self._device.state), orders)

    def _order(self, fault: Fault, number: int) -> Injection:
        return injection(
            fault.unit,
            fault.kind,
            id=f"{number:08x}",
            begins_ns=self._zero_ns + round(fault.at * NS_PER_S),
            for_s=fault.lasts or 1.0,
            boot_id="simulated",
            amount=fault.amount,
            by=self._scenario.name,
        )

    def _at(self, seconds: float, do: Callable[[], None]) -> None:
        self._actions.append(_Action(self._zero_ns + round(seconds * NS_PER_S), do))

    def _tell(self, fault: Fault) -> None:
        self._trace.told.append((self._now(), f"{fault.name}: {fault_text(fault)}"))
        if self._device.driving is not None and self._stop_from_m is None:
            self._stop_from_m = self._device.driving.robot.way_m

    def _world(self, fault: Fault, ends: float) -> None:
        """Bring it about, and put it right at its end."""
        device, begins = self._device, fault.at
        standard = WORLD[fault.unit, fault.kind].amount
        amount = (standard or 0.0) if fault.amount is None else fault.amount
        during = {
            ("lens", "covered"): (self._cover, self._uncover),
            ("lens", "dirty"): (lambda: self._dirt(amount), lambda: self._dirt(self._scenario.world.dirt)),
            ("pose", "silent"): (lambda: self._adapter(speaks=False), lambda: self._adapter(speaks=True)),
            ("map", "silent"): (lambda: self._mapper(maps=False), lambda: self._mapper(maps=True)),
            ("link", "lost"): (self._lose, self._find),
            ("guard", "stopped"): (lambda: self._freeze(stopped=True), lambda: self._freeze(stopped=False)),
            ("policy", "missing"): (self._take_policy, self._give_policy),
        }
        once: dict[tuple[str, str], Callable[[], None]] = {
            ("clock", "steps"): lambda: device.clock.step_wall(amount),
            ("worker", "hung"): device.hang,
            ("guard", "killed"): device.kill_guard,
        }
        key = (fault.unit, fault.kind)
        if key in (("air", "warms"), ("battery", "drains")):
            return  # the device does it by itself, all the time
        if key in once:
            self._at(begins, once[key])
        elif key in during:
            do, undo = during[key]
            self._at(begins, do)
            self._at(ends, undo)
        else:  # a connection that breaks again and again, or a broker that is killed and comes back
            away = 0.0 if fault.unit == "link" else min(1.0, amount / 2)
            at = begins
            while at < ends:
                self._at(at, self._lose if away else device.post.cut)
                if away:
                    self._at(at + away, self._find)
                at += amount

    def _cover(self) -> None:
        self._renderer.covered = True

    def _uncover(self) -> None:
        self._renderer.covered = False

    def _dirt(self, share: float) -> None:
        self._renderer.dirt = share

    def _adapter(self, *, speaks: bool) -> None:
        self._device.monitor.speaks = speaks

    def _mapper(self, *, maps: bool) -> None:
        self._device.monitor.maps = maps

    def _lose(self) -> None:
        self._device.post.cut()
        self._device.post.up = False

    def _find(self) -> None:
        self._device.post.up = True

    def _freeze(self, *, stopped: bool) -> None:
        self._device.guarding.stopped = stopped

    def _take_policy(self) -> None:
        self._device.post.policy = None

    def _give_policy(self) -> None:
        self._device.post.policy = POLICY

    def _watch(self, seen: Seen) -> None:
        """Take down how it stands."""
        device, trace, at = self._device, self._trace, self._now()
        trace.changed(at, device.guarding.state.value, sorted(names_of(device.tripped)))
        held = names_of(device.tripped)
        trace.trips(at, held, self._held)
        self._held = held
        self._judge_absences(seen, at)
        trace.counts["frames"] += seen.taken
        self._curves(at)

    def _curves(self, at: float) -> None:
        device, trace = self._device, self._trace
        trace.add("queue", "events", at, device.post.waiting())
        if device.driving is not None:
            robot = device.driving.robot
            trace.add("speed", "m/s", at, robot.v_m_s)
            self._measure_stop(device.driving)
            trace.add("commands", "passed", at, device.driving.passed)
            if device.spec.battery is not None and device.driving.open and not robot.stands:
                trace.add("charge_moving", "share", at, device.machine.charge or 0.0)
        if device.spec.heat:
            trace.add("die", "C", at, device.machine.heat.die_c)
            trace.add("clock", "share", at, device.machine.heat.clock)
        if device.spec.battery is not None:
            trace.add("charge", "share", at, device.machine.charge or 0.0)

    def _measure_stop(self, driving: Driving) -> None:
        """The way from the first fault until the body stood for the first time."""
        if self._stop_from_m is None or "stop" in self._trace.values or not driving.robot.stands:
            return
        way = self._trace.values["stop"] = driving.robot.way_m - self._stop_from_m
        self._trace.values["range_left"] = self._device.guarding.profile.stopping.free_range_m - way

    def _judge_absences(self, seen: Seen, at: float) -> None:
        """An absence that is told while the world has somebody in it is a false one."""
        if self._device.eyes is None:
            return
        for event in seen.events:
            if event.rule != "empty" or event.revision != 1:
                continue
            since = self._device.eyes.seconds() - ABSENCE_S
            somebody = any(
                sight.visible
                for moment in range(int(ABSENCE_S * 2))
                for sight in self._renderer.truth(since + 0.5 * moment + 0.25)
            )
            self._trace.counts["false_absences"] += somebody
            self._trace.told.append((at, f"event {event.kind}: {'false' if somebody else 'true'}"))

    def _close(self, passed: int) -> None:
        device, trace = self._device, self._trace
        trace.values["duration"] = self._scenario.duration
        trace.values["free_range"] = device.guarding.profile.stopping.free_range_m
        trace.counts["restarts"] = device.restarts
        trace.counts["held"], trace.counts["left"] = device.post.held, device.post.left
        trace.counts["accepted"] = len(device.post.accepted)
        trace.counts["delivered"] = len(device.post.server.rows)
        trace.counts["duplicates"] = sum(count - 1 for count in device.post.server.rows.values())
        trace.counts["lost"] = device.post.missing()
        trace.counts["expired"] = device.post.expired()
        trace.counts["commands"] = 0 if device.driving is None else device.driving.passed - passed
        if device.spec.heat:
            trace.values["late_frames"] = device.work.late / max(1, device.work.frames)
            trace.values["throttled"] = device.machine.heat.throttled_s
        for action in self._actions:
            action.do()
