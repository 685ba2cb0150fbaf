"""The guard's state machine: (time, memory, inputs, profile) to (memory, outputs), pure and table-driven.

The device, the tests and `edge-runtime guard simulate` run this same code. A step changes the state once at most,
so that the way from SAFE to motion always passes RECOVERY and STANDBY, and needs an acknowledgement and a request
to arm, each newer than the state that it answers.
"""

from typing import NamedTuple

from edge_runtime.guard import explain
from edge_runtime.guard.conditions import KILLING, REBOOTING, Condition
from edge_runtime.guard.look import PROVING, Seen, look
from edge_runtime.guard.memory import (
    CLOSED,
    LATCHED,
    PERMITTING,
    Change,
    Inputs,
    Latch,
    Memory,
    Outputs,
    Record,
    State,
)
from edge_runtime.guard.profile import Profile
from edge_runtime.guard.requests import MEANWHILE, refuse_acknowledgement, refuse_arming
from edge_runtime.guard.severity import Severity

_I, _B, _N, _D = State.INIT, State.STANDBY, State.NOMINAL, State.DEGRADED
_P, _S, _R, _L = State.STOPPED, State.SAFE, State.RECOVERY, State.LOCKOUT

AFTER: dict[State, tuple[State, ...]] = {
    #     HEALTHY WARN DEGRADED STOPPED SAFE LOCKOUT
    _I: (_I, _I, _I, _I, _S, _L),
    _B: (_B, _B, _B, _B, _S, _L),
    _N: (_N, _N, _D, _P, _S, _L),
    _D: (_N, _N, _D, _P, _S, _L),
    _P: (_P, _P, _P, _P, _S, _L),
    _S: (_S, _S, _S, _S, _S, _L),
    _R: (_R, _R, _R, _R, _S, _L),
    _L: (_L, _L, _L, _L, _L, _L),
}
"""Where the worst condition leads, by state; all else takes time or a request."""


_ARMED = (*PERMITTING, State.STOPPED)
"""Where there is a permission, or it may come back by itself."""


class _Move(NamedTuple):
    """Where to go, and why."""

    state: State
    causes: int = 0
    turns_ns: tuple[int, ...] | None = None


def start(
    now_ns: int, *, boot_id: str, nonce: bytes, found: Record | None, profile: Profile
) -> tuple[Memory, Outputs]:
    """The first state of a guard.

    Args:
        now_ns: the time.
        boot_id: the kernel's id of this boot.
        nonce: 16 to 64 random bytes that nobody else knows.
        found: what was on disk; None if it is missing or cannot be read, which is a latch of its own.
        profile: what the body allows.

    Returns:
        INIT, or the latched state that was found. Never anything that may move, whatever the state before was.
    """
    memory = Memory(
        state=State.INIT,
        entered_ns=now_ns,
        mode=profile.start_mode,
        nonce=nonce,
        boot_id=boot_id,
        looked_ns=now_ns,
    )
    record, change = None, Change(now_ns, State.INIT, State.INIT, 0, None)
    if found is None:
        unknown = _Move(State.SAFE, Condition.LATCH_UNKNOWN.mask)
        memory, record, change = _enter(memory, unknown, now_ns, profile)
    else:
        # times of another boot mean nothing now: what is remembered of it counts as if it were of this moment
        times = found.latches_ns if found.boot_id == boot_id else (now_ns,) * len(found.latches_ns)
        memory = memory._replace(latches_ns=times)
        if found.latch is not None:
            state = State.LOCKOUT if found.latch.state is State.LOCKOUT else State.SAFE  # and nothing else
            latch = found.latch._replace(state=state, since_ns=now_ns)
            memory = memory._replace(state=state, latch=latch)
            change = Change(now_ns, State.INIT, state, latch.causes, latch.id)
    return memory, Outputs(
        permit=False,
        limits=CLOSED,
        record=record,
        flush=True,
        kills=(),
        feed=True,
        changes=(change,),
        sentences=(explain.told(change),),
    )


def step(now_ns: int, memory: Memory, inputs: Inputs, profile: Profile) -> tuple[Memory, Outputs]:
    """One turn of the guard.

    Args:
        now_ns: the time; it never goes back.
        memory: what the last step returned.
        inputs: what was seen since.
        profile: what the body allows; `refusals.check` had no word about it.

    Returns:
        What to remember, and what to do.
    """
    seen = look(now_ns, memory, inputs, profile)
    move = _by_conditions(memory, seen, profile)
    # asked for once, so a condition that comes in the same moment must not hide it
    if inputs.disarm and memory.state in _ARMED and (move is None or move.state in _ARMED):
        move = _Move(State.STANDBY)
    requested, sentences = _by_requests(memory, inputs, seen, profile, moving=move is not None)
    if move is None:
        move = _by_time(memory, seen, profile) if requested is None else requested
    memory = _remember(memory, inputs, seen)
    record: Record | None = None
    changes: tuple[Change, ...] = ()
    if move is not None:
        memory, record, change = _enter(memory, move, now_ns, profile)
        changes = (change,)
        sentences = (explain.told(change), *sentences)
    permitting = memory.state in PERMITTING
    if permitting and memory.mode is not seen.verdict.mode:
        memory = memory._replace(mode=seen.verdict.mode)
    return memory, Outputs(
        permit=permitting and not seen.late,
        limits=memory.mode.limits if permitting else CLOSED,
        record=record,
        flush=not permitting,
        kills=inputs.suspects if seen.active & KILLING else (),
        feed=not seen.late and not seen.active & REBOOTING,
        changes=changes,
        sentences=sentences,
    )


def _by_conditions(memory: Memory, seen: Seen, profile: Profile) -> _Move | None:
    """Where the conditions lead."""
    target = AFTER[memory.state][seen.proven.severity]
    if memory.latch is not None:
        latching = seen.proven.severity >= Severity.SAFE
        gained = seen.proven.causes & ~memory.latch.causes if latching else 0
        return _Move(target, gained) if gained or target is not memory.state else None
    if target is memory.state:
        return None
    if target not in (State.DEGRADED, State.STOPPED):
        return _Move(target, seen.proven.causes)
    turns_ns = (*_within(memory.turns_ns, seen.now_ns, profile.trips_window_ns), seen.now_ns)
    if len(turns_ns) >= profile.trips_max:
        return _Move(State.SAFE, seen.proven.causes | Condition.REPEATED_TRIPS.mask)
    return _Move(target, seen.proven.causes, turns_ns)


def _by_requests(
    memory: Memory, inputs: Inputs, seen: Seen, profile: Profile, *, moving: bool
) -> tuple[_Move | None, tuple[str, ...]]:
    """Where requests lead, and why those lead nowhere that do not. Each is answered once."""
    move: _Move | None = None
    refused: list[str] = []
    if inputs.ack is not None and inputs.ack.received_ns > memory.ack_seen_ns:
        why = MEANWHILE if moving else refuse_acknowledgement(memory, inputs, inputs.ack, seen, profile)
        if why is None:
            move = _Move(State.RECOVERY)
        else:
            refused.append(f"the acknowledgement is refused: {why}")
    if inputs.arm_ns is not None and inputs.arm_ns > memory.arm_seen_ns:
        why = MEANWHILE if moving else refuse_arming(memory, inputs, inputs.arm_ns, seen)
        if why is None:
            move = _Move(AFTER[State.NOMINAL][seen.verdict.severity], seen.verdict.causes)
        else:
            refused.append(f"the request to arm is refused: {why}")
    return move, tuple(refused)


def _by_time(memory: Memory, seen: Seen, profile: Profile) -> _Move | None:
    """Where healthy time leads, or the lack of it."""
    if memory.state not in PROVING:
        return None
    stopped = memory.state is State.STOPPED
    healthy_ns = profile.healthy_ns if stopped else profile.settle_ns
    if seen.healthy_since_ns is not None and seen.now_ns - seen.healthy_since_ns >= healthy_ns:
        target = AFTER[State.NOMINAL][seen.verdict.severity] if stopped else State.STANDBY
        return _Move(target, seen.verdict.causes)
    if seen.now_ns - memory.entered_ns >= (profile.stopped_max_ns if stopped else profile.start_ns):
        own = Condition.STOPPED_TOO_LONG if stopped else Condition.START_TIMEOUT
        return _Move(State.SAFE, own.mask | seen.trouble)
    return None


def _remember(memory: Memory, inputs: Inputs, seen: Seen) -> Memory:
    """What this step leaves behind if the state stays as it is."""
    arm_ns = memory.arm_seen_ns if inputs.arm_ns is None else max(inputs.arm_ns, memory.arm_seen_ns)
    ack_ns = memory.ack_seen_ns if inputs.ack is None else max(inputs.ack.received_ns, memory.ack_seen_ns)
    return memory._replace(
        looked_ns=seen.now_ns,
        timers=seen.timers,
        healthy_since_ns=seen.healthy_since_ns,
        arm_seen_ns=arm_ns,
        ack_seen_ns=ack_ns,
    )


def _enter(
    memory: Memory, move: _Move, now_ns: int, profile: Profile
) -> tuple[Memory, Record | None, Change]:
    """Enter a state, or give a latch another cause; what is latched is written down before all else."""
    state, latches_ns = move.state, memory.latches_ns
    # what only warns, or was not evaluated yet, led nowhere
    causes = 0 if state in (State.STANDBY, State.NOMINAL) else move.causes
    before = memory.latch
    latch: Latch | None = None
    if state in LATCHED:
        if before is None:
            latches_ns = (*_within(latches_ns, now_ns, profile.latches_window_ns), now_ns)
            if len(latches_ns) >= profile.latches_max:
                state, causes = State.LOCKOUT, causes | Condition.REPEATED_LATCHES.mask
        else:
            causes |= before.causes
        latch = Latch(_latch_id(memory), state, causes, now_ns)
    elif memory.state is State.LOCKOUT:
        latches_ns = ()  # somebody was at the machine: it counts anew
    following = memory._replace(
        state=state,
        entered_ns=memory.entered_ns if state is memory.state else now_ns,
        mode=profile.start_mode,
        healthy_since_ns=None,
        turns_ns=() if latch is not None else move.turns_ns or memory.turns_ns,
        latch=latch,
        latches_ns=latches_ns,
        number=memory.number + (latch is not None),
    )
    record = None if latch is before else Record(latch, latches_ns, memory.boot_id)
    return following, record, Change(now_ns, memory.state, state, causes, latch.id if latch else None)


def _latch_id(memory: Memory) -> str:
    """12 hexadecimal digits that nobody can know before: an acknowledgement cannot be signed in advance."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL; see loop.Guard._load

    return hashlib.blake2b(
        str(memory.number).encode(), key=memory.nonce, digest_size=6, person=b"latch"
    ).hexdigest()


def _within(times_ns: tuple[int, ...], now_ns: int, window_ns: int) -> tuple[int, ...]:
    return tuple(time_ns for time_ns in times_ns if now_ns - time_ns < window_ns)
