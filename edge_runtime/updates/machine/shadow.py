"""Whether a candidate may take the place of the model in use, by how both saw the same live frames: pure."""

from edge_runtime.protocol.release import ShadowTerms
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.machine.observed import Shadowed
from edge_runtime.updates.machine.probation import NOT_YET, UNANSWERED, WELL, Verdict

ENOUGH_OBJECTS = 20
"""Of both models together; a share of fewer is waited for as long as the terms allow."""


def judge_shadow(
    terms: ShadowTerms, shadowed: Shadowed, age_s: float, rise_c: float | None, max_rise_c: float
) -> Verdict:
    """The verdict on a candidate that runs beside the model in use.

    Args:
        terms: of the release.
        shadowed: what both saw.
        age_s: since it was loaded and could be shown frames.
        rise_c: of the hottest zone since then; None where no temperature is known.
        max_rise_c: allowed.
    """
    if rise_c is not None and rise_c > max_rise_c:
        return Verdict(
            code=UpdateCode.SHADOW_HOT, text=f"the hottest zone rose by {rise_c:.0f} °C beside the other"
        )
    asked = shadowed.frames + shadowed.unanswered
    if shadowed.nonfinite:
        return Verdict(
            code=UpdateCode.SHADOW_DISAGREES,
            text=f"{shadowed.nonfinite} of {asked} frames held values that are no numbers",
        )
    if asked >= 1 / UNANSWERED and shadowed.unanswered > asked * UNANSWERED:
        return Verdict(
            code=UpdateCode.SHADOW_DISAGREES,
            text=f"{shadowed.unanswered} of {asked} frames got no answer, or none in numbers",
        )
    over = age_s >= terms.max_seconds
    had_its_time = shadowed.seconds >= terms.seconds and shadowed.frames >= terms.min_frames
    if not had_its_time or (shadowed.objects < ENOUGH_OBJECTS and not over):
        return _no_data(terms, shadowed) if over else NOT_YET
    return _compared(terms, shadowed, over=over)


def _compared(terms: ShadowTerms, shadowed: Shadowed, *, over: bool) -> Verdict:
    agreement = shadowed.agreement
    if agreement is None:
        return _no_data(terms, shadowed)
    if agreement < terms.min_agreement:
        return Verdict(
            code=UpdateCode.SHADOW_DISAGREES,
            text=f"agrees about {agreement:.0%} of {shadowed.objects} objects; its terms want "
            f"{terms.min_agreement:.0%}",
        )
    if not shadowed.running_ms or shadowed.candidate_ms is None:
        return _untimed(shadowed) if over else NOT_YET
    ratio = shadowed.candidate_ms / shadowed.running_ms
    if ratio > terms.max_latency_ratio:
        return Verdict(
            code=UpdateCode.SHADOW_SLOW,
            text=f"takes {ratio:.2f} times as long as the model in use; allowed is {terms.max_latency_ratio:g}",
        )
    return WELL


def _untimed(shadowed: Shadowed) -> Verdict:
    whose = "the model in use" if not shadowed.running_ms else "this release"
    return Verdict(
        code=UpdateCode.SHADOW_NO_DATA,
        text=f"the time of {whose} could not be measured beside the other, so nobody knows which is slower",
    )


def _no_data(terms: ShadowTerms, shadowed: Shadowed) -> Verdict:
    return Verdict(
        code=UpdateCode.SHADOW_NO_DATA,
        text=f"{shadowed.frames} frames and {shadowed.objects} objects in {shadowed.seconds:.0f} s; a verdict "
        f"needs {terms.min_frames} frames in {terms.seconds} s, and objects in them",
    )
