"""Whether a release on probation runs well: pure, by what perception counts and by what ran before it."""

from dataclasses import dataclass

from edge_runtime.protocol.release import ProbationTerms
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.machine.observed import Device, InUse
from edge_runtime.updates.machine.work import Before

UNANSWERED = 0.05
"""So much more of the frames without an answer than before is too much."""

COMPARED_S = 60.0
"""What ran for less is no measure of how often events happen."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says: well, not well and why, or not yet."""

    passed: bool = False
    code: UpdateCode | None = None
    text: str = ""


NOT_YET = Verdict()
WELL = Verdict(passed=True)


def judge_probation(
    terms: ProbationTerms, before: Before, in_use: InUse, device: Device, age_s: float, *, same_boot: bool
) -> Verdict:
    """The verdict on a release that is in use.

    What is bad is bad at once; well is only what had its time and its frames. Where nothing was known before, as of
    a camera that was dark, only what needs no comparison is looked at.

    Args:
        terms: of the release.
        before: what ran before it.
        in_use: what perception says of it.
        device: how the rest stands.
        age_s: since it was put in use.
        same_boot: whether the device has not been restarted since.
    """
    fault = (
        _crash(before, in_use, device, same_boot=same_boot)
        or _guard(in_use, device)
        or _numbers(before, in_use)
        or _latency(terms, before, in_use)
        or _events(terms, before, in_use)
        or _heat(terms, before, in_use, device)
    )
    if fault is not None:
        return fault
    if in_use.seconds >= terms.seconds and in_use.answered >= terms.min_frames:
        return WELL
    if age_s >= terms.max_seconds:
        return Verdict(
            code=UpdateCode.PROBATION_NO_DATA,
            text=f"{in_use.answered} frames answered in {age_s:.0f} s; a verdict needs {terms.min_frames} in "
            f"{terms.seconds} s of use",
        )
    return NOT_YET


def _crash(before: Before, in_use: InUse, device: Device, *, same_boot: bool) -> Verdict | None:
    """Perception's process began anew although neither the device nor its guard did."""
    if not same_boot or not before.process or in_use.process == before.process:
        return None
    if device.guard != before.guard:
        return None
    return Verdict(code=UpdateCode.PROBATION_CRASH, text="perception ended and was started again")


def _guard(in_use: InUse, device: Device) -> Verdict | None:
    if any(age_s <= in_use.seconds for age_s in device.trip_ages_s):
        return Verdict(
            code=UpdateCode.PROBATION_GUARD,
            text="the guard held the body for what the new release may have caused",
        )
    return None


def _numbers(before: Before, in_use: InUse) -> Verdict | None:
    if in_use.nonfinite and in_use.nonfinite * max(1, before.frames) > 2 * before.nonfinite * in_use.frames:
        return Verdict(
            code=UpdateCode.PROBATION_NONFINITE,
            text=f"{in_use.nonfinite} of {in_use.frames} frames held values that are no numbers",
        )
    share = in_use.unanswered / max(1, in_use.frames)
    usual = before.unanswered / max(1, before.frames)
    if in_use.frames >= 1 / UNANSWERED and share > usual + UNANSWERED:
        return Verdict(
            code=UpdateCode.PROBATION_NONFINITE,
            text=f"{in_use.unanswered} of {in_use.frames} frames got no answer, or none in numbers",
        )
    return None


def _latency(terms: ProbationTerms, before: Before, in_use: InUse) -> Verdict | None:
    now_ms = in_use.latency_p95_ms
    if now_ms is None or in_use.answered < terms.min_frames:
        return None
    if terms.max_latency_ms is not None and now_ms > terms.max_latency_ms:
        return Verdict(
            code=UpdateCode.PROBATION_LATENCY,
            text=f"95th percentile of the model's time is {now_ms:.1f} ms, more than {terms.max_latency_ms:g}",
        )
    then_ms = before.latency_p95_ms
    if then_ms and now_ms > then_ms * terms.max_latency_ratio:
        return Verdict(
            code=UpdateCode.PROBATION_LATENCY,
            text=f"95th percentile of the model's time is {now_ms:.1f} ms, and was {then_ms:.1f}; allowed is "
            f"{terms.max_latency_ratio:g} times as much",
        )
    return None


def _events(terms: ProbationTerms, before: Before, in_use: InUse) -> Verdict | None:
    """Compares counts in equal times: 2,000 events of a day say little about the next five minutes."""
    if before.seconds < COMPARED_S or not before.frames or in_use.answered < terms.min_frames:
        return None
    expected = before.events / before.seconds * in_use.seconds
    seen = float(in_use.events)
    if max(expected, seen) < terms.min_events:
        return None
    ratio = max((seen + 1) / (expected + 1), (expected + 1) / (seen + 1))
    if ratio > terms.max_event_rate_ratio:
        return Verdict(
            code=UpdateCode.PROBATION_EVENT_RATE,
            text=f"{in_use.events} events in {in_use.seconds:.0f} s, where {expected:.0f} would be usual",
        )
    return None


def _heat(terms: ProbationTerms, before: Before, in_use: InUse, device: Device) -> Verdict | None:
    now_c = in_use.celsius if in_use.celsius is not None else device.celsius
    if now_c is None or before.celsius is None or now_c - before.celsius <= terms.max_temperature_rise_c:
        return None
    return Verdict(
        code=UpdateCode.PROBATION_THERMAL,
        text=f"the hottest zone rose from {before.celsius:.0f} to {now_c:.0f} °C",
    )
