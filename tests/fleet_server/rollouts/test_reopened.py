"""Rollouts that a late report opens again, beside later ones that have the same devices by now."""

from edge_runtime.protocol.update import UpdateState
from fleet_server.rollouts.states import ReasonCode, RolloutState
from tests.rigs.rollout_fleet import PaperFleet, names, stage

NEVER_NOW = ({"days": ("tue",), "start": "02:00", "end": "03:00"},)
LOOSE = stage(rules={"min_share": 0.5, "max_bad_share": 0.1})


def reopen(fleet: PaperFleet, rollout: str) -> None:
    """One of its devices is stuck on probation, long after all of its stages had passed."""
    fleet.round(2000)
    shown = fleet.show(rollout)
    assert (shown.state, shown.reason_code) == (RolloutState.PAUSED, ReasonCode.REOPENED)


def begun(fleet: PaperFleet, counter: int) -> str:
    """A completed rollout with devices that are well, one that vanished on probation, and `away`, never there."""
    fleet.enrol(*names(4))
    fleet.enrol("gone", fate="vanishes")
    fleet.enrol("away", online=False)
    rollout = fleet.run(counter, LOOSE, deadlines={"probation_s": 1900}, converge=False)
    fleet.rounds(3, 10)
    assert fleet.show(rollout).state is RolloutState.COMPLETED
    return rollout


def test_one_that_goes_on_again_asks_no_device_that_a_later_one_has(either: PaperFleet) -> None:
    either.publish(1)
    first = begun(either, 1)
    either.publish(2)
    either.label("away", site="dock")
    second = either.run(2, stage(10_000), labels={"site": "dock"})
    reopen(either, first)
    either.service.approve("ben", first)
    either.service.resume("anna", first)
    either.presence("online", "away")
    either.devices["away"].fate = "silent"
    acts = either.service._engine.step(either.now_ms).acts
    assert not [act for act in acts if "cannot go on" in act]
    assert either.states(second) == {"away": "assigned"}
    assert either.states(first)["away"] == "superseded"
    asked = either.rows("SELECT rollout FROM assignments WHERE device = 'away'")
    assert [row.rollout for row in asked] == [int(second[1:])]


def test_one_that_is_rolled_back_leaves_devices_alone_that_run_something_newer(either: PaperFleet) -> None:
    first = either.publish(1)
    either.publish(2, rollback_to=(first,))
    third = either.publish(3)
    for name in names(4):
        either.enrol(name, runs=(first, 1))
    either.enrol("gone", fate="vanishes", runs=(first, 1))
    old = either.run(2, LOOSE, deadlines={"probation_s": 1900}, converge=False)
    either.rounds(3, 10)
    either.label("dev-0", site="dock")
    either.label("dev-1", site="gate")
    new = either.run(3, labels={"site": "dock"})
    either.rounds(3, 10)
    assert either.show(new).state is RolloutState.COMPLETED
    waiting = either.run(3, labels={"site": "gate"}, windows=NEVER_NOW)
    reopen(either, old)
    either.service.halt("anna", old, "no")
    either.service.approve("ben", old)
    either.service.rollback("anna", old)
    either.rounds(3, 10)
    either.rounds(2, 2000)  # the one that vanished does not come back either
    assert either.show(old).state is RolloutState.ROLLED_BACK
    assert either.states(old)["dev-0"] == either.states(old)["dev-1"] == "superseded"
    assert either.devices["dev-0"].running.sha256 == third
    assert either.states(new) == {"dev-0": "healthy"}
    assert either.states(waiting) == {"dev-1": "pending"}
    assert {either.devices[name].running.sha256 for name in ("dev-2", "dev-3")} == {first}


def test_one_that_opens_again_reserves_no_device_that_runs_something_newer(fleet: PaperFleet) -> None:
    fleet.publish(1)
    first = begun(fleet, 1)
    fleet.publish(2)
    fleet.label("dev-0", site="dock")
    second = fleet.run(2, labels={"site": "dock"})
    fleet.rounds(3, 10)
    assert fleet.show(second).state is RolloutState.COMPLETED
    reopen(fleet, first)
    fleet.publish(3)
    third = fleet.run(3, labels={"site": "dock"})
    assert fleet.states(third) == {"dev-0": "pending"}


def test_taking_back_an_offer_takes_no_device_from_a_later_one(either: PaperFleet) -> None:
    either.publish(1)
    first = begun(either, 1)
    either.publish(2)
    either.label("gone", site="dock")
    second = either.run(2, labels={"site": "dock"}, windows=NEVER_NOW)
    reopen(either, first)
    either.say("gone", seq=1, state=UpdateState.WAITING)  # it gets further after all
    either.service.halt("anna", first, "no")
    assert either.states(first)["gone"] == "withdrawn"
    assert either.states(second) == {"gone": "pending"}
