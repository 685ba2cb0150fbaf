"""A rollout that another build of the server wrote, and this one does not read, stands in nobody's way."""

import json

import pytest

from fleet_server.rollouts.plan_records import MAX_STAGES
from fleet_server.rollouts.problems import RolloutProblem
from fleet_server.rollouts.queries_devices import reasons
from fleet_server.rollouts.states import MemberState, ReasonCode, RolloutState
from fleet_server.storage.writing import run
from tests.rigs.rollout_fleet import PaperFleet, names


def too_large(fleet: PaperFleet, rollout: str) -> None:
    """As a build with a wider bound wrote it."""
    [row] = fleet.rows("SELECT plan FROM rollouts WHERE number = ?", int(rollout[1:]))
    plan = json.loads(row.plan)
    plan["stages"] = plan["stages"] * (MAX_STAGES + 1)
    with fleet.store.engine.begin() as connection:
        run(connection, "UPDATE rollouts SET plan = ? WHERE number = ?", json.dumps(plan), int(rollout[1:]))


def test_it_is_paused_with_its_reason_and_the_others_go_on(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(3), labels={"site": "a"})
    either.enrol(*names(3, "other"), labels={"site": "b"})
    old = either.run(1, labels={"site": "a"})
    too_large(either, old)
    new = either.run(1, labels={"site": "b"})
    either.rounds(4, 10)
    assert either.show(new).state is RolloutState.COMPLETED
    shown = either.show(old)
    assert (shown.state, shown.reason_code) == (RolloutState.PAUSED, ReasonCode.UNREADABLE)
    assert "the plan of r1, of another build of the server, cannot be read (stages: " in shown.reason
    assert (shown.plan, shown.stages_view) == (None, ())
    assert shown.counts == {MemberState.PENDING: 3}, "nobody was asked"
    assert [one.id for one in either.service.rollouts()] == ["r2", "r1"]
    with either.store.read() as session:
        [way] = reasons(session, "dev-0", either.now_ms).ways
    assert "cannot be read" in way.steps[0].text


def test_people_can_end_it_and_not_go_on_with_it(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2))
    old = fleet.run(1)
    too_large(fleet, old)
    fleet.rounds(1)
    fleet.service.approve("ben", old)
    with pytest.raises(RolloutProblem, match="halt or cancel it, and make it anew"):
        fleet.service.resume("anna", old)
    assert fleet.service.halt("anna", old, "of another build").state is RolloutState.HALTED
    assert fleet.service.cancel("anna", old, "of another build").state is RolloutState.CANCELLED
    fresh = fleet.run(1)
    fleet.rounds(4, 10)
    assert fleet.show(fresh).state is RolloutState.COMPLETED


@pytest.mark.parametrize("state", ["ready", "completed", "rolling-back"])
def test_one_that_cannot_be_paused_is_said_once(fleet: PaperFleet, state: str) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2))
    old = fleet.run(1)
    too_large(fleet, old)
    with fleet.store.engine.begin() as connection:
        run(connection, "UPDATE rollouts SET state = ?", state)
    said = [act for _ in range(3) for act in fleet.service.step(fleet.now_ms).acts]
    assert [act.split(":")[0] for act in said] == ["r1 cannot go on"]
    assert fleet.show(old).state.value == state


def test_one_that_waits_for_its_start_is_not_started(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2))
    made = fleet.service.create("anna", fleet.plan(1)).id
    fleet.service.approve("ben", made)
    too_large(fleet, made)
    with pytest.raises(RolloutProblem, match="cannot be read"):
        fleet.service.start("anna", made)
