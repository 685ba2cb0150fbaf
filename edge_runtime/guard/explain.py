"""What the state machine would do, does and waits for, in words: for `guard explain`, `guard simulate`, events."""

from edge_runtime.guard.conditions import BY_BIT, TRAITS, Condition, conditions_in
from edge_runtime.guard.memory import LATCHED, Change, Inputs, Memory, Outputs, State
from edge_runtime.guard.profile import Mode, Profile
from edge_runtime.guard.requests import names, strictest
from edge_runtime.guard.severity import Clears, Judge, Severity

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


def told(change: Change) -> str:
    """One sentence about a change of state."""
    causes = list(conditions_in(change.causes))
    why = "; ".join(f"{TRAITS[condition].text} ({condition.value})" for condition in causes)
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
    if traits.judge is Judge.HISTORY:
        return _CONSEQUENCE[traits.severity], "found by the guard", _CLEARS[traits.clears]
    if rule is None:
        return "ignored", "never", dict(profile.ignored)[condition]
    consequence = _consequence(rule.severity, profile)
    if rule.then is not None:
        consequence += f", after {rule.then_ns // MS} ms {_consequence(rule.then, profile)}"
    latches = _latches(rule.severity, profile)
    clears = max(traits.clears, Clears.ACK) if latches else traits.clears
    how = _CLEARS[clears] + (f", when clear for {rule.clear_ns // MS} ms" if rule.clear_ns else "")
    if not latches and rule.then is not None and _latches(rule.then, profile):
        how += f"; latched: {_CLEARS[max(traits.clears, Clears.ACK)]}"
    return consequence, f"after {rule.trip_ns // MS} ms" if rule.trip_ns else "at once", how


def _latches(severity: Severity, profile: Profile) -> bool:
    return severity >= Severity.SAFE or (severity is Severity.STOPPED and not profile.returns_from_stopped)


def _consequence(severity: Severity, profile: Profile) -> str:
    return _CONSEQUENCE[max(severity, Severity.SAFE) if _latches(severity, profile) else severity]


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


def page(memory: Memory, inputs: Inputs, outputs: Outputs, profile: Profile) -> list[str]:
    """The screen of `guard simulate` and `status`: the state, why, and every condition that is not at rest."""
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
