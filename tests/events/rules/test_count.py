"""Different tracks within a window."""

import pytest

from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules import count as module
from tests.rigs.events import Machine, Seen, rule


def count(**fields: object) -> Machine:
    return Machine(rule("count", **{"at_least": 3, "window": 10, **fields}))


def phases(said: list[Happening]) -> list[tuple[Phase, int | None]]:
    return [(happening.phase, happening.count) for happening in said]


def passing(machine: Machine, track: int, at: float) -> list[Happening]:
    return machine.at(at, Seen(50, 50, track=track))


def test_one_track_is_one_however_long_it_stays() -> None:
    machine = count()
    assert [passing(machine, 1, index / 10) for index in range(50)] == [[]] * 50
    assert machine.rule.tally() == {"distinct": 1}


def test_it_opens_with_the_third_and_closes_when_the_window_has_passed() -> None:
    machine = count()
    assert passing(machine, 1, 0) == passing(machine, 2, 4) == []
    assert phases(passing(machine, 3, 8)) == [(Phase.OPENED, 3)]
    assert phases(passing(machine, 4, 9)) == [(Phase.UPDATED, 4)]
    assert phases(machine.at(10)) == []  # the first was seen just 10 s ago
    assert phases(machine.at(10.1)) == [(Phase.UPDATED, 3)]
    (closed,) = machine.at(14.1)
    assert (closed.phase, closed.count, closed.duration_ns) == (Phase.CLOSED, 2, 6_100_000_000)


def test_being_seen_again_renews_a_place_in_the_window() -> None:
    machine = count(at_least=2)
    passing(machine, 1, 0)
    passing(machine, 1, 9)
    assert phases(passing(machine, 2, 18)) == [(Phase.OPENED, 2)]


def test_one_that_stays_does_not_keep_others_in_the_window() -> None:
    machine = count()
    passing(machine, 1, 0)
    passing(machine, 2, 1)
    passing(machine, 1, 9)
    machine.at(11.5)
    assert machine.rule.tally() == {"distinct": 1}


def test_only_detections_inside_count() -> None:
    machine = count(at_least=1, polygon=((0, 0), (0.5, 0), (0.5, 1), (0, 1)))
    assert machine.at(0, Seen(80, 50)) == []
    assert machine.at(0.1, Seen(20, 50, seen=False)) == []
    assert phases(machine.at(0.2, Seen(20, 50))) == [(Phase.OPENED, 1)]


def test_an_epoch_interrupts_it_for_ids_start_again() -> None:
    machine = count(at_least=1)
    passing(machine, 1, 0)
    assert phases(machine.new_epoch()) == [(Phase.INTERRUPTED, 1)]
    assert machine.rule.tally() == {"distinct": 0}
    assert machine.new_epoch() == []


def test_stopping_closes_it() -> None:
    machine = count(at_least=1)
    passing(machine, 1, 0)
    assert phases(machine.rule.stop()) == [(Phase.CLOSED, 1)]
    assert machine.rule.stop() == []


def test_a_year_long_window_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COUNTED", 500)
    machine = count(at_least=400, window=31_536_000)
    for index in range(20):
        machine.at(index, *(Seen(50, 50, track=1 + index * 100 + row) for row in range(100)))
    assert machine.rule.tally() == {"distinct": 500}
