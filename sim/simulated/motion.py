"""A simulated device's guard, its lease, its motion gate, and the body that the gate's output moves.

The state machine, the profile and the motion gate's judge are the runtime's. The loop around them is this module's:
the guard turns every 10 ms and the gate looks as often, as on the device. The lease is a value, not shared memory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.config.body_file import read_body_file
from edge_runtime.guard import machine
from edge_runtime.guard.conditions import Condition, conditions_in
from edge_runtime.guard.lease import LENGTH_NS, Lease
from edge_runtime.guard.memory import Acknowledgement, Inputs, Latch, Outputs, Record, State
from edge_runtime.guard.motion_gate.judge import Judge, Proposal, Stop
from edge_runtime.guard.motion_gate.settings import profile_of
from edge_runtime.guard.profile import EVERYTHING, Profile, from_json
from edge_runtime.guard.still import still_body
from sim.robot import Robot
from sim.scenario.timeline import SERVICE_RESTARTS_S
from sim.simulated.clock import SimClock

BODIES = Path(__file__).parents[2] / "deploy" / "bodies"
PLANNER_NS = 50 * NS_PER_MS
TTL_NS = 150 * NS_PER_MS
_BOOT = "simulated"
_RELEASED = Stop(pressed=False)


def cart_profile(*, battery: bool, pose: bool) -> dict[str, Any]:
    """The example cart of deploy/bodies; what it says it has not is no longer ignored where a scenario gives it."""
    found: dict[str, Any] = read_body_file(BODIES / "cart.yaml")
    words = (["battery"] if battery else []) + (["pose", "map"] if pose else [])
    kept = {name: given for name, given in found["conditions"].items() if name.partition("_")[0] not in words}
    return {**found, "conditions": kept}


class Guarding:
    """The guard of one device.

    Args:
        clock: of the device.
        profile: of the body.
        still: a body that cannot move arms itself; a cart is armed by a person, at the start alone.
        restarts: the service manager starts it again when it was killed.
    """

    def __init__(self, clock: SimClock, profile: Profile, *, still: bool, restarts: bool) -> None:
        self.profile, self._clock, self._still, self._restarts = profile, clock, still, restarts
        self._starts = 0
        self._killed_ns: int | None = None
        self._away_ns = 0
        self.stopped = False
        self.armed = False
        self._ack: Acknowledgement | None = None
        self._begin(Record(None, (), _BOOT))

    def _begin(self, found: Record | None) -> None:
        self._starts += 1
        self._memory, self.outputs = machine.start(
            self._clock.now_ns,
            boot_id=_BOOT,
            nonce=f"simulated {self._starts:020d}".encode(),
            found=found,
            profile=self.profile,
        )

    @property
    def state(self) -> State:
        """Where the machine is; what it last said while nobody runs it."""
        return self._memory.state

    @property
    def away(self) -> bool:
        """Whether it was killed and is not there again; its workers end and come with it."""
        return self._killed_ns is not None

    @property
    def latch(self) -> Latch | None:
        """What is latched; None outside SAFE and LOCKOUT."""
        return self._memory.latch

    def acknowledge(self) -> None:
        """A person acknowledges what is latched, and arms a body that moves anew."""
        if self._memory.latch is not None:
            self._ack = Acknowledgement(self._memory.latch.id, self._clock.now_ns)
            self.armed = False

    def kill(self, away_s: float = SERVICE_RESTARTS_S) -> None:
        """Its process is killed; the service manager starts it again after a while."""
        self._killed_ns, self._away_ns = self._clock.now_ns, round(away_s * NS_PER_S)

    def turn(
        self, tripped: int, unknown: int, *, standstill: bool, suspects: tuple[str, ...]
    ) -> Outputs | None:
        """One turn; None while its process is stopped or away."""
        now_ns = self._clock.now_ns
        if self._killed_ns is not None:
            if not self._restarts or now_ns - self._killed_ns < self._away_ns:
                return None
            self._killed_ns = None
            # what lies on disk says that motion was permitted, where it was: that cannot vouch for the body
            self._begin(Record(None, (), _BOOT) if self._still else None)
        if self.stopped:
            return None
        arms = self.state is State.STANDBY and (self._still or not self.armed)
        self.armed = self.armed or self.state is State.NOMINAL
        inputs = Inputs(
            evaluated=EVERYTHING & ~unknown,
            tripped=tripped,
            standstill=standstill,
            arm_ns=now_ns if arms else None,
            ack=self._ack,
            suspects=suspects,
        )
        self._memory, self.outputs = machine.step(now_ns, self._memory, inputs, self.profile)
        return self.outputs


class Motion:
    """The lease, the motion gate, the planner that proposes, and the body.

    Args:
        clock: of the device.
        profile: of the body.
        gate: settings of the motion gate, as a file of deploy/bodies has them.
        robot: the body.
        gated: commands pass the motion gate; without it they go straight to the drive.
        expires: the lease ends by itself.
    """

    def __init__(
        self,
        clock: SimClock,
        profile: Profile,
        gate: Mapping[str, Any],
        robot: Robot,
        *,
        gated: bool,
        expires: bool,
    ) -> None:
        self._clock, self._profile, self.robot = clock, profile, robot
        names = [table["name"] for table in gate["profile"]["tables"]]
        tables = [gate["profile"]["tables"][names.index(name)] for name in profile.limits]
        self._judge = Judge(profile_of({**gate["profile"], "tables": tables}), "cart", clock.now_ns)
        self._gated, self._expires = gated, expires
        self._lease: Lease | None = None
        self._epoch_ns = self._sequence = 0
        self._proposes_ns = clock.now_ns
        self.passed = 0
        self.wish_m_s = profile.stopping.v_max_m_s

    @property
    def open(self) -> bool:
        """Whether commands may pass now."""
        return not self._gated or self._judge.closed is None

    def renew(self, outputs: Outputs | None, state: State) -> None:
        """What the guard does with the lease after a turn; nothing where it had none."""
        now_ns = self._clock.now_ns
        if outputs is None:
            if not self._expires and self._lease is not None and self._lease.expires_ns:
                self._write(now_ns, self._lease.state, self._lease.limits)
        elif outputs.permit:
            self._write(now_ns, state.value, self._profile.limits.index(outputs.limits))
        elif outputs.flush:
            self._lease = Lease(self._next(), state.value, 0, 0, self._epoch_ns)

    def _write(self, now_ns: int, state: str, limits: int) -> None:
        if self._lease is None or now_ns >= self._lease.expires_ns:
            self._epoch_ns = now_ns
        self._lease = Lease(self._next(), state, limits, now_ns + LENGTH_NS, self._epoch_ns)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def step(self, seconds: float) -> None:
        """The gate looks, the planner proposes where it is due, the body moves."""
        now_ns = self._clock.now_ns
        if self._judge.look(now_ns, self._lease, _RELEASED) and self._gated:
            self.robot.safe(now_ns)
        if now_ns >= self._proposes_ns:
            self._proposes_ns = now_ns + PLANNER_NS
            self._propose(now_ns)
        self.robot.advance(now_ns, seconds)

    def _propose(self, now_ns: int) -> None:
        limits = {"full": self.wish_m_s, "crawl": min(self.wish_m_s, 0.1)}
        table = self._profile.limits[self._lease.limits] if self._lease is not None else "full"
        # it knows its limits, as a planner has to, and gains speed as they let it
        goal = limits.get(table, 0.0) if self._gated else self.wish_m_s
        speed = min(goal, self.robot.v_m_s + 0.02)
        proposal = Proposal(self._next(), now_ns, TTL_NS, "drive", {"v_m_s": speed, "w_rad_s": 0.0})
        if not self._gated:
            self._pass(now_ns, speed)
            return
        reason = self._judge.judge(now_ns, self._lease, proposal)
        if reason is None:
            self._judge.sent(now_ns, proposal)
            self._pass(now_ns, speed)
        elif self._judge.refused(now_ns, reason):
            self.robot.safe(now_ns)

    def _pass(self, now_ns: int, speed: float) -> None:
        self.passed += 1
        self.robot.command(now_ns, speed, 0.0, now_ns + TTL_NS)

    @property
    def tripped(self) -> int:
        """What the motion gate says that holds."""
        return self._judge.tripped(_RELEASED)


def still_profile(*, battery: bool) -> Profile:
    """Of a camera on a wall."""
    return from_json(still_body(delivers=True, batteries=battery))


def gate_settings() -> dict[str, Any]:
    """The example cart's motion gate."""
    found: dict[str, Any] = read_body_file(BODIES / "cart_motion.yaml")
    return found


def names_of(mask: int) -> frozenset[str]:
    """Names of conditions in a mask."""
    return frozenset(condition.value for condition in conditions_in(mask))


HUNG, DEAD = Condition.WORKER_HUNG.mask, Condition.WORKER_DEAD.mask
