"""What the state machine remembers, is told, and says: plain values, the same on the device and in tests.

All times are nanoseconds of CLOCK_MONOTONIC of this boot; masks have one bit per condition.
"""

from enum import Enum
from typing import NamedTuple

from edge_runtime.guard.profile import Mode

CLOSED = "closed"
"""The name of the limits table while nothing may move."""


class State(str, Enum):
    """States of the guard; permission to move exists in NOMINAL and DEGRADED alone."""

    INIT = "INIT"
    STANDBY = "STANDBY"
    NOMINAL = "NOMINAL"
    DEGRADED = "DEGRADED"
    STOPPED = "STOPPED"
    SAFE = "SAFE"
    RECOVERY = "RECOVERY"
    LOCKOUT = "LOCKOUT"


PERMITTING = (State.NOMINAL, State.DEGRADED)
LATCHED = (State.SAFE, State.LOCKOUT)


class Latch(NamedTuple):
    """A safe state that only an authorised act clears.

    Attributes:
        id: names it in an acknowledgement; it cannot be guessed, and changes when a cause is added.
        state: SAFE or LOCKOUT.
        causes: mask of the conditions that led to it.
        since_ns: when it got this id, or when this guard found it on disk.
    """

    id: str
    state: State
    causes: int
    since_ns: int


class Record(NamedTuple):
    """What has to be on disk before anything else is done.

    Attributes:
        latch: None when nothing is latched.
        latches_ns: when the last latches began.
        boot_id: the boot that the times belong to.
    """

    latch: Latch | None
    latches_ns: tuple[int, ...]
    boot_id: str


class Timer(NamedTuple):
    """How a condition stands that is not at rest.

    Attributes:
        bit: which condition.
        level_ns: how much of its budget is used up; it counts when that is all of it.
        since_ns: since when it counts; None while it does not.
        clear_since_ns: since when it has been seen clear without a break; None while it is not.
    """

    bit: int
    level_ns: int
    since_ns: int | None
    clear_since_ns: int | None


class Memory(NamedTuple):
    """All that `machine.step` knows of the past.

    Attributes:
        state: where it is.
        entered_ns: since when.
        mode: the mode of the body.
        timers: conditions that are not at rest.
        healthy_since_ns: in INIT, RECOVERY and STOPPED, since when all has been well.
        turns_ns: when it last got worse without latching.
        latch: what is latched; None outside SAFE and LOCKOUT.
        latches_ns: when the last latches began.
        number: of the next latch, since this guard started.
        nonce: a secret of this guard's start, which makes ids of latches unguessable.
        boot_id: the kernel's id of this boot.
        looked_ns: when the last step was.
        arm_seen_ns: the newest request to arm that has been answered.
        ack_seen_ns: the newest acknowledgement that has been answered.
    """

    state: State
    entered_ns: int
    mode: Mode
    nonce: bytes
    boot_id: str
    looked_ns: int
    timers: tuple[Timer, ...] = ()
    healthy_since_ns: int | None = None
    turns_ns: tuple[int, ...] = ()
    latch: Latch | None = None
    latches_ns: tuple[int, ...] = ()
    number: int = 1
    arm_seen_ns: int = -1
    ack_seen_ns: int = -1


class Acknowledgement(NamedTuple):
    """An acknowledgement whose signature has been verified.

    Attributes:
        latch_id: the latch that its signer saw.
        received_ns: when the guard received it.
    """

    latch_id: str
    received_ns: int


class Inputs(NamedTuple):
    """What the guard saw in one turn of its loop.

    Attributes:
        evaluated: mask of the conditions that somebody evaluated within their period.
        tripped: mask of those found to hold.
        late_ns: how much later than asked for the guard itself woke.
        standstill: whether an independent reading says that nothing moves; None if it is not known.
        arm_ns: when the newest authorised request to arm was received.
        disarm: whether somebody wants the permission withdrawn.
        ack: the newest verified acknowledgement.
        reset_ns: when somebody at the machine last reset it.
        suspects: workers that are meant by what is said of a worker.
    """

    evaluated: int
    tripped: int
    late_ns: int = 0
    standstill: bool | None = None
    arm_ns: int | None = None
    disarm: bool = False
    ack: Acknowledgement | None = None
    reset_ns: int | None = None
    suspects: tuple[str, ...] = ()


class Change(NamedTuple):
    """The state changed, or a cause was added to a latch.

    Attributes:
        at_ns: when.
        before: the state before.
        after: the state after.
        causes: mask of what led to it.
        latch_id: of the latch that holds now.
    """

    at_ns: int
    before: State
    after: State
    causes: int
    latch_id: str | None


class Outputs(NamedTuple):
    """What is to be done, in this order: permission, record, then all else.

    Attributes:
        permit: whether the lease may be renewed now.
        limits: the motion gate's table of limits; `CLOSED` where nothing may move.
        record: what has to be on disk before anything below is done; None if that is there already.
        flush: queued intents are thrown away, and new ones refused.
        kills: workers to kill.
        feed: whether the hardware watchdog may be fed.
        changes: for events, at most one.
        sentences: for operators.
    """

    permit: bool
    limits: str
    record: Record | None
    flush: bool
    kills: tuple[str, ...]
    feed: bool
    changes: tuple[Change, ...]
    sentences: tuple[str, ...]
