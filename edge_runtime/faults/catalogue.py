"""What can be injected into what: one row for each combination that works, and a sentence for what does not.

An injector that says yes to what it cannot do makes a test pass that tested nothing (PX4's accepts types that its
simulator does not know). So a combination that has no row here is refused, and the refusal says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from edge_runtime.errors import ConfigError


class Unit(str, Enum):
    """What may be made to fail."""

    CAMERA = "camera"
    TEMPERATURE = "temperature"
    BATTERY = "battery"
    DISK = "disk"
    MEMORY = "memory"


class Kind(str, Enum):
    """How it fails.

    Attributes:
        OFF: it gives nothing.
        STUCK: it repeats what it gave last.
        GARBAGE: what it gives carries no meaning.
        WRONG: what it gives looks right and is not.
        SLOW: it gives something new less often.
        DELAYED: it gives everything later.
        INTERMITTENT: it is off again and again.
    """

    OFF = "off"
    STUCK = "stuck"
    GARBAGE = "garbage"
    WRONG = "wrong"
    SLOW = "slow"
    DELAYED = "delayed"
    INTERMITTENT = "intermittent"


class FaultRefused(ConfigError):
    """This fault is not injected; the text says why, and what may be done instead."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one combination does.

    Attributes:
        text: for a person; `{amount}` stands for the amount with its unit.
        amount: what it is by default; None where it takes none.
        low, high: what it may be.
        measure: unit of the amount.
    """

    text: str
    amount: float | None = None
    low: float = 0.0
    high: float = 0.0
    measure: str = ""

    def told(self, amount: float | None) -> str:
        """The text with an amount."""
        return self.text.format(amount="" if amount is None else f"{amount:g} {self.measure}".strip())


def _every(text: str, seconds: float) -> Effect:
    return Effect(text, seconds, 0.2, 3600.0, "s")


_C, _T, _B, _D, _M = Unit.CAMERA, Unit.TEMPERATURE, Unit.BATTERY, Unit.DISK, Unit.MEMORY

EFFECTS: Mapping[tuple[Unit, Kind], Effect] = {
    (_C, Kind.OFF): Effect("the connection breaks, and none can be made"),
    (_C, Kind.STUCK): Effect("the same picture again and again, with new times"),
    (_C, Kind.GARBAGE): Effect("pictures of noise"),
    (_C, Kind.WRONG): Effect("pictures with left and right exchanged"),
    (_C, Kind.SLOW): _every("a picture every {amount}", 1.0),
    (_C, Kind.DELAYED): Effect("every picture {amount} late, with its true time", 1.0, 0.01, 5.0, "s"),
    (_C, Kind.INTERMITTENT): _every("off for the second half of every {amount}", 4.0),
    (_T, Kind.OFF): Effect("no sensor can be read"),
    (_T, Kind.STUCK): Effect("every sensor repeats its last value"),
    (_T, Kind.GARBAGE): Effect("every sensor gives what no board can have"),
    (_T, Kind.WRONG): Effect("every sensor is off by {amount}", -20.0, -100.0, 100.0, "C"),
    (_T, Kind.SLOW): _every("new values every {amount}", 30.0),
    (_T, Kind.DELAYED): Effect("values of {amount} ago", 10.0, 0.2, 600.0, "s"),
    (_T, Kind.INTERMITTENT): _every("off for the second half of every {amount}", 20.0),
    (_B, Kind.OFF): Effect("the gauge gives no reading"),
    (_B, Kind.STUCK): Effect("the gauge repeats its last reading"),
    (_B, Kind.GARBAGE): Effect("the gauge gives what is no charge"),
    (_B, Kind.WRONG): Effect("the charge is off by {amount}", 0.3, -1.0, 1.0, "of a full one"),
    (_B, Kind.SLOW): _every("new readings every {amount}", 60.0),
    (_B, Kind.DELAYED): Effect("readings of {amount} ago, with their true time", 30.0, 0.2, 600.0, "s"),
    (_B, Kind.INTERMITTENT): _every("off for the second half of every {amount}", 20.0),
    (_D, Kind.OFF): Effect("nobody can say how full the disks are"),
    (_D, Kind.WRONG): Effect("the disks say that {amount} are free", 0.0, 0.0, 1e15, "bytes"),
    (_D, Kind.INTERMITTENT): _every("off for the second half of every {amount}", 20.0),
    (_M, Kind.OFF): Effect("nobody can say how much memory is available"),
    (_M, Kind.WRONG): Effect("{amount} of memory are said to be available", 0.0, 0.0, 1e15, "bytes"),
    (_M, Kind.INTERMITTENT): _every("off for the second half of every {amount}", 20.0),
}

NAMED: frozenset[Unit] = frozenset({Unit.CAMERA, Unit.BATTERY})
"""Of these a device may have several, by name; of the others a fault means all there is."""

_NEVER: Mapping[str, str] = {
    "guard": "what holds the permission to move is never made to lie; stop or kill its process instead",
    "lease": "what holds the permission to move is never made to lie; stop or kill the guard's process instead",
    "motion_gate": "what passes commands is never made to lie; stop or kill its process instead",
    "estop": "the emergency stop is never made to lie; press it",
    "clock": "setting a clock needs root and hits the whole machine; a simulated device has a clock of its own",
    "network": "a link is broken outside of the device; python -m sim has a network for that",
    "outbox": "what it acknowledged has to be true; kill its process, or fill its disk",
    "policy": "what may leave is never decided by a fault; take the policy file away",
}

_NO_SENSE: Mapping[Unit, str] = {
    _D: "the state of a disk is read anew each time and has no history; fill it, or inject off or wrong",
    _M: "the state of memory is read anew each time and has no history; use it up, or inject off or wrong",
}


def effect_of(unit: str, kind: str) -> tuple[Unit, Kind, Effect]:
    """The row of a combination.

    Raises:
        FaultRefused: there is none.
    """
    if unit in _NEVER:
        raise FaultRefused(f"{unit} {kind} is not injected: {_NEVER[unit]}")
    if unit not in {one.value for one in Unit}:
        raise FaultRefused(
            f"there is no unit {unit[:40]!r}; units are {', '.join(one.value for one in Unit)}"
        )
    if kind not in {one.value for one in Kind}:
        raise FaultRefused(
            f"there is no fault {kind[:40]!r}; faults are {', '.join(one.value for one in Kind)}"
        )
    found = Unit(unit), Kind(kind)
    effect = EFFECTS.get(found)
    if effect is None:
        raise FaultRefused(f"{unit} {kind} is not injected: {_NO_SENSE[found[0]]}")
    return *found, effect
