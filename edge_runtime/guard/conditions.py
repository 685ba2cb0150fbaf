"""The closed catalogue of conditions: what each means, how bad it is, how fast it trips, how it clears.

The figures are defaults of which a profile may make some stricter; see `profile.py`. Bits are stable: masks are
written to the status page, to the latch and to the flight recorder.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from edge_runtime.guard.severity import Clears, Judge, Need, Optional, Severity


class Condition(str, Enum):
    """Everything that can take the permission to move away."""

    WORKER_DEAD = "worker_dead"
    WORKER_HUNG = "worker_hung"
    WORKER_START_TIMEOUT = "worker_start_timeout"
    WORKER_STARVED = "worker_starved"
    WORKER_UNKILLABLE = "worker_unkillable"
    CRASH_LOOP = "crash_loop"
    SLOT_DAMAGED = "slot_damaged"
    GUARD_LATE = "guard_late"
    GUARD_PAUSED = "guard_paused"
    SOURCE_STALLED = "source_stalled"
    SOURCE_DARK = "source_dark"
    SOURCE_FROZEN = "source_frozen"
    SOURCE_LATE = "source_late"
    INFERENCE_LATE = "inference_late"
    OUTPUT_NOT_FINITE = "output_not_finite"
    EVENT_LATE = "event_late"
    QUEUE_NEAR_FULL = "queue_near_full"
    DISK_NEARLY_FULL = "disk_nearly_full"
    MEMORY_PRESSURE = "memory_pressure"
    CLOCK_STEPPED = "clock_stepped"
    CONFIG_CHANGED = "config_changed"
    MOTION_GATE_MISMATCH = "motion_gate_mismatch"
    MOTION_REFUSALS = "motion_refusals"
    UNAPPROVED_RISK = "unapproved_risk"
    ESTOP = "estop"
    ESTOP_DISAGREES = "estop_disagrees"
    LINK_LOST = "link_lost"
    BATTERY_MISSING = "battery_missing"
    BATTERY_FROZEN = "battery_frozen"
    BATTERY_LOW = "battery_low"
    BATTERY_CRITICAL = "battery_critical"
    POSE_STALE = "pose_stale"
    MAP_STALE = "map_stale"
    SOC_HOT = "soc_hot"
    SOC_CRITICAL = "soc_critical"
    SOC_THROTTLED = "soc_throttled"
    TEMPERATURE_UNKNOWN = "temperature_unknown"
    START_TIMEOUT = "start_timeout"
    REPEATED_TRIPS = "repeated_trips"
    REPEATED_LATCHES = "repeated_latches"
    LATCH_UNKNOWN = "latch_unknown"
    STOPPED_TOO_LONG = "stopped_too_long"

    bit: int
    """Its place in a mask, 0 to 63."""
    mask: int
    """A mask of this condition alone."""


class Traits(NamedTuple):
    """What the catalogue says of a condition.

    Attributes:
        bit: its place in a mask.
        severity: how bad it is.
        trip_ms: how long it has to hold until it counts; the budget drains while it holds and refills at a
            quarter of that speed. 0: at once.
        clear_ms: how long it has to be clear, without a break, until it no longer counts.
        clears: what leaving its consequence takes.
        text: what has happened, for an operator.
        then: what it becomes when it counts for `then_ms`; None: it does not get worse.
        then_ms: see `then`.
        takes: what the body can no longer rely on.
        aged: it is found by age. In a moment in which the guard itself woke late, an age says nothing about
            whoever is watched, so the guard gives no permission and blames nobody.
        optional: on which bodies a profile may ignore it or count it less.
        judge: who says whether it is tripped.
    """

    bit: int
    severity: Severity
    trip_ms: int
    clear_ms: int
    clears: Clears
    text: str
    then: Severity | None = None
    then_ms: int = 0
    takes: Need | None = None
    aged: bool = False
    optional: Optional = Optional.MILDER_ON_STILL_BODY
    judge: Judge = Judge.RUNTIME


_C, _S, _H, _N = Condition, Severity, Clears, Need
_ALONE, _ACK, _STILL, _RESET = Clears.ALONE, Clears.ACK, Clears.ACK_AT_STANDSTILL, Clears.RESET_AND_ACK
_ALWAYS, _ON_STILL = Optional.ALWAYS, Optional.ON_STILL_BODY
_LATENESS, _HISTORY = Judge.LATENESS, Judge.HISTORY

# fmt: off
TRAITS: dict[Condition, Traits] = {
    # -- workers ------------------------------------------------------------------------------------------------
    _C.WORKER_DEAD: Traits(0, _S.SAFE, 0, 0, _ACK, "a worker process ended"),
    _C.WORKER_HUNG: Traits(1, _S.SAFE, 0, 0, _ACK, "a worker finished no work within its deadline", aged=True),
    _C.WORKER_START_TIMEOUT: Traits(
        2, _S.SAFE, 0, 0, _ACK, "a worker did not finish its first work in time", aged=True),
    _C.WORKER_STARVED: Traits(
        3, _S.DEGRADED, 100, 2000, _ALONE, "a worker gets too little processor time", _S.SAFE, 3000),
    _C.WORKER_UNKILLABLE: Traits(
        4, _S.LOCKOUT, 0, 0, _RESET, "a killed worker does not end; the machine has to be rebooted"),
    _C.CRASH_LOOP: Traits(5, _S.LOCKOUT, 0, 0, _RESET, "a worker ends again and again soon after its start"),
    _C.SLOT_DAMAGED: Traits(6, _S.SAFE, 0, 0, _ACK, "a worker's part of the status page is damaged or stale"),
    # -- the guard itself ---------------------------------------------------------------------------------------
    _C.GUARD_LATE: Traits(
        7, _S.DEGRADED, 100, 2000, _ALONE, "the guard itself wakes late", _S.SAFE, 2000, judge=_LATENESS),
    _C.GUARD_PAUSED: Traits(
        8, _S.STOPPED, 0, 1000, _ALONE, "the guard itself was paused for longer than a lease", judge=_LATENESS),
    # -- cameras and the model ----------------------------------------------------------------------------------
    _C.SOURCE_STALLED: Traits(
        9, _S.STOPPED, 150, 1000, _ALONE, "a camera delivers no frames", takes=_N.CAMERA, aged=True,
        optional=_ALWAYS),
    _C.SOURCE_DARK: Traits(
        10, _S.STOPPED, 500, 1000, _ALONE, "a camera's picture is dark or black", takes=_N.CAMERA,
        optional=_ALWAYS),
    _C.SOURCE_FROZEN: Traits(
        11, _S.STOPPED, 150, 1000, _ALONE, "a camera repeats the same picture", takes=_N.CAMERA, optional=_ALWAYS),
    _C.SOURCE_LATE: Traits(
        12, _S.STOPPED, 150, 1000, _ALONE, "frames are too old when they are evaluated", takes=_N.CAMERA,
        aged=True, optional=_ALWAYS),
    _C.INFERENCE_LATE: Traits(
        13, _S.DEGRADED, 0, 2000, _ALONE, "too many of the last inferences missed their deadline", _S.STOPPED, 2000,
        aged=True, optional=_ON_STILL),
    _C.OUTPUT_NOT_FINITE: Traits(
        14, _S.STOPPED, 0, 2000, _ALONE, "a model's outputs are not finite numbers", takes=_N.INFERENCE,
        optional=_ALWAYS),
    _C.EVENT_LATE: Traits(
        15, _S.DEGRADED, 0, 2000, _ALONE, "events miss their deadlines", aged=True, optional=_ALWAYS),
    # -- what the device runs on --------------------------------------------------------------------------------
    _C.QUEUE_NEAR_FULL: Traits(
        16, _S.WARN, 1000, 5000, _ALONE, "the queue of events is nearly full", optional=_ALWAYS),
    _C.DISK_NEARLY_FULL: Traits(17, _S.WARN, 1000, 5000, _ALONE, "the disk is nearly full", optional=_ALWAYS),
    _C.MEMORY_PRESSURE: Traits(18, _S.DEGRADED, 1000, 5000, _ALONE, "memory is short", optional=_ALWAYS),
    _C.CLOCK_STEPPED: Traits(
        19, _S.WARN, 0, 10000, _ALONE, "the wall clock was set; labels around now are off", optional=_ALWAYS),
    _C.CONFIG_CHANGED: Traits(
        20, _S.SAFE, 0, 0, _RESET, "the configuration is no longer the one that was checked at the start"),
    # -- motion -------------------------------------------------------------------------------------------------
    _C.MOTION_GATE_MISMATCH: Traits(
        21, _S.SAFE, 30, 0, _STILL, "the motion gate is not in the state that the guard asked for",
        optional=_ON_STILL),
    _C.MOTION_REFUSALS: Traits(
        22, _S.SAFE, 0, 0, _ACK, "the motion gate had to refuse command after command", optional=_ON_STILL),
    _C.UNAPPROVED_RISK: Traits(
        23, _S.SAFE, 0, 0, _STILL, "a risky action was asked for without an approval", optional=_ON_STILL),
    _C.ESTOP: Traits(24, _S.SAFE, 0, 0, _STILL, "the emergency stop is pressed", optional=_ON_STILL),
    _C.ESTOP_DISAGREES: Traits(
        25, _S.SAFE, 20, 0, _STILL, "the two channels of the emergency stop disagree", optional=_ON_STILL),
    _C.LINK_LOST: Traits(
        26, _S.DEGRADED, 5000, 2000, _ALONE, "the link to the fleet server is lost", takes=_N.LINK,
        optional=_ALWAYS),
    # -- power --------------------------------------------------------------------------------------------------
    _C.BATTERY_MISSING: Traits(
        27, _S.SAFE, 5000, 1000, _ACK, "the battery gives no reading", takes=_N.BATTERY, aged=True,
        optional=_ALWAYS),
    _C.BATTERY_FROZEN: Traits(
        28, _S.SAFE, 5000, 1000, _ACK, "the battery repeats the same reading", takes=_N.BATTERY, aged=True,
        optional=_ALWAYS),
    _C.BATTERY_LOW: Traits(29, _S.DEGRADED, 2000, 5000, _ALONE, "the battery is low", optional=_ALWAYS),
    _C.BATTERY_CRITICAL: Traits(
        30, _S.SAFE, 2000, 5000, _ACK, "the battery is below what a stop needs", optional=_ALWAYS),
    # -- where the body is --------------------------------------------------------------------------------------
    _C.POSE_STALE: Traits(
        31, _S.DEGRADED, 500, 1000, _ALONE, "the pose is too old or too uncertain", _S.SAFE, 1500, takes=_N.POSE,
        aged=True, optional=_ALWAYS),
    _C.MAP_STALE: Traits(
        32, _S.DEGRADED, 500, 1000, _ALONE, "the map is too old", _S.SAFE, 1500, takes=_N.MAP, aged=True,
        optional=_ALWAYS),
    # -- heat ---------------------------------------------------------------------------------------------------
    _C.SOC_HOT: Traits(33, _S.DEGRADED, 2000, 5000, _ALONE, "the processor is hot", optional=_ALWAYS),
    _C.SOC_CRITICAL: Traits(
        34, _S.SAFE, 1000, 5000, _ACK, "the processor is about to switch itself off from heat"),
    _C.SOC_THROTTLED: Traits(
        35, _S.DEGRADED, 2000, 5000, _ALONE, "the hardware slows itself down", optional=_ALWAYS),
    _C.TEMPERATURE_UNKNOWN: Traits(
        36, _S.DEGRADED, 5000, 2000, _ALONE, "no temperature can be read", takes=_N.TEMPERATURE,
        optional=_ALWAYS),
    # -- what the state machine finds itself --------------------------------------------------------------------
    _C.START_TIMEOUT: Traits(
        37, _S.SAFE, 0, 0, _ACK, "the device did not become healthy in the time for a start",
        optional=_ON_STILL, judge=_HISTORY),
    _C.REPEATED_TRIPS: Traits(
        38, _S.SAFE, 0, 0, _ACK, "it got worse again and again within a short time", optional=_ON_STILL,
        judge=_HISTORY),
    _C.REPEATED_LATCHES: Traits(
        39, _S.LOCKOUT, 0, 0, _RESET, "it latched again and again within a short time", optional=_ON_STILL,
        judge=_HISTORY),
    _C.LATCH_UNKNOWN: Traits(
        40, _S.SAFE, 0, 0, _ACK, "what was latched before the start cannot be known", optional=_ON_STILL,
        judge=_HISTORY),
    _C.STOPPED_TOO_LONG: Traits(
        41, _S.SAFE, 0, 0, _ACK, "it was stopped for too long to move again by itself", optional=_ON_STILL,
        judge=_HISTORY),
}
# fmt: on

# Kept with each condition: they are asked for some hundred times in a turn.
for _condition, _traits in TRAITS.items():
    _condition.bit, _condition.mask = _traits.bit, 1 << _traits.bit

WIDTH = len(TRAITS)
"""How many bits of a mask are in use."""

BY_BIT: tuple[Condition, ...] = tuple(sorted(TRAITS, key=lambda condition: TRAITS[condition].bit))
"""The conditions in the order of their bits."""


def mask_of(conditions: Iterable[Condition]) -> int:
    """A mask of some conditions."""
    mask = 0
    for condition in conditions:
        mask |= condition.mask
    return mask


def conditions_in(mask: int) -> Iterator[Condition]:
    """The conditions of a mask, by bit; bits that mean nothing are passed over."""
    for bit, condition in enumerate(BY_BIT):
        if mask >> bit & 1:
            yield condition


AGED = mask_of(condition for condition, traits in TRAITS.items() if traits.aged)
"""Conditions found by age; see `Traits.aged`."""

FROM_HISTORY = mask_of(condition for condition, traits in TRAITS.items() if traits.judge is Judge.HISTORY)
"""Conditions that nobody can trip from outside."""

FROM_LATENESS = mask_of(condition for condition, traits in TRAITS.items() if traits.judge is Judge.LATENESS)
"""Conditions that the state machine judges by the guard's own lateness."""

KILLING = mask_of((Condition.WORKER_DEAD, Condition.WORKER_HUNG, Condition.WORKER_START_TIMEOUT))
"""Conditions after which the suspected worker is killed; it is too if it is said to be dead, to be sure of it."""

REBOOTING = mask_of((Condition.WORKER_UNKILLABLE,))
"""Conditions that only a reboot ends: the hardware watchdog is no longer fed."""
