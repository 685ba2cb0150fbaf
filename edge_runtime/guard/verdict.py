"""How bad all that counts is together, and which mode is left."""

from typing import NamedTuple

from edge_runtime.guard.fallback import mode_without
from edge_runtime.guard.memory import Timer
from edge_runtime.guard.profile import Mode, Profile
from edge_runtime.guard.severity import Severity


class Verdict(NamedTuple):
    """The worst of what counts.

    Attributes:
        severity: how bad it is.
        causes: mask of the conditions that make it so; for what latches, of all that would latch.
        mode: the mode that is left; the first one where nothing may move.
    """

    severity: Severity
    causes: int
    mode: Mode


def judge(timers: tuple[Timer, ...], among: int, mode: Mode, now_ns: int, profile: Profile) -> Verdict:
    """Judge the conditions that count.

    Args:
        timers: how conditions stand.
        among: mask of those that are looked at.
        mode: the mode of the body. What it does not evaluate cannot get worse than DEGRADED in it; everything
            critical is evaluated in every mode, or the profile is refused.
        now_ns: the time.
        profile: what the body allows.
    """
    found = {
        timer.bit: _severity(timer.bit, now_ns - timer.since_ns, mode, profile)
        for timer in timers
        if timer.since_ns is not None and among >> timer.bit & 1
    }
    if not found:
        return Verdict(Severity.HEALTHY, 0, profile.start_mode)
    worst = max(found.values())
    if worst <= Severity.DEGRADED:
        lost = {
            need
            for bit, severity in found.items()
            if severity is Severity.DEGRADED and (need := profile.rules[bit].takes) is not None
        }
        left = mode_without(profile, lost, degraded=worst is Severity.DEGRADED)
        if left is not None:
            return Verdict(worst, _mask(found, worst), left)
        return Verdict(_stopped(profile), _mask(found, worst), profile.start_mode)
    return Verdict(worst, _mask(found, min(worst, Severity.SAFE)), profile.start_mode)


def _severity(bit: int, for_ns: int, mode: Mode, profile: Profile) -> Severity:
    rule = profile.rules[bit]
    severity = rule.severity
    if rule.then is not None and for_ns >= rule.then_ns:
        severity = rule.then
    if not mode.evaluates >> bit & 1:
        return min(severity, Severity.DEGRADED)
    return _stopped(profile) if severity is Severity.STOPPED else severity


def _stopped(profile: Profile) -> Severity:
    """What STOPPED is on this body: one that may not move again by itself latches instead."""
    return Severity.STOPPED if profile.returns_from_stopped else Severity.SAFE


def _mask(found: dict[int, Severity], least: Severity) -> int:
    mask = 0
    for bit, severity in found.items():
        if severity >= least:
            mask |= 1 << bit
    return mask
