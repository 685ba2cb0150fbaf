"""What one look decides: stages, turns, openings and clocks that move."""

from typing import Any

import pytest

from edge_runtime.protocol.release import Opening, ReleaseKind, ReleaseTerms
from fleet_server.rollouts.decision import Decision, RolloutFacts, StageFacts, decide
from fleet_server.rollouts.plan_records import OnFail, RolloutPlan, StagePlan, StageRules, WeeklyWindow
from fleet_server.rollouts.states import MemberState, ReasonCode, RolloutState, StageState
from fleet_server.rollouts.verdict import StageCounts

NOW = 1_800_000_000_000
RULES = StageRules(min_devices=2, min_share=1, max_bad_share=0, soak_s=10, max_wait_s=100)
R, S = RolloutState, StageState


def rollout(
    *stages: StageFacts,
    state: RolloutState = R.RUNNING,
    openings: Any = None,
    revoked: bool = False,
    **plan: Any,
) -> RolloutFacts:
    asked = tuple(
        StagePlan(basis_points=points, rules=RULES) for points in (100, 1000, 5000, 10_000)[4 - len(stages) :]
    )
    values = {"name": "test", "slot": "people", "release": "people", "counter": 1, "stages": asked, **plan}
    terms = ReleaseTerms(
        kind=ReleaseKind.MODEL,
        name="people",
        counter=1,
        package="sha256:" + "0" * 64,
        total_bytes=1,
        salt="0" * 16,
        openings=openings or (Opening(basis_points=10_000),),
    )
    return RolloutFacts(state, RolloutPlan(**values), terms, stages, revoked)


def a(state: StageState, since: int = 0, soaking: int | None = None, **counts: int) -> StageFacts:
    numbers = StageCounts({MemberState(name): count for name, count in counts.items()})
    opened = None if state is S.PENDING else NOW - since
    return StageFacts(state, numbers, opened, opened, None if soaking is None else NOW - soaking)


def told(decision: Decision) -> list[tuple[int, StageState]]:
    return [(change.stage, change.state) for change in decision.changes]


def test_the_first_stage_opens_and_no_second_with_it() -> None:
    assert told(decide(rollout(a(S.PENDING), a(S.PENDING)), NOW)) == [(0, S.OPEN)]


def test_a_stage_that_holds_soaks_and_then_passes_and_the_next_one_opens() -> None:
    soaks = decide(rollout(a(S.OPEN, healthy=3), a(S.PENDING)), NOW)
    assert told(soaks) == [(0, S.SOAKING)]
    assert soaks.changes[0].soaking_ms == NOW
    assert decide(rollout(a(S.SOAKING, 20_000, 9_999, healthy=3), a(S.PENDING)), NOW) == Decision()
    passes = decide(rollout(a(S.SOAKING, 20_000, 10_000, healthy=3), a(S.PENDING)), NOW)
    assert told(passes) == [(0, S.PASSED), (1, S.OPEN)]


def test_a_stage_that_no_longer_holds_soaks_anew() -> None:
    falls = decide(rollout(a(S.SOAKING, 20_000, 9_000, healthy=3, offered=1), a(S.PENDING)), NOW)
    assert told(falls) == [(0, S.OPEN)]
    assert falls.changes[0].soaking_ms is None


def test_the_last_stage_completes_it() -> None:
    done = decide(rollout(a(S.PASSED, healthy=3), a(S.SOAKING, 20_000, 10_000, healthy=3)), NOW)
    assert told(done) == [(1, S.PASSED)]
    assert done.turn is not None
    assert (done.turn.state, done.turn.code) == (R.COMPLETED, ReasonCode.DONE)


@pytest.mark.parametrize(
    ("on_fail", "state", "becomes"),
    [
        (OnFail.PAUSE, R.RUNNING, R.PAUSED),
        (OnFail.HALT, R.RUNNING, R.HALTED),
        (OnFail.ROLLBACK, R.RUNNING, R.ROLLING_BACK),
        (OnFail.PAUSE, R.PAUSED, None),
        (OnFail.HALT, R.PAUSED, R.HALTED),
        (OnFail.ROLLBACK, R.PAUSED, R.ROLLING_BACK),
        (OnFail.ROLLBACK, R.COMPLETED, R.PAUSED),  # long over: a person says what becomes of it
    ],
)
def test_what_a_failure_does(on_fail: OnFail, state: RolloutState, becomes: RolloutState | None) -> None:
    found = decide(rollout(a(S.PASSED, healthy=5, reverted=1), state=state, on_fail=on_fail), NOW)
    assert told(found) == [(0, S.FAILED)]
    assert (None if found.turn is None else found.turn.state) == becomes


def test_two_stages_that_fail_in_one_look_are_both_written_down_and_stop_it_once() -> None:
    """Kind 3: the second failure finds the pause done, and nothing is thrown away."""
    found = decide(
        rollout(a(S.PASSED, healthy=3, reverted=2), a(S.OPEN, reverted=2), on_fail=OnFail.PAUSE), NOW
    )
    assert told(found) == [(0, S.FAILED), (1, S.FAILED)]
    assert found.turn is not None
    assert found.turn.state is R.PAUSED
    assert found.turn.text.startswith("stage 1: 2 of 5 bad")


def test_a_stage_that_failed_is_not_told_again() -> None:
    facts = rollout(a(S.FAILED, reverted=3), a(S.PENDING), state=R.PAUSED, on_fail=OnFail.PAUSE)
    assert decide(facts, NOW) == Decision()


def test_nothing_heard_in_time_is_inconclusive_and_pauses() -> None:
    found = decide(rollout(a(S.OPEN, 100_000, healthy=1, offered=5), a(S.PENDING)), NOW)
    assert told(found) == [(0, S.INCONCLUSIVE)]
    assert found.turn is not None
    assert found.turn.code is ReasonCode.STAGE_INCONCLUSIVE


def test_what_was_inconclusive_can_still_fail() -> None:
    found = decide(rollout(a(S.INCONCLUSIVE, 200_000, reverted=2), a(S.PENDING), state=R.PAUSED), NOW)
    assert told(found) == [(0, S.FAILED)]
    assert found.turn is not None
    assert found.turn.state is R.HALTED


@pytest.mark.parametrize(("later_ms", "opens"), [(1, False), (0, True)])
def test_a_stage_waits_for_the_opening_that_people_signed(later_ms: int, opens: bool) -> None:
    openings = (Opening(basis_points=5000), Opening(basis_points=10_000, not_before_ms=NOW + later_ms))
    facts = rollout(a(S.PASSED, healthy=3), a(S.PENDING), openings=openings)
    assert (told(decide(facts, NOW)) == [(1, S.OPEN)]) is opens


def test_a_stage_waits_for_its_own_time_and_for_a_window() -> None:
    late = (StagePlan(basis_points=10_000, not_before_ms=NOW + 1, rules=RULES),)
    assert decide(rollout(a(S.PENDING), stages=late), NOW) == Decision()
    night = (WeeklyWindow(days=("mon",), start="22:00", end="23:00"),)
    assert decide(rollout(a(S.PENDING), windows=night), NOW) == Decision()


def test_the_wait_is_counted_within_windows_alone() -> None:
    day = (WeeklyWindow(days=("thu",), start="08:00", end="08:01"),)  # the day before, for less than its wait
    found = decide(rollout(a(S.OPEN, 2 * 86_400_000, offered=3), windows=day), NOW)
    assert found == Decision()


@pytest.mark.parametrize("field", ["waiting_ms", "soaking_ms"])
def test_a_clock_that_was_set_back_starts_the_time_anew(field: str) -> None:
    future = {"waiting_ms": NOW, "soaking_ms": NOW, field: NOW + 10**9}
    stage = StageFacts(S.SOAKING, StageCounts({MemberState.HEALTHY: 3}), NOW, **future)
    found = decide(rollout(stage, a(S.PENDING)), NOW)
    assert getattr(found.changes[0], field) == NOW
    assert found.changes[0].state is S.SOAKING


@pytest.mark.parametrize("state", [R.RUNNING, R.PAUSED])
def test_a_revoked_release_halts_it(state: RolloutState) -> None:
    found = decide(rollout(a(S.OPEN, healthy=3), state=state, revoked=True), NOW)
    assert found.turn is not None
    assert (found.turn.state, found.turn.code) == (R.HALTED, ReasonCode.RELEASE_REVOKED)


@pytest.mark.parametrize(("at_work", "becomes"), [({"waiting": 1}, R.PAUSED), ({"pending": 1}, None)])
def test_a_completed_one_with_devices_at_work_opens_again_when_its_release_is_revoked(
    at_work: dict[str, int], becomes: RolloutState | None
) -> None:
    found = decide(rollout(a(S.PASSED, healthy=3, **at_work), state=R.COMPLETED, revoked=True), NOW)
    assert (None if found.turn is None else found.turn.state) is becomes
    assert found.turn is None or found.turn.code is ReasonCode.RELEASE_REVOKED


@pytest.mark.parametrize("state", [state for state in R if state not in (R.RUNNING, R.PAUSED, R.COMPLETED)])
def test_others_are_left_alone(state: RolloutState) -> None:
    assert decide(rollout(a(S.OPEN, reverted=9), state=state, revoked=True), NOW) == Decision()


def test_every_turn_of_the_engine_is_a_way_that_exists() -> None:
    for state in (R.RUNNING, R.PAUSED, R.COMPLETED):
        for on_fail in OnFail:
            for revoked in (False, True):
                found = decide(
                    rollout(a(S.OPEN, reverted=9), state=state, on_fail=on_fail, revoked=revoked), NOW
                )
                assert found.turn is None or state.may_become(found.turn.state)
