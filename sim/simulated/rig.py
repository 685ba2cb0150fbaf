"""Runs a scenario on a simulated device, and leaves a trace."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from edge_runtime.faults import Injection, injection, orders_file, write_orders
from sim.scenario.accounts import account, tells_full_disk
from sim.scenario.faults import WORLD, fault_text
from sim.scenario.records import Fault, Protection, Scenario
from sim.scenario.timeline import NeverReady, Timeline
from sim.scenario.trace import Trace, Window
from sim.scene.render import Renderer
from sim.simulated.camera_pipeline import ABSENCE_S, Seen
from sim.simulated.device import SimDevice, View
from sim.simulated.motion import Motion, names_of
from sim.simulated.world import means_of

_READY_S = 120.0


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


class _Run:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, device: SimDevice, renderer: Renderer) -> None:
        self._scenario, self._device, self._renderer = scenario, device, renderer
        self._trace = Trace()
        self._timeline = Timeline()
        self._held: frozenset[str] = frozenset()
        self._stop_from_m: float | None = None
        self._zero_ns = 0
        self._told_at = 0.0

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
        self._schedule()
        self._watch(Seen())
        while self._now() < scenario.duration:
            self._timeline.run(self._now())
            self._watch(device.step(scenario.step))
        self._close()
        return self._trace

    def _now(self) -> float:
        return (self._device.clock.now_ns - self._zero_ns) / NS_PER_S

    def _schedule(self) -> None:
        orders: list[Injection] = []
        means = means_of(self._device, self._renderer, self._timeline, self._now)
        for fault in self._scenario.fault:
            self._trace.windows.append(self._window(fault))
            self._timeline.at(fault.at, lambda fault=fault: self._begins(fault))  # type: ignore[misc]
            if (fault.unit, fault.kind) in WORLD:
                self._timeline.bring_about(fault, means, self._scenario.duration)
            else:
                orders.append(self._order(fault, len(orders)))
        if orders:
            write_orders(orders_file(self._device.state), orders)

    def _order(self, fault: Fault, number: int) -> Injection:
        assert fault.lasts is not None, "an injected fault that does not say how long is refused"
        return injection(
            fault.unit,
            fault.kind,
            id=f"{number:08x}",
            begins_ns=self._zero_ns + round(fault.at * NS_PER_S),
            for_s=fault.lasts,
            boot_id="simulated",
            amount=fault.amount,
            by=self._scenario.name,
        )

    def _begins(self, fault: Fault) -> None:
        """The way until it stands is measured from the first fault at which the body moves."""
        self._trace.log.append((self._now(), f"{fault.name}: {fault_text(fault)}"))
        motion = self._device.motion
        if motion is not None and self._stop_from_m is None and not motion.robot.stands:
            self._stop_from_m = motion.robot.way_m

    def _window(self, fault: Fault) -> Window:
        ends = self._scenario.duration if fault.lasts is None else fault.at + fault.lasts
        return Window(fault.name, fault_text(fault), fault.at, ends)

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
        if at - self._told_at >= 1.0:
            if tells_full_disk(device.uplink.outbox.status().sentences):
                trace.values["disk_told"] = trace.values.get("disk_told", 0.0) + at - self._told_at
            self._told_at = at

    def _curves(self, at: float) -> None:
        device, trace = self._device, self._trace
        trace.add("queue", "events", at, device.uplink.waiting())
        if device.motion is not None:
            robot = device.motion.robot
            trace.add("speed", "m/s", at, robot.v_m_s)
            self._measure_stop(device.motion)
            trace.add("commands", "passed", at, device.motion.passed)
            if device.spec.battery is not None and device.motion.open and not robot.stands:
                trace.add("charge_moving", "share", at, device.machine.charge or 0.0)
        if device.spec.heat:
            trace.add("die", "C", at, device.machine.heat.die_c)
            trace.add("clock", "share", at, device.machine.heat.clock)
        if device.spec.battery is not None:
            trace.add("charge", "share", at, device.machine.charge or 0.0)

    def _measure_stop(self, motion: Motion) -> None:
        """The way from the first fault until the body stood for the first time."""
        if self._stop_from_m is None or "stop" in self._trace.values or not motion.robot.stands:
            return
        self._trace.values["stop"] = motion.robot.way_m - self._stop_from_m

    def _judge_absences(self, seen: Seen, at: float) -> None:
        """An absence that is told while the world has somebody in it is a false one."""
        if self._device.pipeline is None:
            return
        self._trace.counts["false_absences"] += 0
        for event in seen.events:
            if event.rule != "empty" or event.revision != 1:
                continue
            since = self._device.pipeline.seconds() - ABSENCE_S
            somebody = any(
                sight.visible
                for moment in range(int(ABSENCE_S * 2))
                for sight in self._renderer.truth(since + 0.5 * moment + 0.25)
            )
            self._trace.counts["false_absences"] += somebody
            self._trace.log.append((at, f"event {event.kind}: {'false' if somebody else 'true'}"))

    def _close(self) -> None:
        device, trace = self._device, self._trace
        trace.values["duration"] = self._scenario.duration
        trace.values["free_range"] = device.guarding.profile.stopping.free_range_m
        trace.counts["restarts"] = device.restarts
        trace.counts["held"], trace.counts["left"] = device.uplink.held, device.uplink.left
        trace.counts["refused"] = device.uplink.refused
        trace.counts["breaks"] = device.uplink.breaks
        rows = Counter(device.uplink.server.rows)
        account(trace, device.load, rows, device.uplink.outbox.status().ledger)
        if device.updates is not None:
            trace.counts["kept"] = device.updates.kept
            trace.counts["taken_back"] = device.updates.taken_back
            trace.values["bad_in_use"] = device.updates.bad_ns / NS_PER_S
        if device.spec.heat:
            trace.values["late_frames"] = device.work.late / max(1, device.work.frames)
            trace.values["throttled"] = device.machine.heat.throttled_s
