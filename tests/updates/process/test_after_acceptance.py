"""A release that was accepted and then takes perception down time and again: given up, denied, and told so."""

from pathlib import Path

import pytest

from edge_runtime.protocol.update import LeftAs, UpdateCode, UpdateState
from edge_runtime.updates.process.reports import ReportKeeper
from edge_runtime.updates.store import MAX_TRIAL_STARTS
from edge_runtime.updates.store.starting import MAX_WATCHED_STARTS, WATCHED_S
from tests.rigs.signed_repository import SignedRelease
from tests.rigs.updating_device import GOOD, Behaviour, UpdatingDevice

DIES = Behaviour(lives_s=5.0)


class Accepted:
    """A device whose second release was accepted, and the one before it."""

    def __init__(self, folder: Path) -> None:
        self.device = UpdatingDevice(folder)
        self.good, self.late = self.device.release(1), self.device.release(2)
        for release in (self.good, self.late):
            report = self.device.run_to_end(self.device.assign(release))
            assert (report.state, report.left) == (UpdateState.HEALTHY, LeftAs.UPDATED)

    def turn_bad(self, release: SignedRelease | None = None) -> None:
        bad = release or self.late
        self.device.perception.behaviours[bad.sha256] = DIES
        self.device.perception.using.behaviour = DIES

    def starts(self) -> int:
        return self.device.perception.pid


@pytest.fixture
def accepted(tmp_path: Path) -> Accepted:
    return Accepted(tmp_path / "updates")


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


def test_on_trial_it_is_still_three(tmp_path: Path) -> None:
    device = UpdatingDevice(tmp_path / "updates")
    release = device.release(1)
    device.perception.behaviours[release.sha256] = Behaviour(opens=False)
    seq = device.assign(release)
    device.run(60, until=lambda: device.slot.trial)
    device.restart("service")
    assert device.run_to_end(seq).code is UpdateCode.CRASH_LOOP
    assert device.perception.pid - 100 >= MAX_TRIAL_STARTS
