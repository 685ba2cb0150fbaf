"""The verdict on a stage: a function of its numbers, its rules and the time.

No data is never a pass: without enough verdicts a stage waits, and ends inconclusive. Devices that cannot be
reached, were superseded, withdrawn or decommissioned, and bad ones that a person excused, are in no number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fleet_server.in_words import many, span
from fleet_server.rollouts.plan_records import StageRules
from fleet_server.rollouts.records import StageVerdict, Verdict
from fleet_server.rollouts.states import APART, BAD, MemberState
from fleet_server.rollouts.strength import upper_bound


@dataclass(frozen=True, slots=True)
class StageCounts:
    """Devices of a stage by state.

    Attributes:
        states: excused ones are not among them.
        excused: bad devices that a person decided to go on in spite of.
    """

    states: Mapping[MemberState, int]
    excused: int = 0

    def of(self, *states: MemberState) -> int:
        """Devices in these states."""
        return sum(self.states.get(state, 0) for state in states)

    @property
    def bad(self) -> int:
        """Devices that count against the release."""
        return self.of(*BAD)

    @property
    def judged(self) -> int:
        """Devices with a verdict."""
        return self.bad + self.of(MemberState.HEALTHY)

    @property
    def reachable(self) -> int:
        """Devices that have not left the denominator, asked or not."""
        return sum(self.states.values()) - self.of(*APART)


def fails(rules: StageRules, counts: StageCounts) -> bool:
    """Whether a stage has failed, which needs no time to tell."""
    if rules.max_bad is not None and counts.bad >= rules.max_bad:
        return True
    return counts.judged >= rules.min_devices and counts.bad > rules.max_bad_share * counts.judged


def holds(rules: StageRules, counts: StageCounts) -> bool:
    """Whether enough devices have a verdict and enough of them are well; soaking is the time that this lasts."""
    enough = counts.judged >= max(rules.min_devices, 1)
    return enough and counts.judged >= rules.min_share * counts.reachable and not fails(rules, counts)


def judge(rules: StageRules, counts: StageCounts, *, soaked_ms: int | None, waited_ms: int) -> StageVerdict:
    """The verdict on an open stage.

    Args:
        rules: of the stage.
        counts: of its devices.
        soaked_ms: for how long the numbers hold by now; None where they did not.
        waited_ms: how long the stage has waited, windows alone counted.
    """
    if fails(rules, counts):
        return _verdict(Verdict.FAIL, counts, _why_failed(rules, counts))
    if holds(rules, counts):
        if soaked_ms is not None and soaked_ms >= rules.soak_s * 1000:
            return _verdict(Verdict.PASS, counts, f"{_numbers(counts)}; {_shows(counts)}")
        left = span(rules.soak_s * 1000 - (soaked_ms or 0))
        return _verdict(Verdict.WAIT, counts, f"{_numbers(counts)}; it has to stay so for {left} more")
    lacks = _lacks(rules, counts)
    if waited_ms >= rules.max_wait_s * 1000:
        return _verdict(Verdict.INCONCLUSIVE, counts, f"{_numbers(counts)} after the wait; {lacks}")
    return _verdict(Verdict.WAIT, counts, f"{_numbers(counts)}; {lacks}")


def _verdict(verdict: Verdict, counts: StageCounts, text: str) -> StageVerdict:
    return StageVerdict(
        verdict=verdict,
        judged=counts.judged,
        bad=counts.bad,
        reachable=counts.reachable,
        excused=counts.excused,
        upper_bound=round(upper_bound(counts.judged, counts.bad), 6),
        text=text,
    )


def _numbers(counts: StageCounts) -> str:
    excused = f", {counts.excused} bad excused" if counts.excused else ""
    return f"{counts.bad} of {counts.judged} bad, {counts.reachable} can be reached{excused}"


def _shows(counts: StageCounts) -> str:
    return (
        f"this shows a share of bad devices below {upper_bound(counts.judged, counts.bad):.2%} "
        "with 95 % confidence, and no less"
    )


def _why_failed(rules: StageRules, counts: StageCounts) -> str:
    if rules.max_bad is not None and counts.bad >= rules.max_bad:
        return (
            f"{_numbers(counts)}; {'one fails' if rules.max_bad == 1 else f'{rules.max_bad} fail'} the stage"
        )
    return f"{_numbers(counts)}; more than {rules.max_bad_share:.2%} fail the stage"


def _lacks(rules: StageRules, counts: StageCounts) -> str:
    if counts.judged < rules.min_devices:
        return f"{many(rules.min_devices, 'verdict')} {'is' if rules.min_devices == 1 else 'are'} needed"
    return f"a verdict is needed of {rules.min_share:.0%} of those that can be reached"
