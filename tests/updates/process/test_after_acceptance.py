"""A release that was accepted and then takes perception down time and again: given up, denied, and told so."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.release import ProbationTerms, ShadowTerms
from edge_runtime.protocol.update import LeftAs, UpdateCode, UpdateState
from edge_runtime.updates.machine.table import ALONE_MS, MOST_LOSSES, Deadlines
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.reports import ReportKeeper
from edge_runtime.updates.store import MAX_TRIAL_STARTS, begin_start
from edge_runtime.updates.store.starting import MAX_WATCHED_STARTS, STAYED_S, WATCHED_S
from tests.rigs.signed_repository import SignedRelease, SignedRepository
from tests.rigs.updating_device import GOOD, SLOT, Behaviour, Killed, UpdatingDevice, behave

DIES = Behaviour(lives_s=5.0)
SHORT: dict[str, Any] = {
    "shadow": ShadowTerms(seconds=0),
    "probation": ProbationTerms(seconds=3, max_seconds=60, min_frames=20),
}
NO_LINK = UpdateRefused(UpdateCode.DOWNLOAD_FAILED, "the link is cut", again=True)


class Accepted:
    """A device whose second release was accepted, and the one before it."""

    def __init__(self, folder: Path, fleet: SignedRepository) -> None:
        self.device = UpdatingDevice(folder, fleet.copy())
        self.good, self.late, self.repair = (self.device.release(one, **SHORT) for one in (1, 2, 3))
        for release in (self.good, self.late):
            report = self.device.run_to_end(self.device.assign(release))
            assert (report.state, report.left) == (UpdateState.HEALTHY, LeftAs.UPDATED)

    def turn_bad(self, release: SignedRelease | None = None) -> None:
        bad = release or self.late
        self.device.perception.behaviours[bad.sha256] = DIES
        self.device.perception.using.behaviour = DIES

    def starts(self) -> int:
        return self.device.perception.pid

    def crash(self, times: int) -> None:
        """So often in a row, while the process of updates does not look."""
        for _ in range(times):
            self.device.perception.die()
            self.device.second()

    def repaired(self, *, fails: bool = False, held: str = "waiting") -> int:
        """A later release is assigned, and is kept from being put in use; the number of its assignment."""
        device = self.device
        if fails:
            behave(device, self.repair, nonfinite=0.5)
        device.around.locked = held == "waiting"
        device.mirror.fails = [NO_LINK] * 1000 if held == "downloading" else []
        seq = device.assign(self.repair)
        device.run(60, until=lambda: device.states_of(seq)[-1:] == [UpdateState(held)])
        assert device.states_of(seq)[-1] is UpdateState(held)
        return seq

    def let_go(self) -> None:
        self.device.around.locked, self.device.mirror.fails = False, []

    def check(self, seq: int, runs: SignedRelease, *, told: int = 1) -> None:
        """It was given up, and that is told; the later assignment has its one end; what should run does."""
        device = self.device
        loops = [one for one in device.reports.values() if one.code is UpdateCode.CRASH_LOOP]
        assert 1 <= len(loops) <= told
        assert {(one.seq, one.terminal) for one in loops} == {(0, False)}
        assert device.driver is not None
        assert self.late.sha256 in device.driver.memory.known_bad.denied
        assert {one: len(numbers) for one, numbers in device.seen.items()} == {1: 1, 2: 1, seq: 1}
        assert (device.slot.active, device.slot.trial, device.slot.last_good) == (
            runs.sha256,
            False,
            self.good.sha256,
        )
        assert device.perception.runs == runs.sha256
        assert begin_start(device.folder, SLOT).gave_up is None


@pytest.fixture(scope="module")
def fleet() -> SignedRepository:
    """One fleet's keys for all of them."""
    return SignedRepository()


@pytest.fixture
def accepted(tmp_path: Path, fleet: SignedRepository) -> Accepted:
    return Accepted(tmp_path / "updates", fleet)


def test_it_is_given_up_for_the_last_good_one_within_six_crashes(accepted: Accepted) -> None:
    device, before = accepted.device, accepted.starts()
    accepted.turn_bad()
    device.run(300)
    assert device.perception.runs == accepted.good.sha256
    assert accepted.starts() - before == MAX_WATCHED_STARTS + 1
    told = [report for report in device.reports.values() if report.code is UpdateCode.CRASH_LOOP]
    assert [(one.seq, one.terminal, one.running.sha256) for one in told] == [(0, False, accepted.good.sha256)]
    assert "5 times in a row" in told[0].text
    assert device.slot.active == accepted.good.sha256
    assert [len(numbers) for numbers in device.seen.values()] == [1, 1], "an assignment has one end"
    assert device.driver is not None
    newest = device.driver.memory.journal.ended[-1]
    assert (newest.seq, newest.state, newest.code) == (2, UpdateState.REVERTED, UpdateCode.CRASH_LOOP)


def test_it_is_not_taken_again_until_a_later_assignment_names_it(accepted: Accepted) -> None:
    device = accepted.device
    accepted.turn_bad()
    device.run(300)
    for how in ("process", "boot"):
        device.deliver()
        device.restart(how)
        device.run(60)
        assert device.perception.runs == accepted.good.sha256
    assert device.driver is not None
    assert set(device.driver.memory.known_bad.denied) == {accepted.late.sha256}
    device.perception.behaviours[accepted.late.sha256] = GOOD
    assert device.run_to_end(device.assign(accepted.late)).state is UpdateState.HEALTHY


def test_after_a_day_in_use_a_crash_is_not_held_against_it(accepted: Accepted) -> None:
    device = accepted.device
    device.clock.boot_ns += (WATCHED_S - 1200) * 10**9
    for _ in range(WATCHED_S // 600):
        device.perception.end_in_order()  # the same word as every ten minutes
    accepted.turn_bad()
    device.run(120)
    assert device.perception.using.release == accepted.late.sha256


def test_restarts_in_order_and_long_runs_are_no_crashes(accepted: Accepted) -> None:
    device = accepted.device
    for _ in range(3 * MAX_WATCHED_STARTS):
        device.restart("service")
        device.run(3)
    assert device.perception.runs == accepted.late.sha256


def test_a_robot_that_is_switched_on_and_off_by_hand_gives_nothing_up(accepted: Accepted) -> None:
    """Nobody asks perception to end, and it never runs for ten minutes."""
    device = accepted.device
    for _ in range(3 * MAX_WATCHED_STARTS):
        device.restart("boot")
        device.run(10)
        assert device.perception.runs == accepted.late.sha256
    accepted.crash(MAX_WATCHED_STARTS)
    device.run(60)
    assert device.perception.runs == accepted.good.sha256, "its crashes still count"


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("held", ["downloading", "waiting"])
def test_it_is_given_up_while_its_repair_is_under_way(accepted: Accepted, held: str, *, fails: bool) -> None:
    device, good = accepted.device, accepted.good
    seq = accepted.repaired(fails=fails, held=held)
    accepted.crash(MAX_WATCHED_STARTS + 1)
    device.run(60)
    assert (device.slot.active, device.perception.runs) == (good.sha256, good.sha256)
    assert seq not in device.seen, "its repair goes on"
    accepted.let_go()
    report = device.run_to_end(seq, 4000)
    device.run(60)
    assert report.left is (LeftAs.REVERTED if fails else LeftAs.UPDATED)
    accepted.check(seq, good if fails else accepted.repair)


SHADOW = ShadowTerms(seconds=60, max_seconds=3600, min_frames=50)


@pytest.fixture
def hurried(accepted: Accepted) -> Accepted:
    """What is in use has to stay alone for two minutes: a quarter of what loading may take."""
    device = accepted.device
    device.rules = replace(device.rules, deadlines=Deadlines(prepare=480_000))
    device.restart("process")
    return accepted


def test_its_repair_is_not_blamed_for_its_crashes(hurried: Accepted) -> None:
    """What was accepted dies three times while its repair is beside it; the repair was refused and denied."""
    accepted, device = hurried, hurried.device
    repair = device.release(4, shadow=SHADOW, probation=SHORT["probation"])
    seq = device.assign(repair)
    device.run(60, until=lambda: device.states_of(seq)[-1:] == [UpdateState.STAGED])
    accepted.turn_bad()
    device.run(300, until=lambda: device.perception.runs == accepted.good.sha256)
    assert seq not in device.seen, "nobody is blamed that was only beside it"
    assert device.run_to_end(seq, 4000).state is UpdateState.HEALTHY
    accepted.check(seq, repair)
    assert device.driver is not None
    assert set(device.driver.memory.known_bad.denied) == {accepted.late.sha256}


def test_a_candidate_that_takes_perception_down_is_refused(hurried: Accepted) -> None:
    """What runs stays as long as it is alone, and dies each time when the other one is beside it."""
    accepted, device = hurried, hurried.device
    seq = device.assign(device.release(4, shadow=SHADOW))
    for _ in range(900):
        device.turn()
        if device.states_of(seq)[-1:] == [UpdateState.STAGED]:
            device.perception.die()
        if seq in device.seen:
            break
        device.second()
    report = device.run_to_end(seq, 1)
    assert (report.state, report.code) == (UpdateState.REFUSED, UpdateCode.CRASH_LOOP)
    assert device.states_of(seq).count(UpdateState.STAGED) == MOST_LOSSES
    assert device.perception.runs == accepted.late.sha256, "and what runs is not given up for it"


@pytest.mark.parametrize("how", ["service", "boot"])
def test_a_restart_of_everything_is_held_against_nobody(accepted: Accepted, how: str) -> None:
    device = accepted.device
    seq = device.assign(device.release(4, shadow=SHADOW))
    for _ in range(2 * MOST_LOSSES):
        device.run(60, until=lambda: device.states_of(seq)[-1:] == [UpdateState.STAGED])
        device.run(5)
        device.restart(how)
    assert device.run_to_end(seq, 200).state is UpdateState.HEALTHY


def test_it_is_given_up_in_the_moment_before_a_trial(accepted: Accepted) -> None:
    device = accepted.device
    seq = accepted.repaired(fails=True)
    device.restart("process")
    device.turn()  # what runs is looked at with this turn, and next in half a minute
    accepted.crash(MAX_WATCHED_STARTS + 1)
    accepted.let_go()
    device.run(20, until=lambda: device.slot.trial)
    assert (device.slot.trial, device.slot.last_good) == (True, accepted.good.sha256)
    assert device.run_to_end(seq).code is UpdateCode.PROBATION_NONFINITE
    device.run(60)
    accepted.check(seq, accepted.good)


def test_it_is_given_up_after_a_trial_that_came_in_between(accepted: Accepted) -> None:
    """It has crashed before its repair was tried, and goes on when that was taken back."""
    device = accepted.device
    seq = accepted.repaired(fails=True)
    accepted.crash(MAX_WATCHED_STARTS - 1)
    accepted.let_go()
    device.run(60, until=lambda: device.slot.trial)
    device.restart("service")
    device.run_to_end(seq)
    assert (device.slot.active, device.slot.last_good) == (accepted.late.sha256, accepted.good.sha256)
    accepted.crash(2)
    device.run(60)
    accepted.check(seq, accepted.good)


def test_killed_between_giving_up_and_the_trial_of_its_repair(
    tmp_path: Path, fleet: SignedRepository
) -> None:
    """After each act of giving up, and after every third one until the trial; what starts anew takes turns."""
    killed = 0
    for point in (*range(2, 12, 2), *range(12, 60, 6)):
        accepted = Accepted(tmp_path / str(point), fleet)
        device, seq = accepted.device, accepted.repaired(fails=True)
        accepted.crash(MAX_WATCHED_STARTS + 1)
        device.faults.kill_at = device.faults.done + point
        with contextlib.suppress(Killed):
            device.run(40, until=lambda: device.slot.active == accepted.good.sha256)  # noqa: B023 - at once
            assert point > 10
            accepted.let_go()
            device.run(20, until=lambda: device.slot.trial)  # noqa: B023 - at once
            break  # it was not killed: the trial has begun before so many acts
        killed += 1
        accepted.let_go()
        assert accepted.good.sha256 in device.slot.model_dump().values()
        device.restart(("process", "service", "boot")[killed % 3])
        assert device.run_to_end(seq, 300).left is LeftAs.REVERTED
        device.run(2)
        accepted.check(seq, accepted.good, told=2)
    assert killed >= 7, "acts are no longer counted"


@pytest.mark.parametrize("call", ["keep", "give_up"])
def test_killed_while_it_is_told_it_is_told_once_more(
    accepted: Accepted, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = accepted.device
    accepted.turn_bad()

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    target = ReportKeeper if call == "keep" else type(device.store)
    monkeypatch.setattr(target, call, die)
    with pytest.raises(Killed):
        device.run(300)
    monkeypatch.undo()
    device.restart("process")
    device.run(60)
    codes = [report.code for report in device.reports.values()]
    assert 1 <= codes.count(UpdateCode.CRASH_LOOP) <= 2
    assert (device.slot.active, device.perception.runs) == (accepted.good.sha256, accepted.good.sha256)


def test_alone_is_as_long_as_a_start_counts() -> None:
    assert ALONE_MS == STAYED_S * 1000


def test_on_trial_it_is_still_three(tmp_path: Path) -> None:
    device = UpdatingDevice(tmp_path / "updates")
    release = device.release(1)
    device.perception.behaviours[release.sha256] = Behaviour(opens=False)
    seq = device.assign(release)
    device.run(60, until=lambda: device.slot.trial)
    device.restart("service")
    assert device.run_to_end(seq).code is UpdateCode.CRASH_LOOP
    assert device.perception.pid - 100 >= MAX_TRIAL_STARTS
