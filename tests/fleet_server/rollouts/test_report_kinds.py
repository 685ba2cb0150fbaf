"""What went wrong elsewhere (research/ota.md, section 4), the server's half: each kind of report is a test here."""

import pytest

from edge_runtime.protocol.release import ProbationTerms, ShadowTerms
from edge_runtime.protocol.update import LeftAs, Running, UpdateAction, UpdateCode, UpdateState
from edge_runtime.updates.machine.table import Deadlines as OnDevice
from fleet_server.rollouts.plan_records import MemberDeadlines, OnFail
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.states import Exclusion, MemberState, ReasonCode, RolloutState, StageState
from fleet_server.rollouts.sweeps import TOLD_WITHIN_S
from tests.rigs.rollout_fleet import FACTS, PaperFleet, names, stage


def test_kind_1_a_device_that_never_comes_back_is_stuck_and_counts_as_bad(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(3))
    either.enrol("gone", fate="vanishes")
    rollout = either.run(1, stage(rules={"max_bad": 1, "max_wait_s": 9999}), deadlines={"probation_s": 1900})
    either.round()
    either.presence("offline", "gone")
    either.rounds(9, 210)
    assert either.states(rollout)["gone"] == "probation"
    either.round(20)

    shown = either.show(rollout)
    assert either.states(rollout)["gone"] == "stuck"
    assert (shown.state, shown.reason_code) == (RolloutState.HALTED, ReasonCode.STAGE_FAILED)
    assert shown.codes == {"deadline": 1}


def test_kind_1_a_device_that_is_stuck_after_all_stages_passed_still_counts(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(8))
    fleet.enrol("slow-1", "slow-2", fate="vanishes")
    limits = {"probation_s": 1900}
    rollout = fleet.run(1, stage(rules={"min_share": 0.8, "max_bad_share": 0.1}), deadlines=limits)
    fleet.rounds(4, 10)
    assert fleet.show(rollout).state is RolloutState.COMPLETED
    fleet.rounds(2, 1900)
    shown = fleet.show(rollout)
    assert shown.counts == {MemberState.HEALTHY: 8, MemberState.STUCK: 2}
    assert (shown.state, shown.reason_code) == (RolloutState.PAUSED, ReasonCode.REOPENED)


@pytest.mark.parametrize(
    ("state", "online", "becomes"),
    [
        (UpdateState.DOWNLOADING, True, MemberState.STUCK),
        (UpdateState.DOWNLOADING, False, MemberState.UNREACHABLE),
        (UpdateState.ACTIVATING, False, MemberState.STUCK),
        (UpdateState.PROBATION, False, MemberState.STUCK),
        (UpdateState.WAITING, False, MemberState.UNREACHABLE),
        (None, True, MemberState.STUCK),
        (None, False, MemberState.UNREACHABLE),
    ],
)
def test_kind_1_what_a_deadline_makes_of_a_device(
    fleet: PaperFleet, state: UpdateState | None, online: bool, becomes: MemberState
) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    fleet.enrol("dev-1")
    limits = ("offered", "accepted", "downloading", "waiting", "activating", "probation")
    rollout = fleet.run(1, deadlines={f"{name}_s": 60 for name in limits})
    fleet.round()
    if state is not None:
        fleet.say("dev-0", seq=1, state=state)
    if not online:
        fleet.presence("offline", "dev-0")
    fleet.round(1900)
    assert fleet.states(rollout)["dev-0"] == becomes.value


@pytest.mark.parametrize("state", [UpdateState.STAGED, UpdateState.PROBATION])
def test_kind_1_what_people_signed_is_allowed_whatever_the_plan_says(
    fleet: PaperFleet, state: UpdateState
) -> None:
    fleet.publish(
        1,
        shadow=ShadowTerms(max_seconds=5 * 3600),
        probation=ProbationTerms(max_seconds=5 * 3600),
    )
    fleet.enrol("dev-0", fate="silent")
    rollout = fleet.run(1, deadlines={"staged_s": 60, "probation_s": 60})
    fleet.round()
    fleet.say("dev-0", seq=1, state=state)
    fleet.round(5 * 3600 + 1700)  # a device has ten minutes itself, and then it has to be heard
    assert fleet.states(rollout)["dev-0"] == state.value
    fleet.round(200)
    assert fleet.states(rollout)["dev-0"] == "stuck"


def test_kind_1_by_default_the_device_comes_to_its_own_limit_first() -> None:
    ours, devices, margin_s = MemberDeadlines(), OnDevice(), 1800
    assert ours.downloading_s >= devices.download // 1000 + margin_s
    assert ours.verified_s >= devices.prepare // 1000 + margin_s
    assert ours.waiting_s >= devices.wait // 1000 + margin_s
    assert ours.activating_s >= devices.activate // 1000 + 600
    assert devices.margin // 1000 < TOLD_WITHIN_S


def test_kind_2_a_later_report_with_another_hash_reopens_the_verdict(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(4))
    rollout = either.run(1, stage(rules={"max_bad_share": 0.2}))
    either.rounds(5, 10)
    assert either.show(rollout).state is RolloutState.COMPLETED

    # fell back at its next boot, after all had been called well
    either.devices["dev-1"].running = Running()
    either.devices["dev-1"].boot += 1
    either.say("dev-1", running=Running())
    either.round()

    shown = either.show(rollout)
    assert shown.counts == {MemberState.HEALTHY: 3, MemberState.REVERTED: 1}
    assert (shown.state, shown.reason_code) == (RolloutState.PAUSED, ReasonCode.REOPENED)
    assert shown.stages_view[0].state is StageState.FAILED
    assert shown.codes == {UpdateCode.ROLLED_BACK.value: 1}


def test_kind_2_a_release_that_did_not_stay_is_counted_as_what_it_was(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(2))
    rollout = fleet.run(1)
    fleet.rounds(3, 10)
    fleet.devices["dev-1"].running = Running()
    fleet.say("dev-1", running=Running(), code=UpdateCode.CRASH_LOOP, text="it began 5 times in a row")
    fleet.round()
    assert fleet.show(rollout).codes == {UpdateCode.CRASH_LOOP.value: 1}
    (row,) = fleet.rows("SELECT state, code, said FROM assignments WHERE device = 'dev-1'")
    assert tuple(row) == ("reverted", "crash-loop", "it began 5 times in a row")


def test_kind_2_healthy_is_believed_only_with_the_hash_that_was_asked_for(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    rollout = fleet.run(1)
    fleet.round()
    healthy = {"state": UpdateState.HEALTHY, "terminal": True, "left": LeftAs.UPDATED}
    fleet.say("dev-0", seq=1, **healthy, running=Running(sha256="f" * 64, counter=1))
    assert fleet.states(rollout)["dev-0"] == "reverted"


def test_kind_3_a_pause_that_is_done_is_no_error(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(4))
    rollout = fleet.run(1)
    first = fleet.service.pause("anna", rollout, "lunch")
    assert fleet.service.pause("ben", rollout, "lunch too").reason == first.reason == "lunch (anna)"
    assert fleet.actions().count("rollout.paused") == 1


def test_kind_4_nobody_eligible_is_refused_with_counts_by_reason(either: PaperFleet) -> None:
    sha256 = either.publish(2, fit={"memory_mb": 4000})
    either.enrol("has-it", runs=(sha256, 2))
    either.enrol("has-newer", runs=("b" * 64, 3))
    either.enrol("small", facts=FACTS.model_copy(update={"memory_mb": 100}))
    either.enrol("unseen", seen=False)
    either.enrol("thief")
    either.set_state("revoked", "thief")
    plan = either.plan(2)
    report = either.service.plan(plan)
    assert report.excluded == {
        Exclusion.ALREADY_RUNNING: 1,
        Exclusion.NEWER_RUNS: 1,
        Exclusion.INCOMPATIBLE: 1,
        Exclusion.NEVER_SEEN: 1,
        Exclusion.REVOKED: 1,
    }
    assert report.incompatible == {"no-memory": 1}
    with pytest.raises(RolloutProblem, match="no device is eligible: 1 ") as caught:
        either.service.create("anna", plan)
    assert caught.value.code is RolloutProblemCode.NOBODY_ELIGIBLE
    for reason in ("already-running", "newer-runs", "incompatible", "never-seen", "revoked"):
        assert f"1 {reason}" in str(caught.value)
    assert either.rows("SELECT * FROM rollouts") == []


def test_kind_4_an_empty_stage_is_refused_before_it_can_pass_as_if_it_had_worked(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(3))
    with pytest.raises(RolloutProblem, match=r"stage 1 has 0 devices .* never pass"):
        fleet.service.create("anna", fleet.plan(1, stage(1), stage()))


def test_kind_5_a_report_about_an_older_assignment_is_written_down_and_ignored(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.publish(2)
    fleet.enrol("dev-0", fate="silent")
    old = fleet.run(1)
    fleet.round()
    fleet.service.cancel("anna", old, "the other one")
    new = fleet.run(2)
    fleet.round()
    assert [a.seq for a in fleet.service.history("dev-0")] == [3, 2, 1]

    said = {"state": UpdateState.SUPERSEDED, "terminal": True, "code": UpdateCode.SUPERSEDED}
    fleet.say("dev-0", seq=1, **said, left=LeftAs.UNCHANGED)

    history = {a.seq: a for a in fleet.service.history("dev-0")}
    assert (history[1].state, history[1].code) == (MemberState.SUPERSEDED, "superseded")
    assert (history[3].state, history[3].live) == (MemberState.OFFERED, True)
    assert fleet.states(new) == {"dev-0": "offered"}
    fleet.devices["dev-0"].fate = "healthy"
    fleet.say("dev-0", nonce="0" * 32)  # it comes again, and is asked again
    fleet.rounds(2)
    assert fleet.states(new) == {"dev-0": "healthy"}


def test_kind_5_a_cancelled_device_is_free_and_its_offer_taken_back(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    rollout = fleet.run(1)
    fleet.round()
    fleet.service.cancel("anna", rollout, "no")
    fleet.devices["dev-0"].fate = "healthy"
    fleet.rounds(2)
    (hold,) = fleet.devices["dev-0"].seen
    assert (hold.action, hold.seq, hold.target) == (UpdateAction.HOLD, 2, None)
    assert fleet.states(rollout) == {"dev-0": "withdrawn"}
    assert fleet.service.create("anna", fleet.plan(1)).devices == 1


def test_kind_7_progress_costs_one_row_however_often_it_is_told(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    fleet.run(1)
    fleet.round()
    for done in range(1, 300):
        fleet.say("dev-0", seq=1, state=UpdateState.DOWNLOADING, done_bytes=done, of_bytes=300)
    assert len(fleet.rows("SELECT * FROM assignments")) == 1


def test_kind_12_the_same_report_again_changes_nothing_and_an_older_one_neither(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol("dev-0", fate="silent")
    rollout = either.run(1)
    either.round()
    device = either.devices["dev-0"]
    accepted = either.say("dev-0", seq=1, state=UpdateState.ACCEPTED)
    downloading = either.say("dev-0", seq=1, state=UpdateState.DOWNLOADING)
    refused = {"state": UpdateState.REFUSED, "terminal": True, "code": UpdateCode.NO_SPACE}
    end = either.say("dev-0", seq=1, **refused, left=LeftAs.UNCHANGED)
    before = either.rows("SELECT * FROM rollout_members")
    device.running = Running(sha256=either.sha, counter=1)
    other = {"state": UpdateState.HEALTHY, "terminal": True, "left": LeftAs.UPDATED}
    second = device.report(either.now_ms, seq=1, **other)
    either.pass_s(5)
    for report in (end, accepted, downloading, second, end):
        either.take([("dev-0", report)])
    assert either.rows("SELECT * FROM rollout_members") == before
    assert either.states(rollout) == {"dev-0": "refused"}
    (row,) = either.rows("SELECT terminal_no, state FROM assignments")
    assert (row.terminal_no, row.state) == (end.report_no, "refused")


def test_kind_16_a_device_that_went_back_is_not_asked_again_by_the_same_rollout(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(9))
    fleet.enrol("bad", fate="reverted")
    rollout = fleet.run(1, stage(rules={"max_bad_share": 0.5}))
    fleet.rounds(12, 10)
    assert fleet.show(rollout).state is RolloutState.COMPLETED
    assert [a.action for a in fleet.devices["bad"].seen] == [UpdateAction.INSTALL]
    # nor by a revoked release, whatever converges
    fleet.revoke(1)
    fleet.enrol("late")
    fleet.rounds(3, 31)
    assert fleet.devices["late"].seen == []


def test_kind_16_a_release_that_is_revoked_halts_its_rollout(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(4), fate="silent")
    rollout = fleet.run(1)
    fleet.round()
    fleet.revoke(1)
    fleet.round()
    shown = fleet.show(rollout)
    assert (shown.state, shown.reason_code) == (RolloutState.HALTED, ReasonCode.RELEASE_REVOKED)
    with pytest.raises(RolloutProblem, match="was revoked"):
        fleet.service.create("anna", fleet.plan(1))


def test_kind_16_a_release_revoked_after_its_rollout_completed_is_taken_back(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(3))
    either.enrol("parked", fate="silent")
    either.enrol("away", online=False)
    rollout = either.run(1, stage(rules={"min_share": 0.5}))
    either.round()
    either.say("parked", seq=1, state=UpdateState.WAITING)
    either.rounds(2, 20)
    assert either.show(rollout).state is RolloutState.COMPLETED
    either.revoke(1)
    either.presence("online", "away")
    either.enrol("late")
    either.devices["parked"].fate = "healthy"
    either.devices["parked"].last_seq = 1
    either.rounds(3, 31)
    shown = either.show(rollout)
    assert (shown.state, shown.reason_code) == (RolloutState.HALTED, ReasonCode.RELEASE_REVOKED)
    assert either.states(rollout)["parked"] == "withdrawn"
    assert [one.action for one in either.devices["parked"].seen] == [UpdateAction.HOLD]
    assert either.devices["away"].seen == either.devices["late"].seen == []


def test_kind_16_a_revoked_release_is_offered_to_nobody_who_comes_later(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(3))
    either.enrol("away", online=False)
    rollout = either.run(1, stage(rules={"min_share": 0.5}))
    either.rounds(3, 20)
    assert either.show(rollout).state is RolloutState.COMPLETED
    either.revoke(1)
    either.presence("online", "away")
    either.enrol("late")
    either.set_state("revoked", "dev-0")  # the rollout is looked at and written, whoever there is to ask
    either.rounds(3, 31)
    assert either.show(rollout).state is RolloutState.COMPLETED
    assert either.states(rollout)["away"] == "pending"
    assert either.devices["away"].seen == either.devices["late"].seen == []


def test_kind_19_no_data_is_inconclusive_and_pauses(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(4), fate="silent")
    rollout = fleet.run(1, stage(rules={"max_wait_s": 100}))
    fleet.rounds(12, 10)
    shown = fleet.show(rollout)
    assert (shown.state, shown.reason_code) == (RolloutState.PAUSED, ReasonCode.STAGE_INCONCLUSIVE)
    assert shown.stages_view[0].state is StageState.INCONCLUSIVE
    assert shown.needs == "continue"


def test_kind_20_a_device_decommissioned_on_the_way_leaves_every_number(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*names(3))
    either.enrol("lost", fate="silent")
    rollout = either.run(1)
    either.rounds(3, 10)
    assert either.show(rollout).state is RolloutState.RUNNING
    either.set_state("removed", "lost")
    either.rounds(3, 10)
    shown = either.show(rollout)
    assert shown.state is RolloutState.COMPLETED
    assert shown.counts == {MemberState.HEALTHY: 3, MemberState.DECOMMISSIONED: 1}
    assert shown.stages_view[0].verdict is not None
    assert shown.stages_view[0].verdict.reachable == 3
    assert [row.device for row in either.rows("SELECT device FROM assignments WHERE live")] == []


def test_kind_20_a_bad_device_that_is_removed_is_no_bad_device_any_more(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol(*names(3))
    fleet.enrol("bad", fate="reverted")
    rollout = fleet.run(1, on_fail=OnFail.PAUSE)
    fleet.round()
    fleet.set_state("revoked", "bad")
    fleet.rounds(4, 10)
    assert fleet.show(rollout).state is RolloutState.COMPLETED


def test_kind_21_a_window_that_was_missed_comes_again_and_cancels_nothing(fleet: PaperFleet) -> None:
    fleet.publish(1)
    fleet.enrol("dev-0")
    friday = {"days": ("fri",), "start": "10:00", "end": "11:00"}  # two hours from now
    rollout = fleet.run(1, stage(rules={"max_wait_s": 9000}), windows=(friday,))
    fleet.presence("offline", "dev-0")
    fleet.rounds(3, 3600)
    assert fleet.show(rollout).stages_view[0].state is StageState.OPEN
    fleet.rounds(10, 7200)
    fleet.presence("online", "dev-0")
    fleet.round()
    assert fleet.states(rollout) == {"dev-0": "pending"}
    assert fleet.show(rollout).state is RolloutState.RUNNING
    fleet.round(6 * 86_400 + 3.5 * 3600)
    assert fleet.states(rollout) == {"dev-0": "healthy"}
