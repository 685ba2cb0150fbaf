"""The words that conditions are told in: how bad, how it clears, what is missing, whom it concerns."""

from enum import Enum, IntEnum


class Severity(IntEnum):
    """How bad a condition is; the worst of all active ones decides."""

    HEALTHY = 0
    """Nothing is wrong."""
    WARN = 1
    """Told, and changes nothing."""
    DEGRADED = 2
    """The body may move, slower, by the limits of a lesser mode."""
    STOPPED = 3
    """No permission to move; it may come back by itself after healthy seconds."""
    SAFE = 4
    """No permission to move, latched until an authorised person acknowledges."""
    LOCKOUT = 5
    """As `SAFE`, and a person has to be at the machine."""


class Clears(IntEnum):
    """What it takes to leave what a condition led to; the strictest rule of all causes counts."""

    ALONE = 0
    """The condition is clear for its clear time."""
    ACK = 1
    """Besides, an acknowledgement that names the latch."""
    ACK_AT_STANDSTILL = 2
    """Besides, standstill is confirmed, also on a body that does not travel."""
    RESET_AND_ACK = 3
    """Besides, someone at the machine resets it first."""


class Need(str, Enum):
    """What a mode of the body relies on, and what a condition takes from it."""

    CAMERA = "camera"
    INFERENCE = "inference"
    POSE = "pose"
    MAP = "map"
    LINK = "link"
    BATTERY = "battery"
    TEMPERATURE = "temperature"


AGEING = (Need.CAMERA, Need.POSE, Need.MAP, Need.BATTERY)
"""Needs whose readings grow old: a mode that relies on one must be given a bound of its age."""


class Optional(IntEnum):
    """On which bodies a profile may ignore a condition, or count it less than the catalogue does."""

    MILDER_ON_STILL_BODY = 0
    """Counted less, but never ignored, where the stopping inputs say that the body does not travel."""
    ON_STILL_BODY = 1
    """Either, on such a body."""
    ALWAYS = 2


class Judge(str, Enum):
    """Who says whether a condition is tripped."""

    RUNTIME = "runtime"
    """Whoever calls `step` evaluates it each time; what is left out counts as tripped."""
    LATENESS = "lateness"
    """The state machine, from how late the guard itself woke."""
    HISTORY = "history"
    """The state machine, from what happened before; never from outside."""
