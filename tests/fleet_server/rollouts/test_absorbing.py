"""Single reports against what is known: order, memory that was lost, numbers from nowhere."""

from typing import Any

import pytest

from edge_runtime.protocol.update import LeftAs, Running, UpdateCode, UpdateState
from fleet_server.director.desired import DesiredDraft
from fleet_server.rollouts import roster
from fleet_server.rollouts.absorbing import MOST_AHEAD
from fleet_server.rollouts.books import MOST_UNKNOWN
from fleet_server.rollouts.engine import TIDY_EVERY_MS
from fleet_server.rollouts.reports import take_reports
from fleet_server.rollouts.states import MemberState
from fleet_server.storage.writing import run
from tests.rigs.rollout_fleet import FACTS, SLOT, PaperFleet

HEALTHY = {"state": UpdateState.HEALTHY, "terminal": True, "left": LeftAs.UPDATED}


def _asked(fleet: PaperFleet) -> PaperFleet:
    fleet.publish(1)
    fleet.enrol("dev-0", fate="silent")
    fleet.run(1)
    fleet.round()
    return fleet


@pytest.fixture
def asked(fleet: PaperFleet) -> PaperFleet:
    """One device that was offered something and said nothing yet."""
    return _asked(fleet)


@pytest.fixture
def asked_either(either: PaperFleet) -> PaperFleet:
    """The same on both databases."""
    return _asked(either)


def slot(fleet: PaperFleet) -> Any:
    return fleet.rows("SELECT * FROM device_slots WHERE device = 'dev-0' AND slot = ?", SLOT)[0]


def test_what_a_device_says_of_itself_is_kept_once_for_all_that_say_the_same(fleet: PaperFleet) -> None:
    fleet.enrol("dev-0", "dev-1")
    fleet.enrol("dev-2", facts=FACTS.model_copy(update={"memory_mb": 1}))
    assert len(fleet.rows("SELECT * FROM device_facts")) == 2


def test_one_device_that_says_something_else_each_time_does_not_fill_the_table(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol("dev-0", "dev-1", fate="silent")
    device = either.devices["dev-0"]
    for memory_mb in range(1, 40):
        said = [device.report(either.now_ms) for _ in range(2)]
        different = FACTS.model_copy(update={"memory_mb": memory_mb})
        either.take([("dev-0", said[0].model_copy(update={"facts": different})), ("dev-0", said[1])])
    assert len(either.rows("SELECT * FROM device_facts")) == 1, "what is no longer true is not kept"
    for memory_mb in range(1, 40):
        either.say("dev-0", facts=FACTS.model_copy(update={"memory_mb": memory_mb}))
    with either.store.read() as session:
        roster._facts.cache_clear()
        found = roster.candidates(session.connection(), SLOT)
    assert [one.facts.memory_mb for one in found if one.facts] == [39, FACTS.memory_mb]
    assert roster._facts.cache_info().currsize == 2, "nothing is parsed that no device says"
    either.service.step(either.now_ms)
    assert len(either.rows("SELECT * FROM device_facts")) == 2
    either.say("dev-0")
    either.service.step(either.now_ms + TIDY_EVERY_MS)
    assert len(either.rows("SELECT * FROM device_facts")) == 1


def test_an_older_report_that_comes_late_takes_nothing_back(asked: PaperFleet) -> None:
    device = asked.devices["dev-0"]
    old = device.report(asked.now_ms)
    new = device.report(asked.now_ms, running=Running(sha256="d" * 64, counter=9))
    asked.take([("dev-0", new), ("dev-0", old)])
    assert slot(asked).counter == 9


def test_progress_that_comes_after_the_end_or_in_the_wrong_order_changes_nothing(asked: PaperFleet) -> None:
    device = asked.devices["dev-0"]
    states = (UpdateState.ACCEPTED, UpdateState.DOWNLOADING, UpdateState.PROBATION)
    accepted, downloading, probation = (device.report(asked.now_ms, seq=1, state=state) for state in states)
    asked.take([("dev-0", probation), ("dev-0", accepted), ("dev-0", downloading)])
    assert asked.states("r1") == {"dev-0": "probation"}


def test_a_device_that_lost_its_memory_is_believed_and_an_old_recording_is_not(
    asked_either: PaperFleet,
) -> None:
    device = asked_either.devices["dev-0"]
    recorded = device.report(asked_either.now_ms)
    for _ in range(5):
        asked_either.say("dev-0", running=Running(sha256="d" * 64, counter=9))
    asked_either.take([("dev-0", recorded)])
    assert slot(asked_either).counter == 9
    device.report_no, device.boot = 0, 2
    asked_either.pass_s(10)
    asked_either.say("dev-0", running=Running(sha256="e" * 64, counter=1))
    assert (slot(asked_either).counter, slot(asked_either).report_no) == (1, 1)
    asked_either.say("dev-0", running=Running(sha256="e" * 64, counter=2))
    assert slot(asked_either).counter == 2


def test_the_end_counts_though_the_device_lost_its_journal_on_the_way(asked_either: PaperFleet) -> None:
    device = asked_either.devices["dev-0"]
    for state in (UpdateState.ACCEPTED, UpdateState.DOWNLOADING, UpdateState.PROBATION):
        asked_either.say("dev-0", seq=1, state=state)
    device.report_no, device.boot = 0, 2
    end = {"state": UpdateState.REVERTED, "code": UpdateCode.STATE_LOST, "left": LeftAs.REVERTED}
    late = asked_either.say("dev-0", seq=1, terminal=True, **end)
    assert asked_either.states("r1") == {"dev-0": "reverted"}
    assert 1 in _settled(asked_either)
    device.report_no = 0
    asked_either.say("dev-0", seq=1, state=UpdateState.ACCEPTED)
    asked_either.take([("dev-0", late)])
    assert asked_either.states("r1") == {"dev-0": "reverted"}


def test_a_database_that_was_restored_goes_on_above_what_the_device_has_seen(asked: PaperFleet) -> None:
    asked.say("dev-0", seq=40, state=UpdateState.ACCEPTED)
    asked.service.cancel("anna", "r1", "restored")
    asked.round()
    asked.run(1)
    asked.round()
    assert asked.service.history("dev-0")[0].seq > 40


def test_the_end_of_an_assignment_that_nobody_knows_is_kept_and_settled(asked_either: PaperFleet) -> None:
    asked_either.say("dev-0", seq=40, **HEALTHY)
    newest = asked_either.service.history("dev-0")[0]
    assert (newest.seq, newest.action, newest.rollout, newest.state) == (40, None, None, MemberState.HEALTHY)
    assert newest.live is False
    assert 40 in _settled(asked_either)
    assert asked_either.states("r1") == {"dev-0": "offered"}


@pytest.mark.parametrize("seq", [(1 << 53) - 1, MOST_AHEAD + 2])
def test_a_number_from_nowhere_does_not_use_up_the_numbers(asked: PaperFleet, seq: int) -> None:
    asked.say("dev-0", seq=seq, state=UpdateState.ACCEPTED)
    assert asked.rows("SELECT seq FROM device_updates")[0].seq == 1


@pytest.mark.parametrize("seq", [(1 << 53) - 1, MOST_AHEAD + 2])
def test_the_end_of_a_number_from_nowhere_is_settled_all_the_same(asked_either: PaperFleet, seq: int) -> None:
    """A stolen director, or one that was put back, has signed it; its device told the end for ever."""
    asked_either.say("dev-0", seq=seq, **HEALTHY)
    assert seq in _settled(asked_either)
    assert asked_either.rows("SELECT seq FROM device_updates")[0].seq == 1
    newest = asked_either.service.history("dev-0")[0]
    assert (newest.seq, newest.action, newest.state) == (seq, None, MemberState.HEALTHY)
    asked_either.pass_s(1)
    asked_either.service.halt("anna", "r1", "no")
    asked_either.round()
    assert [row.seq for row in asked_either.service.history("dev-0")] == [2, seq, 1], "the newest first"


def test_a_number_from_nowhere_is_passed_over_once_it_is_reached(asked_either: PaperFleet) -> None:
    """A device that speaks of a number too far ahead, and then of the one before it."""
    far = 1 + MOST_AHEAD + 1
    asked_either.say("dev-0", seq=far, **HEALTHY)
    asked_either.say("dev-0", seq=far - 1, state=UpdateState.ACCEPTED)
    asked_either.enrol("dev-1", fate="silent")
    asked_either.service.halt("anna", "r1", "no")
    asked_either.service.cancel("anna", "r1", "no")
    second = asked_either.run(1)
    asked_either.round()
    assert asked_either.states(second) == {"dev-0": "offered", "dev-1": "offered"}
    numbers = asked_either.rows("SELECT seq FROM assignments WHERE device = 'dev-0' ORDER BY seq")
    assert [row.seq for row in numbers] == [1, far, far + 1, far + 2]


def test_one_device_cannot_fill_the_table_with_ends_that_nobody_asked_for(asked_either: PaperFleet) -> None:
    device = asked_either.devices["dev-0"]
    ends = [
        device.report(asked_either.now_ms, seq=seq, **HEALTHY) for seq in range(10, 10 + 2 * MOST_UNKNOWN)
    ]
    asked_either.take([("dev-0", end) for end in ends])
    kept = asked_either.rows("SELECT seq FROM assignments WHERE action = 'unknown'")
    assert len(kept) == len(_settled(asked_either)) == MOST_UNKNOWN
    assert asked_either.states("r1") == {"dev-0": "offered"}


class TwoReleases:
    """A device that runs a first release, and has a second one under way."""

    def __init__(self, fleet: PaperFleet) -> None:
        self.fleet = fleet
        fleet.enrol("dev-0")
        self.shas = [fleet.publish(1), fleet.publish(2)]
        self.first = fleet.run(1)
        fleet.round()
        assert fleet.states(self.first) == {"dev-0": "healthy"}
        fleet.devices["dev-0"].fate = "silent"
        fleet.rounds(15)
        self.second = fleet.run(2)
        fleet.round()
        fleet.say("dev-0", seq=2, state=UpdateState.DOWNLOADING)

    def states(self) -> tuple[str, str]:
        return (self.fleet.states(self.first)["dev-0"], self.fleet.states(self.second)["dev-0"])

    def codes(self) -> list[tuple[int, MemberState, str | None]]:
        return [(one.seq, one.state, one.code) for one in reversed(self.fleet.service.history("dev-0"))]


@pytest.fixture
def two(either: PaperFleet) -> TwoReleases:
    return TwoReleases(either)


def test_what_is_given_up_while_a_later_one_is_under_way_is_reverted(two: TwoReleases) -> None:
    """Its repair was open, so nobody looked at what had been called healthy before it."""
    assert two.states() == ("healthy", "downloading")
    two.fleet.say("dev-0", code=UpdateCode.CRASH_LOOP, text="accepted, it crashed", running=Running())
    assert two.states() == ("reverted", "downloading")
    assert two.codes()[0] == (1, MemberState.REVERTED, "crash-loop")
    two.fleet.say("dev-0", seq=2, state=UpdateState.PROBATION, running=Running(sha256=two.shas[1], counter=2))
    two.fleet.say("dev-0", seq=2, running=Running(sha256=two.shas[1], counter=2), **HEALTHY)
    assert two.states() == ("reverted", "healthy")


def test_a_later_one_on_trial_takes_nothing_from_the_one_before(two: TwoReleases) -> None:
    on_trial, before = (Running(sha256=sha, counter=2) for sha in reversed(two.shas))
    two.fleet.say("dev-0", seq=2, state=UpdateState.PROBATION, running=on_trial)
    assert two.states() == ("healthy", "probation")
    failed = {"state": UpdateState.REVERTED, "code": UpdateCode.PROBATION_NONFINITE, "left": LeftAs.REVERTED}
    two.fleet.say("dev-0", seq=2, terminal=True, running=before, **failed)
    assert two.states() == ("healthy", "reverted")
    two.fleet.say("dev-0", code=UpdateCode.CRASH_LOOP, running=Running())
    assert two.states() == ("reverted", "reverted"), "after it failed as well"
    assert [code for _, _, code in two.codes()] == ["crash-loop", "probation-nonfinite"]


def test_that_something_else_runs_is_seen_in_a_report_about_the_later_one(two: TwoReleases) -> None:
    """The one that says why was lost on the way."""
    waits = {"state": UpdateState.WAITING, "code": UpdateCode.LOCKED, "text": "locked by eve"}
    two.fleet.say("dev-0", seq=2, running=Running(), **waits)
    assert two.states() == ("reverted", "waiting")
    assert [code for _, _, code in two.codes()] == ["rolled-back", "locked"]


def test_a_number_that_somebody_has_taken_already_is_passed_over(asked_either: PaperFleet) -> None:
    with asked_either.store.engine.begin() as connection:
        taken = (
            "INSERT INTO assignments (device, seq, slot, action, state, said, report_no, decided_ms, changed_ms, "
            "due_ms, live, round) VALUES ('dev-0', 2, 'people', 'unknown', 'healthy', '', 1, 1, 1, 0, FALSE, 0)"
        )
        run(connection, taken)
    asked_either.service.halt("anna", "r1", "no")
    numbers = [(row.seq, row.action) for row in asked_either.rows("SELECT seq, action FROM assignments")]
    assert sorted(numbers) == [(1, "install"), (2, "unknown"), (3, "hold")]


def test_a_report_that_names_another_device_is_passed_over(asked: PaperFleet) -> None:
    asked.enrol("dev-1")
    report = asked.devices["dev-0"].report(asked.now_ms, seq=1, **HEALTHY)
    with asked.store.engine.begin() as connection:
        take_reports(connection, "dev-1", [report], asked.now_ms)
    assert asked.states("r1") == {"dev-0": "offered"}


def test_reports_of_many_devices_in_one_batch_are_as_if_they_came_alone(either: PaperFleet) -> None:
    either.publish(1)
    either.enrol(*(f"dev-{number}" for number in range(550)), fate="silent")
    either.run(1, pacing={"max_in_flight": 5000})
    either.round()
    said = [
        (name, device.report(either.now_ms, seq=1, state=UpdateState.ACCEPTED))
        for name, device in either.devices.items()
    ]
    either.take(said)
    assert set(either.states("r1").values()) == {"accepted"}


def _settled(fleet: PaperFleet) -> tuple[int, ...]:
    (row,) = fleet.rows("SELECT body FROM desired_states")
    return tuple(seq for seq, _ in DesiredDraft.decode(bytes(row.body)).settled)
