"""Whole rollouts, from plan to end, on both databases: what people see, and what devices were asked."""

from typing import Any

import pytest

from edge_runtime.protocol.release import Opening, ReleaseKind, bucket
from edge_runtime.protocol.release_values import NumberBounds, TextBounds
from edge_runtime.protocol.update import CONFIGURATION_SLOT, LeftAs, Running, UpdateAction, UpdateState
from fleet_server.audit import verify
from fleet_server.releases.catalog import release
from fleet_server.rollouts.approving import Approvals
from fleet_server.rollouts.member_records import DeviceReasons
from fleet_server.rollouts.plan_records import OnFail, Pacing
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.queries_devices import reasons
from fleet_server.rollouts.states import Exclusion, MemberState, ReasonCode, RolloutState, StageState
from fleet_server.storage import Store
from fleet_server.storage.writing import run
from tests.rigs.rollout_fleet import FACTS, SALT, SLOT, PaperFleet, names, stage


def test_a_good_release_goes_from_stage_to_stage_until_every_device_has_it(either: PaperFleet) -> None:
    sha256 = either.publish(1)
    either.enrol(*names(12))
    rollout = either.run(1, stage(5000), stage())
    either.round()
    first = either.show(rollout)
    assert [one.state for one in first.stages_view] == [StageState.OPEN, StageState.PENDING]
    assert first.counts[MemberState.HEALTHY] == first.stages_view[0].devices < 12
    either.rounds(3, 5)
    either.rounds(10, 5)

    shown = either.show(rollout)
    assert (shown.state, shown.counts) == (RolloutState.COMPLETED, {MemberState.HEALTHY: 12})
    assert all(device.running.sha256 == sha256 for device in either.devices.values())
    assert all(not device.unsettled for device in either.devices.values())
    assert [row.n for row in either.rows("SELECT count(*) AS n FROM assignments GROUP BY device")] == [1] * 12
    assert either.actions()[:3] == ["rollout.create", "rollout.ready", "rollout.running"]
    assert either.actions()[-1] == "rollout.completed"


def test_a_bad_release_is_stopped_in_its_first_stage_and_rolled_back_by_itself(either: PaperFleet) -> None:
    good = either.publish(1)
    either.publish(2, rollback_to=(good,))
    either.enrol(*names(8), runs=(good, 1))
    either.enrol("bad-1", "bad-2", runs=(good, 1), fate="reverted", labels={"ring": "canary"})
    for name in names(3):
        either.label(name, ring="canary")
    canary = stage(labels={"ring": "canary"}, rules={"max_bad": 2})
    rollout = either.run(2, canary, stage(), on_fail=OnFail.ROLLBACK)
    either.rounds(4)

    shown = either.show(rollout)
    assert shown.state is RolloutState.ROLLED_BACK
    assert shown.stages_view[0].state is StageState.FAILED
    assert shown.rollback == {MemberState.HEALTHY: 3}
    assert {device.running.sha256 for device in either.devices.values()} == {good}
    assert all(len(either.devices[name].seen) == 0 for name in names(8)[3:])
    seen = [(a.action, a.sha256, a.seq) for a in either.devices["dev-0"].seen]
    assert seen == [(UpdateAction.INSTALL, shown.sha256, 1), (UpdateAction.ROLLBACK, good, 2)]
    assert "3 devices are back" in shown.reason


def test_a_rollback_goes_only_where_people_signed_that_it_may(either: PaperFleet) -> None:
    one, other = either.publish(1), either.publish(2)
    either.publish(3, rollback_to=(one,))
    either.enrol("may", runs=(one, 1))
    either.enrol("may-not", runs=(other, 2))
    either.enrol("first")
    rollout = either.run(3, stage(rules={"soak_s": 9999}))
    either.round()
    either.service.halt("anna", rollout, "worse at night")
    with pytest.raises(RolloutProblem, match="another person has to approve"):
        either.service.rollback("anna", rollout)
    either.service.approve("ben", rollout)
    either.service.rollback("anna", rollout)
    either.rounds(3)
    shown = either.show(rollout)
    assert shown.state is RolloutState.ROLLED_BACK
    assert shown.left == {"rollback-not-permitted": 1, "no-release-before": 1}
    assert either.devices["may"].running.sha256 == one
    assert either.devices["may-not"].running.sha256 == shown.sha256


def test_halting_takes_back_what_is_not_in_use(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol("done")
    either.enrol("slow", fate="silent")
    either.enrol("away", online=False)
    rollout = either.run(1)
    either.round()
    either.service.halt("anna", rollout, "stop")
    either.devices["slow"].fate = "healthy"
    either.rounds(2)
    assert either.states(rollout) == {"done": "healthy", "slow": "withdrawn", "away": "withdrawn"}
    assert [a.action for a in either.devices["slow"].seen] == [UpdateAction.HOLD]
    assert either.devices["away"].seen == []
    with pytest.raises(RolloutProblem, match="is halted, and not paused"):
        either.service.resume("ben", rollout)


def test_a_device_that_vanished_with_its_offer_takes_nothing_when_it_comes_back_after_a_halt(
    either: PaperFleet,
) -> None:
    either.publish(1)
    either.enrol("away", "hangs", fate="silent")
    rollout = either.run(1, deadlines={"offered_s": 60, "downloading_s": 60})
    either.round()
    either.say("hangs", seq=1, state=UpdateState.DOWNLOADING)
    either.presence("offline", "away")
    either.round(61)  # one is away and one is stuck, which halts it
    assert either.show(rollout).state is RolloutState.HALTED
    assert either.states(rollout) == {"away": "withdrawn", "hangs": "stuck"}
    assert not either.rows("SELECT 1 FROM assignments WHERE live AND action = 'install'")
    either.presence("online", "away")
    either.devices["away"].fate = "healthy"
    either.rounds(2)
    assert [a.action for a in either.devices["away"].seen] == [UpdateAction.HOLD]
    assert either.states(rollout) == {"away": "withdrawn", "hangs": "stuck"}


def test_a_device_that_took_it_in_spite_of_the_halt_is_counted_as_it_is(fleet: PaperFleet) -> None:
    sha256 = fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    rollout = fleet.run(1)
    fleet.round()
    fleet.service.halt("anna", rollout, "stop")
    healthy = {"state": UpdateState.HEALTHY, "terminal": True, "left": LeftAs.UPDATED}
    fleet.say("dev-0", seq=1, **healthy, running=Running(sha256=sha256, counter=1))
    assert fleet.states(rollout) == {"dev-0": "healthy"}


def test_people_the_author_approves_nothing_and_a_pause_ends_by_anothers_word(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(6))
    either.enrol("bad", fate="reverted")
    rollout = either.service.create("anna", either.plan(1, on_fail=OnFail.PAUSE)).id
    with pytest.raises(RolloutProblem, match="waits for another person"):
        either.service.start("anna", rollout)
    with pytest.raises(RolloutProblem, match="anna made") as caught:
        either.service.approve("anna", rollout)
    assert caught.value.code is RolloutProblemCode.NEEDS_ANOTHER_PERSON
    assert either.service.approve("ben", rollout, "looks well").needs is None
    either.service.start("anna", rollout)
    either.rounds(2)
    assert either.show(rollout).needs == "continue"
    with pytest.raises(RolloutProblem, match="approve first"):
        either.service.resume("anna", rollout)
    with pytest.raises(RolloutProblem, match="anna made"):
        either.service.approve("anna", rollout)
    either.service.approve("ben", rollout, "one bad cable")
    with pytest.raises(RolloutProblem, match="ben approved this"):
        either.service.resume("ben", rollout)
    resumed = either.service.resume("anna", rollout)
    assert resumed.stages_view[0].verdict is not None
    assert resumed.stages_view[0].verdict.excused == 1
    either.rounds(3, 10)
    assert either.show(rollout).state is RolloutState.COMPLETED
    # an approval is spent: the next pause needs another
    said = [(one.purpose, one.by, one.note) for one in either.show(rollout).approvals]
    assert said == [("start", "ben", "looks well"), ("continue", "ben", "one bad cable")]


def test_people_an_approval_is_good_for_one_pause(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2), fate="silent")
    rollout = fleet.run(1)
    for _ in range(2):
        fleet.service.pause("anna", rollout, "wait")
        with pytest.raises(RolloutProblem, match="approve first"):
            fleet.service.resume("anna", rollout)
        fleet.service.approve("ben", rollout)
        with pytest.raises(RolloutProblem, match="waits for no approval"):
            fleet.service.approve("carla", rollout)
        fleet.service.resume("anna", rollout)


@pytest.mark.parametrize("approvals", list(Approvals))
def test_people_by_rule(sqlite: Store, approvals: Approvals) -> None:
    fleet = PaperFleet(sqlite, approvals=approvals)
    fleet.publish(1)
    fleet.enrol(*names(2), fate="silent")
    rollout = fleet.service.create("anna", fleet.plan(1)).id
    if approvals is Approvals.SINGLE:
        fleet.service.approve("anna", rollout)
        fleet.service.start("anna", rollout)
        fleet.service.pause("anna", rollout, "wait")
        fleet.service.approve("anna", rollout)
        assert fleet.service.resume("anna", rollout).state is RolloutState.RUNNING
        return
    fleet.service.approve("ben", rollout)
    fleet.service.start("anna", rollout)
    fleet.service.pause("anna", rollout, "wait")
    if approvals is Approvals.DISTINCT:
        with pytest.raises(RolloutProblem, match="ben approved the start"):
            fleet.service.approve("ben", rollout)
        fleet.service.approve("carla", rollout)
    else:
        fleet.service.approve("ben", rollout)
    assert fleet.service.resume("anna", rollout).state is RolloutState.RUNNING


def test_an_inconclusive_stage_can_be_accepted_by_two_people(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(3))
    fleet.enrol("mute", fate="silent")
    rollout = fleet.run(1, stage(rules={"max_wait_s": 20}))
    fleet.rounds(4, 10)
    assert fleet.show(rollout).reason_code is ReasonCode.STAGE_INCONCLUSIVE
    fleet.service.approve("ben", rollout, accept=True)
    fleet.service.resume("anna", rollout, accept=True)
    fleet.round()
    assert fleet.show(rollout).state is RolloutState.COMPLETED


def test_it_starts_by_itself_at_its_time_and_not_before_it_is_approved(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol("dev-0")
    plan = either.plan(1, start_at_ms=either.now_ms + 60_000)
    rollout = either.service.create("anna", plan).id
    either.round(61)
    assert either.show(rollout).state is RolloutState.AWAITING_APPROVAL
    either.service.approve("ben", rollout)
    either.rounds(2)
    assert either.states(rollout) == {"dev-0": "healthy"}
    assert ("rollout.running", "engine") in [
        (row.action, row.actor) for row in either.rows("SELECT action, actor FROM audit")
    ]


def test_a_stage_waits_for_what_people_signed_and_wider_or_sooner_is_refused(fleet: PaperFleet) -> None:
    later = fleet.now_ms + 3_600_000
    openings = Opening(basis_points=5000), Opening(basis_points=9000, not_before_ms=later)
    fleet.publish(1, openings=openings)
    fleet.enrol(*names(20))
    with pytest.raises(
        RolloutProblem, match="stage 2 opens 100 % of the fleet, and people signed for 90 % at most"
    ):
        fleet.service.create("anna", fleet.plan(1, stage(5000), stage()))
    previews = fleet.service.plan(fleet.plan(1, stage(5000), stage())).stages
    assert [preview.opens_at_ms for preview in previews] == [fleet.now_ms, None]
    soon = stage(9000, not_before_ms=later - 1)
    with pytest.raises(RolloutProblem, match="stage 2 is to open sooner than people signed for"):
        fleet.service.create("anna", fleet.plan(1, stage(5000), soon))
    assert fleet.service.plan(fleet.plan(1, stage(5000), stage(9000))).stages[1].opens_at_ms == later
    rollout = fleet.run(1, stage(5000), stage(9000))
    fleet.rounds(5, 10)
    waiting = fleet.show(rollout).stages_view[1]
    assert (waiting.state, waiting.waits_for) == (StageState.PENDING, "its time, in 59m 10s")
    asked = [name for name, device in fleet.devices.items() if device.seen]
    assert all(bucket(SALT, name) < 5000 for name in asked)
    fleet.rounds(3, 3600)
    assert all(bucket(SALT, name) < 9000 for name, device in fleet.devices.items() if device.seen)
    assert len([device for device in fleet.devices.values() if device.seen]) > len(asked)


def test_no_more_are_asked_at_once_than_the_plan_says_and_who_is_away_takes_no_place(
    fleet: PaperFleet,
) -> None:
    fleet.publish(1)
    fleet.enrol(*names(6), fate="silent")
    fleet.enrol(*names(6, "away"), online=False)
    rollout = fleet.run(1, pacing=Pacing(max_in_flight=2))
    fleet.rounds(3)
    assert sorted(fleet.states(rollout).values()).count("offered") == 2
    for device in fleet.devices.values():
        device.fate = "healthy"
    asked = [name for name, state in fleet.states(rollout).items() if state == "offered"]
    for name in asked:
        fleet.say(name, nonce="0" * 32)
    fleet.rounds(12)
    states = fleet.states(rollout)
    assert [states[name] for name in names(6)] == ["healthy"] * 6
    assert [states[name] for name in names(6, "away")] == ["pending"] * 6


def test_bytes_of_an_hour_are_counted_from_what_was_asked(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(7))
    rollout = either.run(1, stage(rules={"max_wait_s": 9999}), pacing=Pacing(bytes_per_hour=3_000_000))
    either.rounds(3)
    assert either.show(rollout).counts[MemberState.HEALTHY] == 3
    either.service = either.new_service()  # a server that was started again counts the same
    either.rounds(3)
    assert either.show(rollout).counts[MemberState.HEALTHY] == 3
    either.rounds(2, 3601)
    assert either.show(rollout).counts[MemberState.HEALTHY] == 7


def test_two_rollouts_never_have_one_device_and_the_older_one_comes_first(either: PaperFleet) -> None:
    either.publish(1)
    newer = either.publish(2)
    either.enrol(*names(3), fate="silent", labels={"site": "a"})
    either.enrol("free", labels={"site": "b"})
    first = either.run(1, labels={"site": "a"})
    either.round()
    plan = either.plan(2)
    assert either.service.plan(plan).excluded == {Exclusion.BUSY: 3}
    second = either.run(2)
    either.rounds(5, 10)
    assert either.states(second) == {"free": "healthy"}
    assert either.show(second).state is RolloutState.COMPLETED
    # once the first is out of the way the second takes them in
    either.service.cancel("anna", first, "the newer one is better")
    for device in either.devices.values():
        device.fate = "healthy"
    either.rounds(4, 31)
    assert {device.running.sha256 for device in either.devices.values()} == {newer}
    assert either.rows("SELECT device FROM rollout_members WHERE live") == []


def test_other_slots_are_other_devices(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.publish(1, name="faces")
    fleet.enrol("dev-0", fate="silent")
    fleet.say("dev-0", slot="faces")
    fleet.run(1)
    assert fleet.service.plan(fleet.plan(1, slot="faces", release="faces")).eligible == 1


def test_a_slot_changes_to_another_line_whatever_the_counters_are(either: PaperFleet) -> None:
    """Counters count within a line: one with many releases kept every younger line out of its slots."""
    old = either.publish(9, name="people-large")
    either.publish(1)
    either.enrol("dev-0", runs=(old, 9))
    rollout = either.run(1)
    either.round()
    assert either.states(rollout) == {"dev-0": "healthy"}


def test_devices_that_come_later_converge_on_the_newest_that_names_them(either: PaperFleet) -> None:
    either.publish(1)
    either.publish(2)
    either.enrol("dev-0", labels={"site": "a"})
    for counter in (1, 2):
        either.run(counter, labels={"site": "a"})
        either.rounds(5, 10)
    either.enrol("late", labels={"site": "a"})
    either.enrol("other", labels={"site": "b"})
    either.rounds(3, 31)
    assert [(a.action, a.sha256) for a in either.devices["late"].seen] == [(UpdateAction.INSTALL, either.sha)]
    assert either.devices["other"].seen == []
    either.label("other", site="a")
    either.rounds(3, 31)
    assert either.devices["other"].running.sha256 == either.sha
    assert either.states("r2")["late"] == "healthy"
    assert "late" not in either.states("r1")


def test_who_was_away_for_the_whole_rollout_gets_it_when_it_is_back(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(3))
    either.enrol("away", online=False)
    rollout = either.run(1, deadlines={"unreachable_s": 60})
    either.rounds(6, 31)
    shown = either.show(rollout)
    assert shown.state is RolloutState.COMPLETED
    assert shown.counts == {MemberState.HEALTHY: 3, MemberState.UNREACHABLE: 1}
    either.presence("online", "away")
    either.rounds(3, 31)
    assert either.states(rollout)["away"] == "healthy"


def test_a_device_that_vanished_before_it_used_anything_goes_on_when_it_is_back(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol("dev-0", fate="silent")
    rollout = either.run(1, deadlines={"offered_s": 60})
    either.round()
    either.presence("offline", "dev-0")
    either.round(61)
    assert either.states(rollout) == {"dev-0": "unreachable"}
    either.presence("online", "dev-0")
    either.round()
    assert either.states(rollout) == {"dev-0": "offered"}
    assert len(either.rows("SELECT * FROM assignments")) == 1


def test_a_stuck_device_that_gets_further_is_stuck_no_more(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    fleet.enrol("dev-1")
    rollout = fleet.run(1, stage(rules={"max_bad_share": 0.6}), deadlines={"downloading_s": 60})
    fleet.round()
    fleet.say("dev-0", seq=1, state=UpdateState.DOWNLOADING)
    fleet.round(61)
    assert fleet.states(rollout)["dev-0"] == "stuck"
    fleet.say("dev-0", seq=1, state=UpdateState.DOWNLOADING)
    assert fleet.states(rollout)["dev-0"] == "stuck"
    fleet.say("dev-0", seq=1, state=UpdateState.VERIFIED)
    assert fleet.states(rollout)["dev-0"] == "verified"


def test_terms_that_people_sign_anew_hold_for_a_rollout_that_runs(either: PaperFleet) -> None:
    far = either.now_ms + 30 * 86_400_000
    either.publish(1, openings=(Opening(basis_points=10_000, not_before_ms=far),))
    either.enrol(*names(2))
    rollout = either.run(1)
    either.rounds(2)
    assert either.show(rollout).counts == {MemberState.PENDING: 2}
    with either.store.engine.begin() as connection:
        found = release(connection, SLOT, 1)
        assert found is not None
        opened = found.terms.model_copy(
            update={"revision": 2, "openings": (Opening(basis_points=10_000, not_before_ms=either.now_ms),)}
        )
        run(connection, "UPDATE releases SET terms = ?", opened.canonical_bytes().decode())
    either.rounds(2, 5)
    assert either.show(rollout).counts == {MemberState.HEALTHY: 2}


DECLARED = {
    "limit": NumberBounds(type="number", minimum=0, maximum=10),
    "name": TextBounds(type="text", one_of=("x", "y")),
}


@pytest.mark.parametrize(
    ("values", "own", "sentence"),
    [
        (
            {"limit": 1e9, "name": "x"},
            {},
            "dev-0 \\(and 1 more of the devices\\) would refuse its values: ",
        ),
        (
            {"limit": 1, "name": "x"},
            {"limit": 11},
            "dev-1 would refuse its values: the value limit is 11, and",
        ),
        ({"limit": 1}, {"name": "y"}, "dev-0 would refuse its values: the value name is not given"),
        ({"limit": 1, "name": "x", "score": 0.1}, {}, "nobody signed for a value score"),
    ],
)
def test_values_that_nobody_signed_for_make_no_rollout(
    fleet: PaperFleet, values: dict[str, Any], own: dict[str, Any], sentence: str
) -> None:
    fleet.publish(1, name="site", kind=ReleaseKind.CONFIGURATION, values=DECLARED)
    fleet.enrol(*names(2))
    for name in names(2):
        fleet.say(name, slot=CONFIGURATION_SLOT)
    given = {"values": values, "device_values": {"dev-1": own} if own else {}}
    with pytest.raises(RolloutProblem, match=sentence):
        fleet.run(1, slot=CONFIGURATION_SLOT, release="site", **given)


def test_who_comes_later_has_no_values_of_its_own(fleet: PaperFleet) -> None:
    fleet.publish(1, name="site", kind=ReleaseKind.CONFIGURATION, values=DECLARED)
    fleet.enrol("dev-0")
    fleet.say("dev-0", slot=CONFIGURATION_SLOT)
    own = {"limit": 1, "name": "y"}
    for converge in (True, False):
        plan = fleet.plan(
            1, slot=CONFIGURATION_SLOT, release="site", device_values={"dev-0": own}, converge=converge
        )
        report = fleet.service.plan(plan)
        assert report.refusals == ()
        assert any("devices that come later" in warning for warning in report.warnings) is converge


def test_a_configuration_brings_each_device_its_values(either: PaperFleet) -> None:
    either.publish(1, name="site", kind=ReleaseKind.CONFIGURATION, values=DECLARED)
    either.enrol(*names(2))
    for name in names(2):
        either.say(name, slot=CONFIGURATION_SLOT)
    values = {"values": {"limit": 3, "name": "x"}, "device_values": {"dev-1": {"limit": 0.5}}}
    either.run(1, slot=CONFIGURATION_SLOT, release="site", **values)
    either.round()
    assert either.devices["dev-0"].seen[0].values == {"limit": 3, "name": "x"}
    assert either.devices["dev-1"].seen[0].values == {"limit": 0.5, "name": "x"}


def test_a_configuration_goes_back_with_the_values_that_each_device_had(either: PaperFleet) -> None:
    site = {"slot": CONFIGURATION_SLOT, "release": "site"}
    first = either.publish(1, name="site", kind=ReleaseKind.CONFIGURATION, values=DECLARED)
    only = {"limit": DECLARED["limit"]}
    either.publish(2, name="site", kind=ReleaseKind.CONFIGURATION, values=only, rollback_to=(first,))
    either.enrol(*names(2))
    for name in names(2):
        either.say(name, slot=CONFIGURATION_SLOT)
    values = {"values": {"limit": 3, "name": "x"}, "device_values": {"dev-1": {"limit": 0.5}}}
    either.run(1, **site, **values)
    either.rounds(3, 20)
    second = either.run(2, **site, values={"limit": 9})
    either.rounds(2)
    either.service.halt("anna", second, "no")
    either.service.approve("ben", second)
    either.service.rollback("anna", second)
    either.rounds(3)
    last = {name: device.seen[-1] for name, device in either.devices.items()}
    assert {one.action for one in last.values()} == {UpdateAction.ROLLBACK}
    assert {one.sha256 for one in last.values()} == {first}
    assert last["dev-0"].values == {"limit": 3, "name": "x"}
    assert last["dev-1"].values == {"limit": 0.5, "name": "x"}


def explained(fleet: PaperFleet, device: str) -> DeviceReasons:
    with fleet.store.read() as session:
        return reasons(session, device, fleet.now_ms)


def test_what_people_are_told_of_a_device(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol("dev-0", fate="refused")
    either.enrol("dev-1", online=False)
    either.enrol("small", facts=FACTS.model_copy(update={"memory_mb": 1}), labels={"site": "b"})
    rollout = either.run(1, on_fail=OnFail.PAUSE)
    either.rounds(2)
    refused = explained(either, "dev-0").ways[0]
    assert (refused.membership.state, refused.membership.code) == (MemberState.REFUSED, "no-space")
    assert refused.steps[-1].text.startswith("refused, and left as it was (no-space)")
    assert explained(either, "dev-1").ways[0].steps[-1].text.startswith("r1 is paused: stage 1: 1 of")
    assert [(a.seq, a.rollout, a.state, a.left) for a in either.service.history("dev-0")] == [
        (1, rollout, MemberState.REFUSED, LeftAs.UNCHANGED)
    ]
    either.publish(2, fit={"memory_mb": 100})
    either.service.cancel("anna", rollout, "next")
    either.service.create("anna", either.plan(2))
    small = explained(either, "small").ways[0].membership
    assert (small.part, small.exclusion, small.code) == (False, Exclusion.INCOMPATIBLE, "no-memory")
    with pytest.raises(RolloutProblem, match="there is no device ghost"):
        explained(either, "ghost")
    with pytest.raises(RolloutProblem, match="there is no device ghost"):
        either.service.history("ghost")


@pytest.mark.parametrize("rollout", ["r99", "17", "r", "r1x", "r-1", "r²", "r" + "9" * 30])
def test_no_such_rollout_is_one_sentence(fleet: PaperFleet, rollout: str) -> None:
    with pytest.raises(RolloutProblem, match="no rollout"):
        fleet.service.status(rollout)


def test_the_list_is_the_newest_first_and_in_pages(either: PaperFleet) -> None:
    either.publish(1)
    for number in range(4):
        either.enrol(f"dev-{number}", labels={"n": str(number)})
        either.service.create("anna", either.plan(1, labels={"n": str(number)}))
    assert [one.id for one in either.service.rollouts(limit=2)] == ["r4", "r3"]
    assert [one.id for one in either.service.rollouts(before="r3")] == ["r2", "r1"]
    assert either.service.rollouts(state=RolloutState.RUNNING) == []


def test_every_act_is_in_the_audit_and_the_log_is_whole(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2))
    rollout = fleet.run(1)
    fleet.service.pause("anna", rollout, "lunch")
    fleet.service.approve("ben", rollout)
    fleet.service.resume("anna", rollout)
    fleet.rounds(4, 10)
    fleet.service.rollouts()
    assert fleet.actions() == [
        "rollout.create",
        "rollout.ready",
        "rollout.running",
        "rollout.paused",
        "rollout.approve-continue",
        "rollout.running",
        "stage.open",
        "stage.soaking",
        "stage.passed",
        "rollout.completed",
    ]
    with fleet.store.read() as session:
        assert verify(session).whole
