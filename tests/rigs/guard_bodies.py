"""A cart on wheels, a camera on a wall, and a guard of either on a clock that the test moves."""

import copy
from typing import Any

from edge_runtime.guard.conditions import Condition, mask_of
from edge_runtime.guard.machine import start, step
from edge_runtime.guard.memory import (
    Acknowledgement,
    Change,
    Inputs,
    Memory,
    Outputs,
    Record,
    State,
)
from edge_runtime.guard.profile import EVERYTHING, Profile, from_json

MS = 1_000_000
BOOT = "6f1c0f9e-0000-4000-8000-000000000001"
NONCE = bytes(range(16))

CART: dict[str, Any] = {
    "name": "cart",
    "modes": {
        "drive": {
            "limits": "full",
            "needs": ["camera", "inference", "pose"],
            "fallbacks": {"pose": "crawl"},
            "slower": "slow",
        },
        "slow": {"limits": "half", "needs": ["camera", "inference", "pose"]},
        "crawl": {"limits": "tenth", "needs": ["camera", "inference"], "not_evaluated": ["pose_stale"]},
    },
    "freshness_ms": {"camera": 150, "pose": 200, "battery": 5000},
    "stopping": {
        "v_max_m_s": 1.0,
        "a_brake_m_s2": 1.0,
        "t_detect_ms": 700,
        "t_gate_ms": 50,
        "t_act_ms": 100,
        "margin_m": 0.2,
        "free_range_m": 2.0,
    },
}

CAMERA: dict[str, Any] = {
    "name": "camera on a wall",
    "modes": {"watch": {"limits": "none", "needs": ["camera"]}},
    "freshness_ms": {"camera": 150},
    "conditions": {
        "estop": {"ignored": "it has none"},
        "estop_disagrees": {"ignored": "it has none"},
        "motion_gate_mismatch": {"ignored": "it has none"},
        "motion_refusals": {"ignored": "it has none"},
        "unapproved_risk": {"ignored": "it does nothing"},
        "battery_missing": {"ignored": "mains"},
        "battery_frozen": {"ignored": "mains"},
        "pose_stale": {"ignored": "it does not move"},
        "map_stale": {"ignored": "it does not move"},
    },
    "stopping": {
        "v_max_m_s": 0,
        "a_brake_m_s2": 1.0,
        "t_detect_ms": 0,
        "t_gate_ms": 0,
        "t_act_ms": 0,
        "margin_m": 0,
        "free_range_m": 0,
    },
}


def altered(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy of a profile's document with fields set by their dotted paths; None removes one."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, name = path.split(".")
        part = document
        for parent in parents:
            part = part.setdefault(parent, {})
        if value is None:
            part.pop(name)
        else:
            part[name] = value
    return document


PATIENT = altered(CAMERA, {"settle_ms": 200, "late_ms": 800, "paused_ms": 5_000, "lease_ms": 900})
"""A busy machine without real time: the guard must not stop for its own lateness."""


def profile_of(document: dict[str, Any] = CART, **changes: Any) -> Profile:
    """A profile; `stopped__returns=False` sets the field stopped.returns."""
    return from_json(altered(document, {path.replace("__", "."): value for path, value in changes.items()}))


class Guard:
    """The state machine in a loop of 10 ms, everything evaluated and well unless the test says otherwise."""

    def __init__(
        self,
        profile: Profile | None = None,
        *,
        found: Record | None = Record(None, (), BOOT),  # noqa: B008 frozen
        now_ns: int = 1_000 * MS,
        boot_id: str = BOOT,
    ) -> None:
        self.profile = profile or profile_of()
        self.now_ns = now_ns
        self.memory: Memory
        self.out: Outputs
        self.memory, self.out = start(now_ns, boot_id=boot_id, nonce=NONCE, found=found, profile=self.profile)
        self.changes: list[Change] = list(self.out.changes)
        self.sentences: list[str] = list(self.out.sentences)
        self.records: list[Record] = [self.out.record] if self.out.record else []

    def state(self) -> State:
        return self.memory.state

    @property
    def latch_id(self) -> str:
        assert self.memory.latch is not None
        return self.memory.latch.id

    def tick(
        self, *tripped: Condition, unknown: tuple[Condition, ...] = (), ms: int = 10, **more: Any
    ) -> Outputs:
        """One turn, `ms` after the last one."""
        self.now_ns += ms * MS
        inputs = Inputs(
            evaluated=EVERYTHING & ~mask_of(unknown), tripped=mask_of(tripped), **{"standstill": True, **more}
        )
        self.memory, self.out = step(self.now_ns, self.memory, inputs, self.profile)
        self.changes += self.out.changes
        self.sentences += self.out.sentences
        if self.out.record is not None:
            self.records.append(self.out.record)
        return self.out

    def run(self, ms: int, *tripped: Condition, every_ms: int = 10, **more: Any) -> "Guard":
        """Turns for so long."""
        for _ in range(ms // every_ms):
            self.tick(*tripped, ms=every_ms, **more)
        return self

    def stood_by(self) -> "Guard":
        """Brought into STANDBY."""
        self.run(2_000, every_ms=500)
        assert self.state() is State.STANDBY
        return self

    def armed(self) -> "Guard":
        """Brought into NOMINAL."""
        self.stood_by().tick(arm_ns=self.now_ns + 10 * MS)
        assert self.state() is State.NOMINAL
        assert self.out.permit
        return self

    def latched(self, *causes: Condition) -> "Guard":
        """Brought into SAFE out of NOMINAL."""
        self.armed().tick(*(causes or (Condition.WORKER_DEAD,)))
        assert self.state() is State.SAFE
        return self

    def acknowledge(self, *tripped: Condition, latch_id: str | None = None, **more: Any) -> Outputs:
        """A turn with an acknowledgement that came in it."""
        ack = Acknowledgement(latch_id or self.latch_id, self.now_ns + 10 * MS)
        return self.tick(*tripped, ack=ack, **more)

    def arm(self, *tripped: Condition, **more: Any) -> Outputs:
        """A turn with a request to arm that came in it."""
        return self.tick(*tripped, arm_ns=self.now_ns + 10 * MS, **more)
