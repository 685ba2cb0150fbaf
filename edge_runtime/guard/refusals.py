"""What makes a profile unsafe, before anything moves by it.

Each of these has hurt somebody: fallbacks that needed the missing thing (PX4 #26289, #7910), modes in which a check
was not evaluated (ArduPilot #110), a bound of age whose default of zero meant none (navigation2 #6547).
"""

from collections.abc import Iterator

from edge_runtime.guard.conditions import BY_BIT, FROM_HISTORY, TRAITS, conditions_in
from edge_runtime.guard.profile import EVERYTHING, NS_PER_MS, Mode, Profile, Rule
from edge_runtime.guard.severity import AGEING, Judge, Need, Optional, Severity

WITHOUT_REALTIME = 3.0
"""A guard without SCHED_FIFO is given three times its time of detection.

A deadline of three times the worst healthy gap was what it took to be free of false trips on busy cores.
"""


def check(profile: Profile, *, realtime: bool = True, gated: bool = False) -> list[str]:
    """Why a profile may not be used; an empty list if it may.

    Args:
        profile: what `from_json` returned.
        realtime: whether the guard runs under SCHED_FIFO.
        gated: whether a motion gate passes commands to this body. Then it can move although it may not travel, such
            as an arm on its pedestal, and what befalls its workers counts as on any body that moves.

    Returns:
        One sentence per fault, in a stable order.
    """
    return [
        *_weakened(profile, gated=gated),
        *_forgotten(profile),
        *_times(profile),
        *_stopping(profile, realtime=realtime),
        *_freshness(profile),
        *(fault for mode in profile.modes for fault in _evaluation(profile, mode)),
        *(fault for mode in profile.modes for fault in _fallbacks(profile, mode)),
        *_circles(profile),
    ]


def _weakened(profile: Profile, *, gated: bool) -> Iterator[str]:
    """Conditions that count less than in the catalogue where they must not."""
    ignored, travels = dict(profile.ignored), profile.stopping.travels
    where = " on a body that travels" if travels else " on a body with a motion gate"
    for condition in BY_BIT:
        traits, rule = TRAITS[condition], profile.rule(condition)
        if traits.optional is Optional.ALWAYS:
            continue
        # A body that a gate lets act may lack an emergency stop if it does not travel, and never a memory.
        own = traits.optional is Optional.MILDER_ON_STILL_BODY or traits.judge is Judge.HISTORY
        moves = travels or (gated and own)
        if condition in ignored:
            if traits.optional is Optional.MILDER_ON_STILL_BODY:
                yield f"conditions.{condition.value}: must not be ignored"
            elif moves:
                yield f"conditions.{condition.value}: must not be ignored{where}"
        elif rule is not None and moves and _weaker(rule):
            yield f"conditions.{condition.value}: must not be milder or slower than in the catalogue{where}"


def _forgotten(profile: Profile) -> Iterator[str]:
    """Latches that nobody would know of after a restart."""
    if profile.remembers:
        return
    ignored = dict(profile.ignored)
    latching = [
        f"{condition.value} is not ignored"
        for condition in conditions_in(FROM_HISTORY)
        if condition not in ignored
    ]
    latching += [
        f"{rule.condition.value} latches"
        for rule in profile.rules.values()
        if max(rule.severity, rule.then or Severity.HEALTHY) >= Severity.SAFE
    ]
    if not profile.returns_from_stopped:
        latching.append("stopped.returns is false")
    for why in latching:
        yield f"conditions.latch_unknown: must not be ignored while {why}"


def _weaker(rule: Rule) -> bool:
    """Whether a rule is milder, trips later, clears sooner or worsens later than in the catalogue."""
    traits = TRAITS[rule.condition]
    return (
        rule.severity < traits.severity
        or rule.trip_ns > traits.trip_ms * NS_PER_MS
        or rule.clear_ns < traits.clear_ms * NS_PER_MS
        or rule.then_ns > traits.then_ms * NS_PER_MS
        or (rule.then or rule.severity) < (traits.then or rule.severity)
    )


def _times(profile: Profile) -> Iterator[str]:
    """Pairs of times of which the first has to be the shorter one."""
    for shorter, name, longer, than in (
        (profile.healthy_ns, "stopped.healthy_ms", profile.stopped_max_ns, "stopped.longest_ms"),
        (profile.settle_ns, "settle_ms", profile.start_ns, "start_ms"),
        (profile.late_ns, "late_ms", profile.lease_ns, "lease_ms"),
        (profile.late_ns, "late_ms", profile.paused_ns, "paused_ms"),
    ):
        if shorter >= longer:
            yield f"{name}: must be shorter than {than}, which is {longer // NS_PER_MS}"


def _stopping(profile: Profile, *, realtime: bool) -> Iterator[str]:
    """A stop that takes more room than there is, or that rests on times nobody can keep."""
    stopping = profile.stopping
    if not stopping.travels:
        return
    if stopping.t_gate_ms * NS_PER_MS < profile.lease_ns:
        yield f"stopping.t_gate_ms: must be at least the lease, which is {profile.lease_ns // NS_PER_MS}"
    if any(Need.CAMERA in mode.needs for mode in profile.modes):
        noticed_ns = [
            bound_ns + rule.trip_ns
            for need, bound_ns in profile.freshness_ns
            for rule in profile.rules_taking(Need.CAMERA)
            if need is Need.CAMERA
        ]
        if noticed_ns and stopping.t_detect_ms * NS_PER_MS < max(noticed_ns):
            least = max(noticed_ns) // NS_PER_MS
            yield f"stopping.t_detect_ms: must be at least {least}, after which a lost camera is noticed"
    factor = 1.0 if realtime else WITHOUT_REALTIME
    distance_m = stopping.distance_m(detect_factor=factor)
    if distance_m > stopping.free_range_m:
        slow = "" if realtime else " without a real-time schedule"
        yield (
            f"stopping: a stop takes {distance_m:.2f} m{slow}, but only {stopping.free_range_m:.2f} m are free; "
            "lower v_max_m_s or the times, or see farther"
        )


def _freshness(profile: Profile) -> Iterator[str]:
    """Readings that a mode relies on at any age."""
    bounds = dict(profile.freshness_ns)
    for need in AGEING:
        if bounds.get(need, 0) == 0 and (need in bounds or any(need in mode.needs for mode in profile.modes)):
            yield f"freshness_ms.{need.value}: must be more than 0; there is no reading that may be of any age"


def _evaluation(profile: Profile, mode: Mode) -> Iterator[str]:
    """Conditions that a mode has to know of, and does not."""
    for condition in conditions_in(EVERYTHING):
        rule, takes = profile.rule(condition), TRAITS[condition].takes
        if takes in mode.needs and (rule is None or rule.severity < Severity.DEGRADED):
            yield f"modes.{mode.name}: needs the {takes.value}, so {condition.value} must be degraded or worse"
        critical = takes in mode.needs or (rule is not None and rule.severity >= Severity.STOPPED)
        if critical and not mode.evaluates & condition.mask:
            yield f"modes.{mode.name}: must evaluate {condition.value}"


def _fallbacks(profile: Profile, mode: Mode) -> Iterator[str]:
    """Fallbacks that lead nowhere, or to a mode that needs what was lost."""
    where = f"modes.{mode.name}"
    for need, name in mode.fallbacks:
        following = profile.mode(name)
        if following is None:
            yield f"{where}.fallbacks.{need.value}: there is no mode {name}"
        elif need in following.needs:
            yield f"{where}.fallbacks.{need.value}: {name} needs the {need.value} too"
        if need not in mode.needs:
            yield f"{where}.fallbacks.{need.value}: {mode.name} does not need it"
    if mode.slower is None:
        return
    slower = profile.mode(mode.slower)
    if mode is not profile.start_mode:
        yield f"{where}.slower: only the first mode has a slower one"
    if slower is None:
        yield f"{where}.slower: there is no mode {mode.slower}"
    elif not set(slower.needs) <= set(mode.needs):
        yield f"{where}.slower: {mode.slower} must not need more than {mode.name}"


def _circles(profile: Profile) -> Iterator[str]:
    """Fallbacks that lead back to where they came from."""
    leads: dict[str, set[str | None]] = {
        mode.name: {mode.slower, *(name for _, name in mode.fallbacks)} for mode in profile.modes
    }
    while ends := [name for name, following in leads.items() if not following & leads.keys()]:
        for name in ends:
            del leads[name]
    if leads:
        yield f"modes: the fallbacks of {', '.join(leads)} lead in a circle"
