"""Going on after a pause: the second person's word is good for what it was given for, and for nothing else."""

import pytest

from fleet_server.rollouts.plan_records import OnFail
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.records import GoingOn
from fleet_server.rollouts.states import MemberState, RolloutState, StageState
from tests.rigs.rollout_fleet import PaperFleet, names, stage


def paused(fleet: PaperFleet) -> str:
    """One bad device of four has failed the first stage; one has not answered."""
    fleet.publish(1)
    fleet.enrol(*names(2))
    fleet.enrol("bad-0", fate="reverted")
    fleet.enrol("late-0", fate="silent")
    rollout = fleet.run(1, stage(rules={"max_bad": 1}), on_fail=OnFail.PAUSE)
    fleet.rounds(2)
    assert fleet.show(rollout).state is RolloutState.PAUSED
    return rollout


def going_on(fleet: PaperFleet, rollout: str) -> GoingOn:
    found = fleet.show(rollout).going_on
    assert found is not None
    return found


def turn_bad(fleet: PaperFleet) -> None:
    """The device that was silent answers, and is one more bad one."""
    [seq] = [row.seq for row in fleet.rows("SELECT seq FROM assignments WHERE device = 'late-0'")]
    fleet.say("late-0", seq=seq, state="refused", terminal=True, code="no-space", left="unchanged")


def test_a_stage_is_let_pass_only_by_who_agreed_to_that(either: PaperFleet) -> None:
    rollout = paused(either)
    either.service.approve("ben", rollout)
    with pytest.raises(
        RolloutProblem, match=r"not to open stages being let pass.*approve r1 --accept"
    ) as found:
        either.service.resume("anna", rollout, accept=True)
    assert found.value.code is RolloutProblemCode.NEEDS_APPROVAL
    assert either.show(rollout).stages_view[0].state is StageState.FAILED
    either.service.approve("ben", rollout, accept=True)
    shown = either.service.resume("anna", rollout, accept=True)
    assert shown.stages_view[0].state is StageState.PASSED


def test_who_let_stages_pass_has_agreed_to_going_on_as_well(fleet: PaperFleet) -> None:
    rollout = paused(fleet)
    fleet.service.approve("ben", rollout, accept=True)
    assert fleet.show(rollout).needs is None
    shown = fleet.service.resume("anna", rollout)
    assert shown.stages_view[0].state is StageState.OPEN


@pytest.mark.parametrize("accept", [False, True])
def test_one_more_bad_device_asks_for_another_word(fleet: PaperFleet, accept: bool) -> None:
    rollout = paused(fleet)
    before = going_on(fleet, rollout)
    fleet.service.approve("ben", rollout, accept=accept)
    turn_bad(fleet)
    after = fleet.show(rollout)
    assert after.needs == "continue", "what was agreed to is not what there is"
    assert (before.bad, going_on(fleet, rollout).bad) == (1, 2)
    with pytest.raises(RolloutProblem, match="ben agreed to r1 going on, and something has changed since"):
        fleet.service.resume("anna", rollout, accept=accept)
    assert fleet.show(rollout).counts[MemberState.REFUSED] == 1
    assert fleet.rows("SELECT device FROM rollout_members WHERE excused") == []
    fleet.service.approve("ben", rollout, accept=accept)
    assert fleet.service.resume("anna", rollout, accept=accept).state is RolloutState.RUNNING
    assert len(fleet.rows("SELECT device FROM rollout_members WHERE excused")) == 2


def test_a_device_that_gets_well_asks_for_none(fleet: PaperFleet) -> None:
    rollout = paused(fleet)
    fleet.service.approve("ben", rollout)
    before = going_on(fleet, rollout)
    [seq] = [row.seq for row in fleet.rows("SELECT seq FROM assignments WHERE device = 'late-0'")]
    running = fleet.devices["dev-0"].running
    fleet.say("late-0", seq=seq, state="healthy", terminal=True, left="updated", running=running)
    assert fleet.states(rollout)["late-0"] == "healthy"
    assert going_on(fleet, rollout).digest == before.digest
    assert fleet.service.resume("anna", rollout).state is RolloutState.RUNNING


def test_a_word_about_what_was_looked_at_is_not_taken_for_something_else(fleet: PaperFleet) -> None:
    rollout = paused(fleet)
    seen = going_on(fleet, rollout).digest
    turn_bad(fleet)
    with pytest.raises(RolloutProblem, match="has changed since it was looked at") as found:
        fleet.service.approve("ben", rollout, accept=True, digest=seen)
    assert found.value.code is RolloutProblemCode.CHANGED
    assert fleet.show(rollout).needs == "continue"
    fleet.service.approve("ben", rollout, accept=True, digest=going_on(fleet, rollout).digest)
    assert fleet.show(rollout).needs is None


def test_a_word_of_an_earlier_pause_is_spent_though_the_same_is_accepted(fleet: PaperFleet) -> None:
    rollout = paused(fleet)
    fleet.service.approve("ben", rollout)
    fleet.service.resume("anna", rollout)
    fleet.service.pause("anna", rollout, "lunch")
    assert fleet.show(rollout).needs == "continue"
    with pytest.raises(RolloutProblem, match="another person has to approve"):
        fleet.service.resume("anna", rollout)


def test_stages_are_let_pass_only_where_it_is_paused(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2))
    made = fleet.service.create("anna", fleet.plan(1)).id
    with pytest.raises(RolloutProblem, match="only where a rollout is paused"):
        fleet.service.approve("ben", made, accept=True)
    assert fleet.show(made).needs == "start"
