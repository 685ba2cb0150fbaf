"""What the state machine would do, does and waits for, in words.

For `guard explain` and `guard simulate`, the guard's sentences and status, and the events of its changes of state.
"""

from typing import NamedTuple

from edge_runtime.guard.conditions import BY_BIT, TRAITS, Condition, conditions_in
from edge_runtime.guard.memory import LATCHED, Change, Inputs, Memory, Outputs, State
from edge_runtime.guard.profile import Mode, Profile
from edge_runtime.guard.refusals import WITHOUT_REALTIME
from edge_runtime.guard.requests import names, strictest
from edge_runtime.guard.severity import Clears, Severity

MS = 1_000_000

_CONSEQUENCE = {
    Severity.WARN: "told only",
    Severity.DEGRADED: "slower",
    Severity.STOPPED: "stop",
    Severity.SAFE: "SAFE, latched",
    Severity.LOCKOUT: "LOCKOUT",
}

_CLEARS = {
    Clears.ALONE: "alone",
    Clears.ACK: "acknowledgement",
    Clears.ACK_AT_STANDSTILL: "acknowledgement at standstill",
    Clears.RESET_AND_ACK: "reset at the machine, then acknowledgement",
}


_C = Condition

_EVALUATED_BY = {
    "perception": (
        _C.SOURCE_STALLED,
        _C.SOURCE_DARK,
        _C.SOURCE_FROZEN,
        _C.SOURCE_LATE,
        _C.INFERENCE_LATE,
        _C.OUTPUT_NOT_FINITE,
        _C.EVENT_LATE,
    ),
    "outbox": (_C.QUEUE_NEAR_FULL,),
    "uplink": (_C.LINK_LOST,),
    "monitor": (
        _C.DISK_NEARLY_FULL,
        _C.MEMORY_PRESSURE,
        _C.CLOCK_STEPPED,
        _C.BATTERY_MISSING,
        _C.BATTERY_FROZEN,
        _C.BATTERY_LOW,
        _C.BATTERY_CRITICAL,
        _C.POSE_STALE,
        _C.MAP_STALE,
        _C.SOC_HOT,
        _C.SOC_CRITICAL,
        _C.SOC_THROTTLED,
        _C.TEMPERATURE_UNKNOWN,
    ),
    "motion-gate": (
        _C.MOTION_REFUSALS,
        _C.UNAPPROVED_RISK,
        _C.ESTOP,
        _C.ESTOP_DISAGREES,
    ),
}
"""Which worker evaluates a condition; all others the guard evaluates itself."""


_MEANINGS = {condition.value: traits.text for condition, traits in TRAITS.items()}


def evaluated_by(condition: Condition) -> str:
    """The worker that evaluates a condition, or `guard`."""
    return next((name for name, its in _EVALUATED_BY.items() if condition in its), "guard")


class Explained(NamedTuple):
    """What one condition does on one body.

    Attributes:
        condition: its name.
        text: what it means.
        severity: `healthy` where it is ignored, else `warn` to `lockout`, as this body counts it.
        does: the same in words, with what it becomes later.
        trips: when it counts.
        trip_ms: how long it has to hold until it counts; None where nobody trips it from outside.
        clear_ms: how long it has to be clear; None as above.
        then: what it becomes when it goes on counting; None where it does not get worse.
        then_ms: for how long it has to count until then; None as above.
        clears: how its consequence is left.
        evaluated_by: the worker that says whether it holds, or `guard`.
        not_evaluated_in: modes in which it cannot get worse than DEGRADED, because nobody looks.
        ignored: the reason that the profile gives; None where it is not ignored.
    """

    condition: str
    text: str
    severity: str
    does: str
    trips: str
    trip_ms: int | None
    clear_ms: int | None
    then: str | None
    then_ms: int | None
    clears: str
    evaluated_by: str
    not_evaluated_in: tuple[str, ...]
    ignored: str | None


def explained(condition: Condition, profile: Profile) -> Explained:
    """Everything about one condition on a body."""
    does, trips, clears = _row(condition, profile)
    rule, ignored = profile.rule(condition), dict(profile.ignored).get(condition)
    severity = TRAITS[condition].severity if ignored is None else Severity.HEALTHY
    if rule is not None:
        severity = _counted(rule.severity, profile)
    then = None if rule is None or rule.then is None else _counted(rule.then, profile)
    return Explained(
        condition=condition.value,
        text=TRAITS[condition].text,
        severity=severity.name.lower(),
        does=does,
        trips=trips,
        trip_ms=None if rule is None else rule.trip_ns // MS,
        clear_ms=None if rule is None else rule.clear_ns // MS,
        then=None if then is None else then.name.lower(),
        then_ms=None if rule is None or then is None else rule.then_ns // MS,
        clears=clears,
        evaluated_by=evaluated_by(condition),
        not_evaluated_in=tuple(mode.name for mode in profile.modes if not mode.evaluates & condition.mask)
        if rule is not None
        else (),
        ignored=ignored,
    )


def stop(profile: Profile, *, realtime: bool) -> str:
    """The sum of a stop on a body: v·(t_detect + t_gate + t_act) + v²/2a + margin, and what is free."""
    stopping = profile.stopping
    if not stopping.travels:
        return "this body does not travel: a stop takes no room"
    factor = 1.0 if realtime else WITHOUT_REALTIME
    detect = "" if factor == 1.0 else f"{factor:g}·"
    braking_m = stopping.v_max_m_s**2 / (2 * stopping.a_brake_m_s2)
    return (
        f"{stopping.v_max_m_s:g} m/s · ({detect}{stopping.t_detect_ms:g} + {stopping.t_gate_ms:g} + "
        f"{stopping.t_act_ms:g}) ms + {braking_m:.2f} m + {stopping.margin_m:g} m = "
        f"{stopping.distance_m(detect_factor=factor):.2f} m of {stopping.free_range_m:.2f} m"
    )


def meaning(name: str) -> str:
    """What a condition means, and its name; the name alone where this version does not know it."""
    return f"{_MEANINGS[name]} ({name})" if name in _MEANINGS else name


def told(change: Change) -> str:
    """One sentence about a change of state."""
    why = "; ".join(meaning(condition.value) for condition in conditions_in(change.causes))
    if change.after in LATCHED:
        return f"{change.after.value}, latch {change.latch_id}: {why}"
    if change.before is State.INIT and change.after is State.INIT:
        return "INIT: the guard started, and nothing may move until it is armed"
    came = f"{change.after.value}, from {change.before.value}"
    return f"{came}: {why}" if why else came


def table(profile: Profile) -> list[tuple[str, str, str, str, str]]:
    """What each condition does on a body, one row per condition.

    Returns:
        Rows of (condition, consequence, when it trips, how it clears, what it means).
    """
    return [(condition.value, *_row(condition, profile), TRAITS[condition].text) for condition in BY_BIT]


def _row(condition: Condition, profile: Profile) -> tuple[str, str, str]:
    traits, rule = TRAITS[condition], profile.rule(condition)
    if (why := dict(profile.ignored).get(condition)) is not None:
        return "ignored", "never", why
    if rule is None:
        return _CONSEQUENCE[traits.severity], "found by the guard", _CLEARS[traits.clears]
    consequence = _consequence(rule.severity, profile)
    if rule.then is not None:
        consequence += f", after {rule.then_ns // MS} ms {_consequence(rule.then, profile)}"
    latches = _latches(rule.severity, profile)
    clears = max(traits.clears, Clears.ACK) if latches else Clears.ALONE
    how = _CLEARS[clears] + (f", when clear for {rule.clear_ns // MS} ms" if rule.clear_ns else "")
    if not latches and rule.then is not None and _latches(rule.then, profile):
        how += f"; latched: {_CLEARS[max(traits.clears, Clears.ACK)]}"
    return consequence, f"after {rule.trip_ns // MS} ms" if rule.trip_ns else "at once", how


def _latches(severity: Severity, profile: Profile) -> bool:
    return severity >= Severity.SAFE or (severity is Severity.STOPPED and not profile.returns_from_stopped)


def _consequence(severity: Severity, profile: Profile) -> str:
    return _CONSEQUENCE[_counted(severity, profile)]


def _counted(severity: Severity, profile: Profile) -> Severity:
    """What a severity is on a body: one that may not move again by itself latches instead of stopping."""
    return max(severity, Severity.SAFE) if _latches(severity, profile) else severity


def modes(profile: Profile) -> list[str]:
    """What each mode of a body needs, and where it goes when something is lost; one sentence each."""
    return [_mode(mode, first=mode is profile.start_mode) for mode in profile.modes]


def _mode(mode: Mode, *, first: bool) -> str:
    needs = ", ".join(need.value for need in mode.needs) or "nothing"
    goes = dict(mode.fallbacks)
    lost = [f"without {need.value} {goes.get(need, 'it stops')}" for need in mode.needs]
    if first:
        lost.append(f"when degraded {mode.slower or 'it stops'}")
    return f"{mode.name}: limits {mode.limits}, needs {needs}" + "".join(f"; {text}" for text in lost)


def waits_for(memory: Memory, profile: Profile) -> str:
    """What it takes to leave the present state for a better one."""
    if memory.latch is not None:
        clears = _CLEARS[strictest(memory.latch)]
        return f"{clears}, naming the latch {memory.latch.id}, when its causes are clear"
    return _WAITS[memory.state].format(settle=profile.settle_ns // MS, healthy=profile.healthy_ns // MS)


_WAITS = {
    State.INIT: "everything evaluated and well for {settle} ms",
    State.RECOVERY: "everything evaluated and well for {settle} ms",
    State.STANDBY: "a request to arm that is newer than the entry into STANDBY",
    State.STOPPED: "everything evaluated and well for {healthy} ms",
    State.DEGRADED: "the conditions to clear",
    State.NOMINAL: "nothing",
}


def simulation_lines(memory: Memory, inputs: Inputs, outputs: Outputs, profile: Profile) -> list[str]:
    """What `show` says in `guard simulate`: the state, why, and every condition that is not at rest."""
    lines = [
        f"state   {memory.state.value}",
        f"permit  {'yes' if outputs.permit else 'no'}, limits {outputs.limits}",
        f"waits   for {waits_for(memory, profile)}",
    ]
    if memory.latch is not None:
        lines.append(f"latch   {memory.latch.id}: {names(memory.latch.causes)}")
    for timer in memory.timers:
        condition = BY_BIT[timer.bit]
        known = "" if inputs.evaluated & condition.mask else ", not evaluated"
        stands = "counts"
        if timer.since_ns is None:
            stands = f"{100 * timer.level_ns // profile.rules[timer.bit].trip_ns} % of its budget"
        lines.append(f"        {condition.value}: {stands}{known}")
    return lines
