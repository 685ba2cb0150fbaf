"""The device's half of the kinds of reports that others' update clients had: research's table of 26, by number."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.release import Opening, ProbationTerms, ShadowTerms
from edge_runtime.protocol.update import LeftAs, UpdateAction, UpdateCode, UpdateState
from edge_runtime.updates.machine import Deadlines
from edge_runtime.updates.machine.backoff import LONGEST_MS
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.keeping import DiskFiles
from edge_runtime.updates.process.parts import JOURNAL, LOST_JOURNAL
from edge_runtime.updates.store import begin_start
from tests.rigs.signed_repository import SignedRelease
from tests.rigs.updating_device import SLOT, UpdatingDevice, behave

S = UpdateState


def running(device: UpdatingDevice, **terms: Any) -> SignedRelease:
    """A first release that the device keeps."""
    release = device.release(1, **terms)
    assert device.run_to_end(device.assign(release)).state is S.HEALTHY
    return release


def bad(device: UpdatingDevice, counter: int, **terms: Any) -> SignedRelease:
    """A release that passes its shadow run and fails its probation."""
    release = device.release(counter, **{"shadow": ShadowTerms(seconds=0), **terms})
    behave(device, release, nonfinite=0.5)
    return release


@pytest.mark.parametrize(
    ("what", "state", "code", "after"),
    [
        ({"load_s": 1e9}, S.REFUSED, UpdateCode.DEADLINE, S.VERIFIED),
        ({"fps": 0.0}, S.REFUSED, UpdateCode.SHADOW_NO_DATA, S.STAGED),
    ],
)
def test_1_every_state_has_an_end(
    device: UpdatingDevice, what: dict[str, Any], state: UpdateState, code: UpdateCode, after: UpdateState
) -> None:
    """#1: a device that installs and never returns stayed `proceeding` for ever."""
    release = device.release(1)
    device.rules = type(device.rules)(device.rules.device, Deadlines(prepare=60_000))
    behave(device, release, **what)
    report = device.run_to_end(device.assign(release))
    assert (report.state, report.code, report.left) == (state, code, LeftAs.UNCHANGED)
    assert device.states_of(report.seq)[-1] is after or state is report.state
    assert device.perception.runs is None


def test_1_an_activation_that_never_happens_ends(
    device: UpdatingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device.perception, "activate", lambda *_args: None)
    report = device.run_to_end(device.assign(device.release(1)))
    assert (report.state, report.code) == (S.REVERTED, UpdateCode.ACTIVATION)
    assert not device.slot.trial


def test_2_healthy_is_said_after_probation_and_names_what_runs(device: UpdatingDevice) -> None:
    """#2: success was what the client said when its bytes were written."""
    release = device.release(1)
    seq = device.assign(release)
    device.run(25)
    assert device.perception.runs == release.sha256
    assert seq not in device.seen, "it is in use, and not proven"
    report = device.run_to_end(seq)
    assert (report.state, report.running.sha256) == (S.HEALTHY, release.sha256)
    assert report.boot_id == "boot-1"


def test_2_what_runs_is_told_again_when_it_changes_by_itself(device: UpdatingDevice) -> None:
    running(device)
    before = max(device.reports)
    device.perception.using.release = None
    device.run(40)
    told = [report for number, report in device.reports.items() if number > before]
    assert [(report.seq, report.running.sha256) for report in told] == [(0, None)]


def test_2_assigned_again_it_is_healthy_because_it_runs(device: UpdatingDevice) -> None:
    release = running(device)
    report = device.run_to_end(device.assign(release))
    assert (report.state, report.left, report.text) == (S.HEALTHY, LeftAs.UNCHANGED, "runs already")
    device.perception.using.release = None  # written down, but not what runs
    report = device.run_to_end(device.assign(release))
    assert report.left is LeftAs.UPDATED
    assert device.perception.runs == release.sha256


def test_5_hold_takes_back_what_is_not_yet_in_use(device: UpdatingDevice) -> None:
    """#5: a cancel that was acknowledged wrongly stayed, and blocked the device from later updates."""
    seq = device.assign(device.release(1))
    device.run(4)
    hold = device.assign(None)
    device.run_to_end(hold)
    assert device.reports[min(device.seen[seq])].state is S.WITHDRAWN
    assert device.reports[min(device.seen[hold])].left is LeftAs.UNCHANGED
    assert device.perception.beside is None
    later = device.release(2)
    assert device.run_to_end(device.assign(later)).state is S.HEALTHY


def test_5_hold_leaves_what_is_in_use_to_its_probation(device: UpdatingDevice) -> None:
    release = device.release(1)
    seq = device.assign(release)
    device.run(25)
    assert device.perception.runs == release.sha256
    hold = device.assign(None)
    device.run_to_end(hold)
    assert device.reports[min(device.seen[seq])].state is S.HEALTHY


def test_6_what_nobody_has_ends_it_and_a_bad_road_is_waited_for(device: UpdatingDevice) -> None:
    """#6: an artefact that answered 404 was asked for twice a second without end."""
    release = device.release(1)
    device.mirror.fails = [UpdateRefused(UpdateCode.DOWNLOAD_FAILED, "503", again=True)] * 6
    seq = device.assign(release)
    asked: list[int] = []
    for second in range(3000):
        before = len(device.mirror.fails)
        device.turn()
        if len(device.mirror.fails) < before:
            asked.append(second)
        if seq in device.seen:
            break
        device.second()
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert len(asked) == 6
    assert all(later >= earlier for earlier, later in itertools.pairwise(gaps)), gaps
    assert gaps[-1] * 1000 <= LONGEST_MS
    assert device.reports[min(device.seen[seq])].state is S.HEALTHY
    gone = device.release(2)
    del device.mirror.blobs[gone.sha256]
    report = device.run_to_end(device.assign(gone))
    assert (report.state, report.code) == (S.REFUSED, UpdateCode.DOWNLOAD_NOT_FOUND)


def test_8_a_release_that_failed_is_not_tried_again_by_itself(device: UpdatingDevice) -> None:
    """#8, #16: rolled back, and offered again at once: an endless loop of installing."""
    good = running(device)
    release = bad(device, 2)
    seq = device.assign(release)
    report = device.run_to_end(seq)
    assert (report.state, report.code, report.left) == (
        S.REVERTED,
        UpdateCode.PROBATION_NONFINITE,
        LeftAs.REVERTED,
    )
    assert device.perception.runs == good.sha256
    fetched, said = len(device.mirror.fetched), len(device.perception.calls)
    for _ in range(3):
        device.deliver()
        device.restart("boot")
        device.run(40)
    assert len(device.mirror.fetched) == fetched
    assert len(device.perception.calls) == said
    assert len(device.seen[seq]) == 1


def test_8_not_even_by_a_journal_that_was_lost(device: UpdatingDevice) -> None:
    seq = device.assign(bad(device, 1))
    device.run_to_end(seq)
    device.deliver(settled=[seq])
    device.run(2)
    (device.folder / JOURNAL).unlink()
    device.restart("boot")
    device.run(60)
    assert "activate" not in device.perception.calls[-1:]
    assert device.seen[seq] == {min(device.seen[seq])}
    assert device.perception.runs is None


def test_16_only_a_later_assignment_lifts_it(device: UpdatingDevice) -> None:
    release = bad(device, 1)
    device.run_to_end(device.assign(release))
    behave(device, release)
    assert device.run_to_end(device.assign(release)).state is S.HEALTHY
    assert device.driver is not None
    assert device.driver.memory.known_bad.denied == {}


def test_9_reports_wait_for_the_fleet_and_keep_nothing_back(device: UpdatingDevice) -> None:
    """#9: a server that could not be reached while reporting made the deployment start again from zero."""
    first, second = device.release(1), device.release(2)
    ends = [device.run_to_end(device.assign(release)) for release in (first, second)]
    assert [report.state for report in ends] == [S.HEALTHY, S.HEALTHY]
    device.restart("boot")
    device.run(2)
    assert device.driver is not None
    assert list(device.driver.memory.reports.unsettled) == [1, 2]
    device.deliver(settled=[1])
    device.run(2)
    assert list(device.driver.memory.reports.unsettled) == [2]
    assert device.mirror.fetched.count(first.sha256) == 1


@pytest.mark.parametrize("seconds", [1, 8, 20, 40])
def test_10_a_later_assignment_need_not_wait(device: UpdatingDevice, seconds: int) -> None:
    """#10: a deployment that hung kept all later ones queued."""
    first = device.release(1)
    behave(device, first, load_s=6.0)
    seq = device.assign(first)
    device.run(seconds)
    assert seq not in device.seen
    second = device.release(2)
    report = device.run_to_end(device.assign(second))
    assert report.state is S.HEALTHY
    ended = device.reports[min(device.seen[seq])]
    assert (ended.state, ended.code) == (S.SUPERSEDED, UpdateCode.SUPERSEDED)
    assert device.perception.runs == second.sha256


def test_11_a_journal_that_cannot_be_read_keeps_what_runs(device: UpdatingDevice) -> None:
    """#11: a deployment file that was corrupt at boot was a boot loop."""
    good = running(device)
    device.run(1)
    (device.folder / JOURNAL).write_bytes(b"\0" * 200)
    before = max(device.reports)
    device.restart("boot")
    device.run(3)
    told = [report for number, report in device.reports.items() if number > before]
    assert told[0].code is UpdateCode.STATE_LOST
    assert (told[0].seq, told[0].running.sha256) == (0, good.sha256)
    assert (device.folder / LOST_JOURNAL).read_bytes() == b"\0" * 200
    assert device.perception.runs == good.sha256
    later = device.release(2)
    assert device.run_to_end(device.assign(later)).state is S.HEALTHY
    assert sorted(device.reports) == list(device.reports), "numbers grow beyond those that were lost"


def test_11_a_trial_that_nobody_remembers_is_taken_back(device: UpdatingDevice) -> None:
    good = running(device)
    seq = device.assign(device.release(2, probation=ProbationTerms(seconds=500, min_frames=10)))
    device.run(30)
    assert device.slot.trial
    (device.folder / JOURNAL).write_bytes(b"not a journal\n{}\n")
    device.restart("process")
    device.turn()
    assert (device.slot.active, device.slot.trial) == (good.sha256, False)
    assert device.run_to_end(seq, 1200).state is S.HEALTHY, "and it is begun anew, as it was assigned"
    assert len(device.seen[seq]) == 1


def test_12_the_same_assignment_again_is_one(device: UpdatingDevice) -> None:
    """#12: the same job, notified again while it went on, ran twice."""
    seq = device.assign(device.release(1))
    for _ in range(6):
        device.run(5)
        device.deliver()
    device.run_to_end(seq)
    device.deliver()
    device.run(30)
    assert device.perception.calls.count("activate") == 1
    assert device.states_of(seq).count(S.DOWNLOADING) == 1
    assert len(device.seen[seq]) == 1


def test_12_an_older_assignment_is_refused(device: UpdatingDevice) -> None:
    old, new = device.release(1), device.release(2)
    sealed = device.fleet.assign("cam-07", "7c" * 32, 4, old)
    device.run_to_end(device.assign(new, seq=5))
    device.deliver(sealed)
    report = device.run_to_end(4)
    assert (report.state, report.code) == (S.REFUSED, UpdateCode.STALE_SEQUENCE)
    assert device.perception.runs == new.sha256
    device.deliver(sealed)
    device.run(20)
    assert len(device.seen[4]) == 1


def test_13_no_room_is_said_before_the_first_byte_and_tried_again(
    device: UpdatingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """#13: an image larger than the disk was fetched again and again."""
    release = device.release(1)
    full = [True]

    def check(_self: object, _bundle: object) -> None:
        if full[0]:
            raise UpdateRefused(UpdateCode.NO_SPACE, "no room", again=True)

    monkeypatch.setattr("edge_runtime.updates.store.ReleaseStore.check_space", check)
    seq = device.assign(release)
    device.run(120)
    assert device.mirror.fetched == [release.sha256], "its list of files, and nothing of what it lists"
    assert (seq, S.DOWNLOADING, UpdateCode.NO_SPACE) in device.states
    full[0] = False
    assert device.run_to_end(seq).state is S.HEALTHY


def test_16_a_person_who_locks_is_not_overruled(device: UpdatingDevice) -> None:
    device.around.locked = True
    seq = device.assign(device.release(1))
    device.run(2000)
    assert seq not in device.seen
    assert (seq, S.WAITING, UpdateCode.LOCKED) in device.states
    assert device.perception.beside is None, "two models are not kept in memory for half an hour"
    device.around.locked = False
    assert device.run_to_end(seq).state is S.HEALTHY


def test_23_an_end_never_stands_in_the_way_and_says_why(device: UpdatingDevice) -> None:
    """#23: a failed record blocked later installs, and success was printed after a rollback."""
    first = device.release(1)
    behave(device, first, refuses=(UpdateCode.ENGINE_BUILD, "layer Conv_7 has no kernel"))
    report = device.run_to_end(device.assign(first))
    assert (report.state, report.code, report.text) == (
        S.REFUSED,
        UpdateCode.ENGINE_BUILD,
        "layer Conv_7 has no kernel",
    )
    assert device.run_to_end(device.assign(device.release(2))).state is S.HEALTHY


def test_a_robot_that_moves_says_no(device: UpdatingDevice) -> None:
    device.around.obstacle = (UpdateCode.IN_MOTION, "the robot is armed")
    seq = device.assign(device.release(1))
    device.run(40)
    assert device.states[-1] == (seq, S.WAITING, UpdateCode.IN_MOTION)
    assert "activate" not in device.perception.calls
    device.around.obstacle = None
    assert device.run_to_end(seq).state is S.HEALTHY


def test_what_is_revoked_while_it_waits_never_comes_into_use(device: UpdatingDevice) -> None:
    """Days may pass between the judgement of an assignment and the hour in which nothing is in the way."""
    device.around.locked = True
    release = device.release(1)
    seq = device.assign(release)
    device.run(60, until=lambda: (seq, S.WAITING, UpdateCode.LOCKED) in device.states)
    del device.fleet.roles["models"].targets[release.terms.target]
    device.fleet.publish("models")
    device.clock.boot_ns += 700 * 10**9
    device.clock.wall_ns += 700 * 10**9
    device.around.locked = False
    report = device.run_to_end(seq)
    assert (report.state, report.code, report.left) == (
        S.REFUSED,
        UpdateCode.TARGET_UNKNOWN,
        LeftAs.UNCHANGED,
    )
    assert "activate" not in device.perception.calls
    assert device.driver is not None
    assert device.driver.memory.known_bad.denied == {}, "it did not fail here"


def test_what_is_revoked_ends_even_while_it_has_to_wait(device: UpdatingDevice) -> None:
    device.around.locked = True
    release = device.release(1)
    seq = device.assign(release)
    device.run(40)
    del device.fleet.roles["models"].targets[release.terms.target]
    device.fleet.publish("models")
    assert device.run_to_end(seq, 3700).code is UpdateCode.TARGET_UNKNOWN


def test_what_waited_is_put_in_use_although_the_server_is_away_and_its_metadata_ended(
    device: UpdatingDevice,
) -> None:
    """Time takes nothing back that was admitted: a fleet without its server still goes through its windows."""
    device.around.locked = True
    seq = device.assign(device.release(1))
    device.run(40)
    device.clock.boot_ns += 3 * 86_400 * 10**9
    device.clock.wall_ns += 3 * 86_400 * 10**9
    device.fleet.refused["timestamp.json"] = 503
    device.around.locked = False
    assert device.run_to_end(seq).state is S.HEALTHY
    assert device.fleet.asked["timestamp.json"] >= 2, "it was asked for all the same"


def test_a_lock_that_is_taken_in_the_last_moment_counts(
    device: UpdatingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq = device.assign(device.release(1))
    monkeypatch.setattr(device.around, "hold_still", lambda: False)
    device.run(40)
    assert device.states[-1] == (seq, S.WAITING, UpdateCode.LOCKED)
    monkeypatch.undo()
    assert device.run_to_end(seq).state is S.HEALTHY


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ({"nonfinite": 0.5}, UpdateCode.PROBATION_NONFINITE),
        ({"unanswered": 0.5}, UpdateCode.PROBATION_NONFINITE),
        ({"p95_ms": 60.0}, UpdateCode.PROBATION_LATENCY),
        ({"events_per_frame": 2.0}, UpdateCode.PROBATION_EVENT_RATE),
        ({"celsius": 80.0}, UpdateCode.PROBATION_THERMAL),
        ({"fps": 0.1}, UpdateCode.PROBATION_NO_DATA),
        ({"lives_s": 5.0}, UpdateCode.PROBATION_CRASH),
    ],
)
def test_probation_sends_back_what_is_not_well(
    device: UpdatingDevice, what: dict[str, Any], code: UpdateCode
) -> None:
    good = running(device)
    device.run(400)
    release = device.release(2, shadow=ShadowTerms(seconds=0))
    behave(device, release, **what)
    report = device.run_to_end(device.assign(release))
    assert (report.state, report.code, report.left) == (S.REVERTED, code, LeftAs.REVERTED)
    assert device.perception.runs == good.sha256 == report.running.sha256
    assert begin_start(device.folder, SLOT).release == good.sha256


def test_a_guard_that_holds_the_body_sends_it_back(device: UpdatingDevice) -> None:
    seq = device.assign(device.release(1))
    device.run(25)
    device.around.trip_ages_s = (1.0, 500.0)
    assert device.run_to_end(seq).code is UpdateCode.PROBATION_GUARD


def test_what_perception_gave_up_by_itself_is_a_crash_loop(device: UpdatingDevice) -> None:
    release = device.release(1)
    behave(device, release, opens=False, lives_s=0.0)
    seq = device.assign(release)
    device.run(16)
    report = device.run_to_end(seq)
    assert report.state is S.REVERTED
    assert report.code in (UpdateCode.CRASH_LOOP, UpdateCode.PROBATION_CRASH)
    assert device.perception.runs is None


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ({"agreement": 0.1}, UpdateCode.SHADOW_DISAGREES),
        ({"nonfinite": 0.5}, UpdateCode.SHADOW_DISAGREES),
        ({"unanswered": 1.0}, UpdateCode.SHADOW_DISAGREES),
        ({"p95_ms": 100.0}, UpdateCode.SHADOW_SLOW),
        ({"objects_per_frame": 0.0}, UpdateCode.SHADOW_NO_DATA),
        ({"refuses": (UpdateCode.GOLDEN_VECTORS, "other numbers")}, UpdateCode.GOLDEN_VECTORS),
    ],
)
def test_beside_the_one_in_use_it_is_refused_and_nothing_changed(
    device: UpdatingDevice, what: dict[str, Any], code: UpdateCode
) -> None:
    release = device.release(1)
    behave(device, release, **what)
    report = device.run_to_end(device.assign(release))
    assert (report.state, report.code, report.left) == (S.REFUSED, code, LeftAs.UNCHANGED)
    assert device.perception.runs is None
    assert "activate" not in device.perception.calls
    assert device.perception.beside is None


def test_a_candidate_that_takes_perception_down_is_refused(device: UpdatingDevice) -> None:
    device.rules = type(device.rules)(device.rules.device, Deadlines(prepare=480_000))
    seq = device.assign(device.release(1))
    for _ in range(3):
        # two minutes, a quarter of what loading may take, what runs has to stay alone after each crash
        device.run(200, until=lambda: "shadow" in device.perception.calls)
        device.perception.calls.clear()
        device.perception.start()
    report = device.run_to_end(seq)
    assert (report.state, report.code, report.left) == (S.REFUSED, UpdateCode.CRASH_LOOP, LeftAs.UNCHANGED)


def test_a_way_back_that_people_signed_needs_no_shadow_run(device: UpdatingDevice) -> None:
    first = running(device)
    second = device.release(2, rollback_to=(first.sha256,))
    device.run_to_end(device.assign(second))
    device.perception.calls.clear()
    report = device.run_to_end(device.assign(first, action=UpdateAction.ROLLBACK))
    assert (report.state, report.running.counter) == (S.HEALTHY, 1)
    assert "shadow" not in device.perception.calls


def test_a_new_release_that_is_called_a_way_back_has_its_shadow_run(device: UpdatingDevice) -> None:
    """A thief of the director's key can write any action into an assignment."""
    running(device)
    device.perception.calls.clear()
    device.run_to_end(device.assign(device.release(2), action=UpdateAction.ROLLBACK))
    assert device.perception.calls.index("shadow") < device.perception.calls.index("activate")


def test_two_slots_are_worked_at_in_their_order(device: UpdatingDevice) -> None:
    """The other slot's assignment is refused for what it is, and takes nothing from the first."""
    first = device.release(1)
    other = device.fleet.release(1, "reader")
    device.desired["reader"] = device.fleet.assign("cam-07", "7c" * 32, 7, other, slot="reader")
    device.assign(first, seq=3)
    report = device.run_to_end(3)
    assert report.state is S.HEALTHY
    [number] = device.seen[7]
    assert (device.reports[number].code, device.reports[number].slot) == (UpdateCode.SLOT_UNKNOWN, "reader")


def test_slots_that_are_not_there_leave_the_journal_readable(device: UpdatingDevice) -> None:
    running(device)
    other = device.fleet.release(1, "reader")
    for first in range(10, 80, 14):
        device.deliver(
            *(
                device.fleet.assign("cam-07", "7c" * 32, seq, other, slot=f"reader-{seq}")
                for seq in range(first, first + 14)
            )
        )
        device.run(40)
    assert len(device.seen) == 71
    device.restart("process")
    device.run(2)
    assert device.driver is not None
    assert device.driver.memory.lost is None
    assert set(device.driver.memory.journal.heard) == {SLOT}
    assert set(device.driver.memory.known_bad.ended) == {SLOT}


def test_a_ring_that_is_not_open_is_waited_for(device: UpdatingDevice) -> None:
    opens_ms = device.clock.wall_ns // 1_000_000 + 3_600_000
    release = device.release(1, openings=(Opening(basis_points=10_000, not_before_ms=opens_ms),))
    seq = device.assign(release)
    device.run(30)
    assert (seq, S.WAITING, UpdateCode.RING_CLOSED) in device.states
    device.clock.wall_ns += 3_600_000_000_000
    device.clock.boot_ns += 3_600_000_000_000
    assert device.run_to_end(seq, 3000).state is S.HEALTHY


@pytest.mark.parametrize("both", [False, True], ids=["renewed", "renewed-and-the-old-one-again"])
def test_what_ran_out_waits_until_it_is_renewed(device: UpdatingDevice, both: bool) -> None:
    """Switched on after a week, a device reads its own old copy first; the fleet has renewed the same number."""
    release, now_ms = device.release(1), device.clock.wall_ns // 1_000_000
    seq = device.assign(release, issued_ms=now_ms - 9 * 86_400_000, expires_ms=now_ms - 86_400_000)
    [old] = device.desired.values()
    device.run(30)
    assert (seq, S.WAITING, UpdateCode.EXPIRED) in device.states
    assert seq not in device.seen
    device.assign(release, seq=seq)
    if both:
        device.restart("process")
        device.deliver(*device.desired.values(), old)
    assert device.run_to_end(seq).state is S.HEALTHY
    assert len(device.seen[seq]) == 1


def test_waiting_is_ended_by_something_newer_before_it_was_taken_up(device: UpdatingDevice) -> None:
    late = device.clock.wall_ns // 1_000_000 + 10**9
    seq = device.assign(device.release(1, openings=(Opening(basis_points=10_000, not_before_ms=late),)))
    device.run(5)
    newer = device.assign(device.release(2))
    assert device.run_to_end(newer).state is S.HEALTHY
    assert device.reports[min(device.seen[seq])].state is S.SUPERSEDED


def test_rubbish_that_never_ends_costs_little(device: UpdatingDevice) -> None:
    """Whoever holds the broker can bring something else every second; each would be a refresh and a report."""
    release = device.release(1)
    thief = device.fleet.signers["timestamp"][0]
    device.run(2)
    asked, told = device.fleet.asked["timestamp.json"], len(device.reports)
    for seq in range(1, 301):
        device.deliver(device.fleet.assign("cam-07", "7c" * 32, seq, release, signer=thief), b"{%d}" % seq)
        device.run(1)
    assert device.fleet.asked["timestamp.json"] - asked <= 8 + 300 / 30
    assert 2 <= len(device.reports) - told <= 11
    assert device.run_to_end(device.assign(release, seq=1)).state is S.HEALTHY


def test_what_waits_is_not_ended_by_what_only_claims_to_be_later(device: UpdatingDevice) -> None:
    """The broker is not trusted: it may bring anything, with any number, in the place of what the fleet desires."""
    opens_ms = device.clock.wall_ns // 1_000_000 + 3_600_000
    release = device.release(1, openings=(Opening(basis_points=10_000, not_before_ms=opens_ms),))
    seq = device.assign(release)
    device.run(30)
    assert (seq, S.WAITING, UpdateCode.RING_CLOSED) in device.states
    thief = device.fleet.signers["timestamp"][0]
    device.deliver(device.fleet.assign("cam-07", "7c" * 32, 99, release, signer=thief))
    device.run(60)
    assert device.seen == {}
    device.deliver()
    device.clock.wall_ns += 3_600_000_000_000
    device.clock.boot_ns += 3_600_000_000_000
    assert device.run_to_end(seq, 3000).state is S.HEALTHY


def test_a_stranger_uses_up_no_number(device: UpdatingDevice) -> None:
    """Who cannot prove that the director sent it gets no terminal report: the number stays the director's."""
    release = device.release(1)
    thief = device.fleet.signers["timestamp"][0]
    device.deliver(device.fleet.assign("cam-07", "7c" * 32, 1, release, signer=thief), b"{}")
    device.run(3)
    told = {report.code for report in device.reports.values() if report.code is not None}
    assert told == {UpdateCode.DIRECTOR_SIGNATURE, UpdateCode.BAD_ENVELOPE}
    assert all(report.seq == 0 for report in device.reports.values())
    assert device.run_to_end(device.assign(release, seq=1)).state is S.HEALTHY


def test_another_director_counts_anew(device: UpdatingDevice) -> None:
    """Whoever stole a director's key may have used up every number there is."""
    first, second = device.release(1), device.release(2)
    device.run_to_end(device.assign(first, seq=(1 << 53) - 1))
    device.fleet.rotate("director")
    report = device.run_to_end(device.assign(second, seq=2))
    assert report.state is S.HEALTHY
    assert device.perception.runs == second.sha256


def test_what_a_thief_left_unfinished_spends_no_number_of_the_next_director(device: UpdatingDevice) -> None:
    """His assignment waits behind a lock while people take the key away, and ends after that."""
    first, second, third = device.release(1), device.release(2), device.release(3)
    device.around.locked = True
    last = (1 << 53) - 1
    device.assign(first, seq=last)
    device.run(120, until=lambda: S.WAITING in device.states_of(last))
    device.fleet.rotate("director")
    device.assign(second, seq=2)
    device.run(120, until=lambda: S.SUPERSEDED in device.states_of(last))
    device.around.locked = False
    assert device.run_to_end(2).state is S.HEALTHY
    device.restart("process")
    assert device.run_to_end(device.assign(third, seq=3)).state is S.HEALTHY
    assert device.perception.runs == third.sha256


def test_a_disk_that_fails_stops_updates_and_nothing_else(
    device: UpdatingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = running(device)
    seq = device.assign(bad(device, 2))
    device.run(3)
    assert device.perception.runs != good.sha256
    assert device.driver is not None

    def full(_self: object, _name: str, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DiskFiles, "write", full)
    device.run(30)
    assert device.driver.trouble is not None
    assert device.perception.runs == good.sha256, "what is bad does not go on until the disk is well"
    monkeypatch.undo()
    report = device.run_to_end(seq)
    assert (report.state, report.left) == (S.REVERTED, LeftAs.REVERTED)


def test_a_process_that_dies_over_one_assignment_gives_it_up(device: UpdatingDevice) -> None:
    release = device.release(1)
    behave(device, release, load_s=1e9)
    seq = device.assign(release)
    for _ in range(16):
        device.run(2)
        device.restart("process")
    device.run(3)
    [number] = device.seen[seq]
    assert device.reports[number].code is UpdateCode.CRASH_LOOP
    assert Path(device.folder / "reports").is_dir()
