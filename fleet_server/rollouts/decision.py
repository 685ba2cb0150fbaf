"""What the engine does next with a rollout: a function of its stages, their numbers and the time.

Every stage is looked at first, and then one thing is done: two stages that fail in one look pause a rollout once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edge_runtime.protocol.release import ReleaseTerms
from fleet_server.rollouts.plan_records import OnFail, RolloutPlan
from fleet_server.rollouts.records import StageVerdict, Verdict
from fleet_server.rollouts.states import WORKING, ReasonCode, RolloutState, StageState
from fleet_server.rollouts.verdict import StageCounts, fails, holds, judge

_WATCHED = frozenset({RolloutState.RUNNING, RolloutState.PAUSED, RolloutState.COMPLETED})
_SETTLED = frozenset({StageState.FAILED, StageState.INCONCLUSIVE})


@dataclass(frozen=True, slots=True)
class StageFacts:
    """A stage as the database has it."""

    state: StageState
    counts: StageCounts
    opened_ms: int | None = None
    waiting_ms: int | None = None
    soaking_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RolloutFacts:
    """A rollout as the database has it.

    Attributes:
        revoked: the release may no longer be given to anybody.
    """

    state: RolloutState
    plan: RolloutPlan
    terms: ReleaseTerms
    stages: tuple[StageFacts, ...]
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class StageChange:
    """What a stage becomes; a time that is None is none."""

    stage: int
    state: StageState
    opened_ms: int | None
    waiting_ms: int | None
    soaking_ms: int | None
    verdict: StageVerdict | None


@dataclass(frozen=True, slots=True)
class Turn:
    """What the rollout itself becomes, and why."""

    state: RolloutState
    code: ReasonCode
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that one look decides; it is written in one transaction."""

    changes: tuple[StageChange, ...] = ()
    turn: Turn | None = None


def decide(facts: RolloutFacts, now_ms: int) -> Decision:
    """Look at every open stage, then decide once.

    Args:
        facts: of a rollout in any state; only running, paused and completed ones have anything decided.
        now_ms: milliseconds since 1970.
    """
    if facts.state not in _WATCHED:
        return Decision()
    if facts.revoked and (facts.state is not RolloutState.COMPLETED or _is_at_work(facts)):
        text = f"the release {facts.plan.release} {facts.plan.counter} was revoked"
        # one that is completed opens again, and is halted at the next look: its offers are taken back then
        state = RolloutState.HALTED if facts.state.may_become(RolloutState.HALTED) else RolloutState.PAUSED
        return Decision(turn=Turn(state, ReasonCode.RELEASE_REVOKED, text))
    looks = [_look(facts, number, now_ms) for number in range(len(facts.stages))]
    changes = [change for change in looks if change is not None]
    after = [
        facts.stages[number].state if change is None else change.state for number, change in enumerate(looks)
    ]
    turn = _turn(facts, changes, after)
    if turn is None and facts.state is RolloutState.RUNNING:
        opening = _opening(facts, after, now_ms)
        changes += [] if opening is None else [opening]
    return Decision(tuple(changes), turn)


def _is_at_work(facts: RolloutFacts) -> bool:
    """Whether devices are asked and not done: a rollout completes without waiting for all of them."""
    return any(stage.counts.of(*WORKING) for stage in facts.stages)


def opens_at(terms: ReleaseTerms, plan: RolloutPlan, stage: int, now_ms: int) -> int | None:
    """The first moment from now on at which a stage may open by itself; None where none was ever signed for.

    Its own time, the signed openings and the windows all have to allow it.
    """
    asked = plan.stages[stage]
    signed = [o.not_before_ms for o in terms.openings if o.basis_points >= asked.basis_points]
    if not signed:
        return None
    return plan.calendar.opens_ms(max(now_ms, asked.not_before_ms or 0, min(signed)))


def _look(facts: RolloutFacts, number: int, now_ms: int) -> StageChange | None:
    """What an open stage becomes; None where it stays as it is."""
    stage, rules = facts.stages[number], facts.plan.stages[number].rules
    if not stage.state.is_open or stage.state is StageState.FAILED:
        return None
    if stage.state in (StageState.PASSED, StageState.INCONCLUSIVE):
        # late reports: what has passed can fail, and so can what was left open
        if not fails(rules, stage.counts):
            return None
        return _change(number, stage, StageState.FAILED, None, judge(rules, stage.counts, **_NO_TIME))
    # a clock that was set back starts the time anew: else a stage would wait for years
    waiting = now_ms if stage.waiting_ms is None or stage.waiting_ms > now_ms else stage.waiting_ms
    soaking: int | None = (
        now_ms if stage.soaking_ms is None or stage.soaking_ms > now_ms else stage.soaking_ms
    )
    if not holds(rules, stage.counts):
        soaking = None
    verdict = judge(
        rules,
        stage.counts,
        soaked_ms=None if soaking is None else now_ms - soaking,
        waited_ms=facts.plan.calendar.open_ms(waiting, now_ms),
    )
    state = _STATES.get(verdict.verdict, StageState.OPEN if soaking is None else StageState.SOAKING)
    if (state, waiting, soaking) == (stage.state, stage.waiting_ms, stage.soaking_ms):
        return None
    return StageChange(number, state, stage.opened_ms, waiting, soaking, verdict)


_NO_TIME: dict[str, int] = {"soaked_ms": 0, "waited_ms": 0}
_STATES = {
    Verdict.PASS: StageState.PASSED,
    Verdict.FAIL: StageState.FAILED,
    Verdict.INCONCLUSIVE: StageState.INCONCLUSIVE,
}


def _change(
    number: int, stage: StageFacts, state: StageState, soaking: int | None, verdict: StageVerdict
) -> StageChange:
    return StageChange(number, state, stage.opened_ms, stage.waiting_ms, soaking, verdict)


def _turn(facts: RolloutFacts, changes: Sequence[StageChange], after: Sequence[StageState]) -> Turn | None:
    failed = next((change for change in changes if change.state is StageState.FAILED), None)
    if failed is not None:
        return _after_failure(facts, failed)
    unclear = next((change for change in changes if change.state is StageState.INCONCLUSIVE), None)
    if facts.state is not RolloutState.RUNNING:
        return None
    if unclear is not None:
        return Turn(RolloutState.PAUSED, ReasonCode.STAGE_INCONCLUSIVE, _sentence(unclear))
    if all(state is StageState.PASSED for state in after):
        return Turn(RolloutState.COMPLETED, ReasonCode.DONE, "every stage has passed")
    return None


def _after_failure(facts: RolloutFacts, failed: StageChange) -> Turn | None:
    if facts.state is RolloutState.COMPLETED:
        return Turn(RolloutState.PAUSED, ReasonCode.REOPENED, f"late reports: {_sentence(failed)}")
    wanted = {
        OnFail.PAUSE: RolloutState.PAUSED,
        OnFail.HALT: RolloutState.HALTED,
        OnFail.ROLLBACK: RolloutState.ROLLING_BACK,
    }[facts.plan.on_fail]
    if not facts.state.may_become(wanted):  # paused already
        return None
    return Turn(wanted, ReasonCode.STAGE_FAILED, _sentence(failed))


def _opening(facts: RolloutFacts, after: Sequence[StageState], now_ms: int) -> StageChange | None:
    """The next stage, where everything before it has passed and everybody allows it."""
    if StageState.PENDING not in after or any(state in _SETTLED for state in after):
        return None
    number = after.index(StageState.PENDING)
    if any(state is not StageState.PASSED for state in after[:number]):
        return None
    asked = facts.plan.stages[number]
    if facts.terms.opened_basis_points(now_ms) < asked.basis_points or now_ms < (asked.not_before_ms or 0):
        return None
    if not facts.plan.calendar.is_open(now_ms):
        return None
    return StageChange(number, StageState.OPEN, now_ms, now_ms, None, None)


def _sentence(change: StageChange) -> str:
    return f"stage {change.stage + 1}: {change.verdict.text if change.verdict else ''}"[:300]
