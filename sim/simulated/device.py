"""A whole simulated device: its parts, wired as the composition root wires the real ones, and one step of time."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from edge_runtime.faults import Injector, orders_file
from edge_runtime.faults.health import HealthFaults
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.memory import State
from edge_runtime.guard.profile import from_json
from edge_runtime.health.governor import GovernorSettings, ThermalReading, start
from edge_runtime.health.governor import step as govern
from edge_runtime.node.camera_watch import EVALUATED as BY_PERCEPTION
from edge_runtime.sources import Image
from edge_runtime.state import StateDirectory
from sim.heat_up import Camera, Outcome, Work
from sim.robot import Robot
from sim.scenario.records import DeviceSpec, Protection
from sim.scene.world import Sight
from sim.simulated.body import Monitor
from sim.simulated.camera_pipeline import CameraPipeline, Seen
from sim.simulated.clock import SimClock
from sim.simulated.machine import VirtualMachine
from sim.simulated.motion import (
    DEAD,
    HUNG,
    Guarding,
    Motion,
    cart_profile,
    gate_settings,
    still_profile,
)
from sim.simulated.updates import SimUpdates
from sim.simulated.uplink import Protections, Uplink
from sim.thermal import STEP_S

DEADLINE_NS = NS_PER_S
"""Perception promises its next beat within this time."""

RESPAWN_NS = NS_PER_S
"""The guard starts perception again."""


@dataclass(frozen=True, slots=True)
class View:
    """What the camera is pointed at."""

    draw: Callable[[float], Image]
    truth: Callable[[float], list[Sight]]


class SimDevice:
    """One device.

    Args:
        folder: for its state; empty.
        spec: of the scenario.
        view: before its camera.
        without: protections that are taken away.
        clock: of this boot; a new one where it is not given.

    Attributes:
        clock: moves the device.
        pipeline, monitor, guarding, motion, uplink, updates: its parts; None where it has none.
        work: frames, where the box gets hot.
        load: keys of the steady load that the outbox accepted.
        restarts: of perception.
        tripped: mask of what holds.
    """

    def __init__(
        self,
        folder: Path,
        spec: DeviceSpec,
        view: View,
        without: frozenset[Protection],
        clock: SimClock | None = None,
    ) -> None:
        self.spec, self._without = spec, without
        self.clock = clock or SimClock(boot_is_wall="boot_clock" in without)
        self.state = StateDirectory(folder / "state").ensure()
        self.injector = Injector(orders_file(self.state), self.clock, lambda *_: None, _refuse)
        moves = spec.body == "cart"
        self.machine = VirtualMachine(folder / "machine", battery=spec.battery, lasts_s=spec.battery_lasts)
        self.machine.warm_to(spec.air[0])
        faults = HealthFaults(self.injector)
        self.monitor = Monitor(self.clock, self.machine, self.state.path, faults, spec.pose)
        battery = spec.battery is not None
        profile = (
            from_json(cart_profile(battery=battery, pose=spec.pose))
            if moves
            else still_profile(battery=battery)
        )
        self.guarding = Guarding(
            self.clock, profile, still=not moves, restarts="service_manager" not in without
        )
        self.pipeline = self._pipeline(view, moves=moves) if spec.camera_fps else None
        self.motion = self._motion() if moves else None
        self.uplink = Uplink(
            folder,
            self.clock,
            Protections(**{one.name: one.name not in without for one in fields(Protections)}),
        )
        updates = self.state.updates
        self.updates = SimUpdates(updates, self.clock, without) if spec.updates else None
        self._begun_ns = self.clock.now_ns
        self.load: set[bytes] = set()
        self._hung = self._dead = False
        self._beat_ns = self.clock.now_ns
        self._respawn_ns: int | None = None
        self.restarts = 0
        self.tripped = 0
        self.work = Outcome()
        self._camera = Camera(Work(), self.work)
        self._governor = GovernorSettings(limit_c=self.machine.heat.throttle.trip_c)
        self._heat = start(self.clock.now_ns, self._governor)
        self._level, self._governed_s = self._governor.ladder[0], 0.0
        self._due_events = 0.0

    def close(self) -> None:
        """End what has threads."""
        self.uplink.close()

    def _pipeline(self, view: View, *, moves: bool) -> CameraPipeline:
        return CameraPipeline(
            self.clock,
            self.injector,
            view.draw,
            view.truth,
            fps=self.spec.camera_fps,
            relied_on=moves,
            content_check="content_check" not in self._without,
        )

    def _motion(self) -> Motion:
        profile = self.guarding.profile
        robot = Robot(profile.stopping.a_brake_m_s2, profile.stopping.t_act_ms / 1000)
        return Motion(
            self.clock,
            profile,
            gate_settings(),
            robot,
            gated="guard" not in self._without,
            expires="lease" not in self._without,
        )

    def step(self, seconds: float) -> Seen:
        """Let time pass, and do everything that is due."""
        self.clock.advance(round(seconds * NS_PER_S))
        self._warm(seconds)
        seen = self._see()
        self.monitor.step()
        self._guard()
        if self.motion is not None:
            self.motion.step(seconds)
        self._send(seen, seconds)
        if self.updates is not None:
            self.updates.step()
        return seen

    def ready(self) -> bool:
        """Whether it works: NOMINAL, and a body that drives has its full speed."""
        motion = self.motion
        fast = motion is None or motion.robot.v_m_s >= motion.wish_m_s - 0.01
        return self.guarding.state is State.NOMINAL and fast

    def hang(self) -> None:
        """Perception finishes no work any more."""
        self._hung = True

    def kill_worker(self) -> None:
        """Perception's process is killed."""
        self._dead = True

    def reboot(self, away_s: float) -> None:
        """The power goes, and comes back: nothing but the disk is left."""
        self.guarding.kill(away_s)
        self.uplink.cut()
        if self.updates is not None:
            self.updates.power_off()

    def boot(self) -> None:
        """The power is back."""
        if self.updates is not None:
            self.updates.boot()

    def kill_guard(self) -> None:
        """The guard's process is killed, and with it the others, but for the motion gate."""
        self.guarding.kill()
        self.uplink.cut()

    def _warm(self, seconds: float) -> None:
        machine, (cool, warm) = self.machine, self.spec.air
        passed_s = (self.clock.now_ns - self._begun_ns) / NS_PER_S
        machine.heat.ambient_c = cool + (warm - cool) * min(passed_s / self.spec.warms, 1.0)
        if not self.spec.heat:
            machine.advance(seconds, 0.3)
            return
        left = seconds
        while left > 1e-9:
            if machine.heat.now_s >= self._governed_s:
                self._governed_s = machine.heat.now_s + 1.0
                if "governor" not in self._without:
                    self._govern()
            heat = machine.heat
            machine.advance(STEP_S, self._camera.advance(heat.now_s, heat.clock, self._level))
            left -= STEP_S

    def _govern(self) -> None:
        heat = self.machine.heat
        now_ns = round(heat.now_s * NS_PER_S)
        reading = ThermalReading(round(heat.die_c * 2) / 2, now_ns, throttled=heat.clock < 1.0)
        self._heat, self._level = govern(now_ns, self._heat, reading, self._governor)

    def _see(self) -> Seen:
        now_ns = self.clock.now_ns
        if self.guarding.away:
            self._respawn_ns, self._beat_ns = None, now_ns  # a guard begins with new workers
            self._hung = self._dead = False
            return Seen()
        if self._respawn_ns is not None and now_ns >= self._respawn_ns:
            self._respawn_ns = None
            self._hung = self._dead = False
            self.restarts += 1
        if self._hung or self._dead:
            return Seen()
        self._beat_ns = now_ns
        return Seen() if self.pipeline is None else self.pipeline.step()

    def _guard(self) -> None:
        tripped, unknown = 0, 0
        if self.pipeline is not None:
            tripped |= self.pipeline.watch.tripped if "camera_watch" not in self._without else 0
            unknown |= 0 if self.pipeline.watch.looked else BY_PERCEPTION
        judged = self.monitor.judged
        if judged is not None and "health_watch" not in self._without:
            tripped |= judged.tripped
            unknown |= self.monitor.looks_at & ~judged.evaluated
        hung = self.clock.now_ns - self._beat_ns > DEADLINE_NS
        if "worker_watch" not in self._without:
            tripped |= HUNG if hung else 0
            tripped |= DEAD if self._dead else 0
            if self._dead and self._respawn_ns is None:
                self._respawn_ns = self.clock.now_ns + RESPAWN_NS
        if not self.uplink.up:
            tripped |= Condition.LINK_LOST.mask
        if self.motion is not None:
            tripped |= self.motion.tripped
        self.tripped = tripped
        stands = self.motion is None or self.motion.robot.stands
        suspects = ("perception",) if hung else ()
        outputs = self.guarding.turn(tripped, unknown, standstill=stands, suspects=suspects)
        if outputs is not None and outputs.kills and self._respawn_ns is None:
            self._respawn_ns = self.clock.now_ns + RESPAWN_NS
        if self.motion is not None:
            self.motion.renew(outputs, self.guarding.state)

    def _send(self, seen: Seen, seconds: float) -> None:
        if self.guarding.away:
            return
        self._due_events += self.spec.events_per_minute / 60 * seconds
        number, self._due_events = int(self._due_events), self._due_events % 1.0
        self.load |= self.uplink.submit(number, self.spec.event_ttl)
        self.uplink.submit(len(seen.events), self.spec.event_ttl)
        self.uplink.step()


def _refuse(sentence: str) -> None:
    raise AssertionError(sentence)
