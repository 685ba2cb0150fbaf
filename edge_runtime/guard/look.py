"""One look at everything, before anything is decided."""

from typing import NamedTuple

from edge_runtime.guard.conditions import FROM_LATENESS, Condition
from edge_runtime.guard.memory import Inputs, Memory, State, Timer
from edge_runtime.guard.profile import Profile
from edge_runtime.guard.severity import Severity
from edge_runtime.guard.timers import active_in, advance
from edge_runtime.guard.verdict import Verdict, judge

PROVING = (State.INIT, State.RECOVERY, State.STOPPED)
"""Where healthy time is counted."""

ON_PROOF = (State.INIT, State.SAFE, State.LOCKOUT)
"""Where workers may still be starting: the unknown keeps from going on, but only what was found to hold latches."""


class Seen(NamedTuple):
    """What a step goes by.

    Attributes:
        now_ns: the time.
        late: whether the guard itself woke late.
        raw: mask of what holds now, or was not evaluated.
        active: mask of what counts.
        timers: how conditions stand.
        verdict: of all that counts.
        proven: the same of what the present state goes by; see `ON_PROOF`.
        trouble: mask of what keeps the body from being well.
        healthy_since_ns: since when it is well; None where it is not, or where that is not counted.
    """

    now_ns: int
    late: bool
    raw: int
    active: int
    timers: tuple[Timer, ...]
    verdict: Verdict
    proven: Verdict
    trouble: int
    healthy_since_ns: int | None


def look(now_ns: int, memory: Memory, inputs: Inputs, profile: Profile) -> Seen:
    """Look at the inputs in the light of what is remembered."""
    late = inputs.late_ns > profile.late_ns
    evaluated = inputs.evaluated | FROM_LATENESS
    tripped = inputs.tripped & ~FROM_LATENESS
    if late:
        tripped |= Condition.GUARD_LATE.mask
    if inputs.late_ns > profile.paused_ns:
        tripped |= Condition.GUARD_PAUSED.mask
    unknown = profile.counted & ~evaluated
    raw = profile.counted & tripped | unknown
    timers = advance(
        memory.timers, raw, late=late, now_ns=now_ns, looked_ns=memory.looked_ns, profile=profile
    )
    active = active_in(timers)
    verdict = proven = judge(timers, active, memory.mode, now_ns, profile)
    if memory.state in ON_PROOF:
        proven = judge(timers, active & tripped, memory.mode, now_ns, profile)
    trouble = unknown | (active | raw) & profile.stopping_conditions
    if verdict.severity >= Severity.STOPPED:
        trouble |= verdict.causes
    healthy_since_ns: int | None = None
    if memory.state in PROVING and not trouble and not late:
        healthy_since_ns = now_ns if memory.healthy_since_ns is None else memory.healthy_since_ns
    return Seen(now_ns, late, raw, active, timers, verdict, proven, trouble, healthy_since_ns)
