"""From statements to revisions: ids, states, bounded updates, what is held back, the summary."""

from dataclasses import replace
from itertools import count as counter

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.events.admission import Verdict
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.lifecycle import Lifecycle, Revision
from edge_runtime.events.timeline import Moment
from edge_runtime.protocol import EventState

S = NS_PER_S
START = Moment(0, 0, 0, 0, 0, 0)


class Life:
    """A lifecycle whose clock is moved by the test."""

    def __init__(self, *, cooldown: float = 0, cap: int = 60) -> None:
        numbers = counter(1)
        self.lifecycle = Lifecycle(
            cooldown_ns=round(cooldown * S), max_per_minute=cap, new_id=lambda: f"e{next(numbers)}"
        )

    def say(
        self, at: float, phase: Phase, *, track: int | None = None, count: int | None = None
    ) -> list[tuple[str, int, str]]:
        happening = Happening(
            phase, "x", START, track=track, key="rule" if track is None else track, count=count
        )
        return short(self.lifecycle.take(happening, START, round(at * S)))

    def due(self, at: float) -> list[tuple[str, int, str]]:
        return short(self.lifecycle.due(round(at * S)))


def short(revisions: list[Revision]) -> list[tuple[str, int, str]]:
    return [(revision.id, revision.number, revision.state.value) for revision in revisions]


def test_a_point_is_one_ended_revision() -> None:
    life = Life()
    assert life.say(0, Phase.POINT, track=1) == [("e1", 1, "ended")]
    assert life.say(0, Phase.POINT, track=2) == [("e2", 1, "ended")]
    assert life.due(100) == []


def test_one_that_lasts_keeps_its_id() -> None:
    life = Life()
    assert life.say(0, Phase.OPENED, count=3) == [("e1", 1, "started")]
    assert life.say(2, Phase.UPDATED, count=4) == [("e1", 2, "updated")]
    assert life.say(3, Phase.CLOSED, count=0) == [("e1", 3, "ended")]
    assert life.say(4, Phase.CLOSED, count=0) == []


def test_interruption_is_an_end_of_its_own() -> None:
    life = Life()
    life.say(0, Phase.OPENED, track=7)
    assert life.say(1, Phase.INTERRUPTED, track=7) == [("e1", 2, "interrupted")]


def test_updates_come_once_a_second_and_the_last_number_is_not_lost() -> None:
    life = Life()
    life.say(0, Phase.OPENED, count=3)
    assert life.say(0.2, Phase.UPDATED, count=4) == []
    assert life.say(0.4, Phase.UPDATED, count=5) == []
    assert life.due(0.9) == []
    assert life.due(1.0) == [("e1", 2, "updated")]
    assert life.due(9) == []


def test_a_number_that_came_back_is_no_news() -> None:
    life = Life()
    life.say(0, Phase.OPENED, count=3)
    life.say(0.2, Phase.UPDATED, count=4)
    life.say(0.4, Phase.UPDATED, count=3)
    assert life.due(5) == []


def test_tracks_have_events_of_their_own() -> None:
    life = Life()
    life.say(0, Phase.OPENED, track=1)
    assert life.say(0, Phase.OPENED, track=2) == [("e2", 1, "started")]
    assert life.say(1, Phase.CLOSED, track=1) == [("e1", 2, "ended")]


class TestCooldown:
    def test_points_of_one_cause_are_suppressed_and_counted(self) -> None:
        life = Life(cooldown=10)
        assert life.say(0, Phase.POINT, track=1)
        assert life.say(9.9, Phase.POINT, track=1) == []
        assert life.say(9.9, Phase.POINT, track=2)
        assert life.say(10, Phase.POINT, track=1)
        assert life.lifecycle.suppressed == {Verdict.COOLDOWN: 1, Verdict.RATE: 0}

    def test_it_runs_from_the_end_of_one_that_lasts(self) -> None:
        life = Life(cooldown=10)
        life.say(0, Phase.OPENED)
        life.say(60, Phase.CLOSED)
        assert life.say(65, Phase.OPENED) == []
        assert life.say(66, Phase.CLOSED) == []
        assert life.say(70, Phase.OPENED) == [("e2", 1, "started")]

    def test_what_still_lasts_when_it_is_over_becomes_an_event_then(self) -> None:
        life = Life(cooldown=10)
        life.say(0, Phase.OPENED)
        life.say(1, Phase.CLOSED)
        assert life.say(2, Phase.OPENED, count=3) == []
        assert life.say(3, Phase.UPDATED, count=5) == []
        assert life.due(10.9) == []
        (begun,) = life.lifecycle.due(11 * S)
        assert (begun.id, begun.number, begun.state) == ("e2", 1, EventState.STARTED)
        assert begun.happening.count == 5
        assert life.say(12, Phase.CLOSED, count=0) == [("e2", 2, "ended")]
        assert life.lifecycle.suppressed[Verdict.COOLDOWN] == 1

    def test_an_id_of_a_new_epoch_is_not_quiet(self) -> None:
        life = Life(cooldown=10)
        life.say(0, Phase.POINT, track=1)
        life.lifecycle.new_epoch()
        assert life.say(1, Phase.POINT, track=1)


class TestRateCap:
    def test_one_summary_counts_what_was_refused(self) -> None:
        life = Life(cap=2)
        assert life.say(0, Phase.POINT) == [("e1", 1, "ended")]
        assert life.say(1, Phase.POINT) == [("e2", 1, "ended")]
        assert life.say(2, Phase.POINT) == [("e3", 1, "started")]  # the summary
        assert life.say(3, Phase.POINT) == life.say(4, Phase.POINT) == []
        assert life.due(11.9) == []
        (updated,) = life.lifecycle.due(12 * S)
        assert (updated.id, updated.number, updated.state) == ("e3", 2, EventState.UPDATED)
        assert (updated.happening.kind, updated.happening.count) == ("rate_capped", 3)
        assert life.due(30) == []  # no news
        assert life.due(63.9) == []
        assert life.due(64) == [("e3", 3, "ended")]  # a minute after the last refusal
        assert life.due(99) == []

    def test_a_storm_of_hours_stays_one_summary(self) -> None:
        life, revisions = Life(cap=10), []
        for second in range(3600):
            revisions += life.say(second, Phase.POINT) + life.due(second)
        events = {revision for revision in revisions if revision[2] == "ended"}
        summaries = {revision[0] for revision in revisions if revision[2] == "started"}
        assert len(events) == 600  # ten a minute
        assert len(summaries) == 1
        assert sum(revision[2] == "updated" for revision in revisions) <= 360

    def test_what_still_lasts_when_there_is_room_becomes_an_event_then(self) -> None:
        life = Life(cap=1)
        life.say(0, Phase.OPENED, track=1)
        assert life.say(1, Phase.OPENED, track=2) == [("e2", 1, "started")]  # the summary
        assert life.due(59.9) == []
        assert life.due(60) == [("e3", 1, "started")]
        assert life.say(70, Phase.CLOSED, track=2) == [("e3", 2, "ended")]


@pytest.mark.parametrize("state", [EventState.ENDED, EventState.INTERRUPTED])
def test_closing_gives_each_open_event_its_last_revision_and_the_summary_too(state: EventState) -> None:
    life = Life(cap=1)
    life.say(0, Phase.OPENED, track=1)
    life.say(1, Phase.OPENED, track=2)
    closing = life.lifecycle.close(state, 2 * S)
    assert [(revision.id, revision.number, revision.state) for revision in closing] == [
        ("e1", 2, state),
        ("e2", 2, state),
    ]
    assert life.lifecycle.close(state, 3 * S) == []
    assert life.due(999) == []


def test_subject_is_carried_from_revision_to_revision() -> None:
    life = Life().lifecycle
    opened = Happening(Phase.OPENED, "x", START)
    (first,) = life.take(opened, START, 0)
    first.subject.label = "person"
    (last,) = life.take(replace(opened, phase=Phase.CLOSED), START, S)
    assert last.subject.label == "person"
