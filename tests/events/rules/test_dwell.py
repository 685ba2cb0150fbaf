"""One track stays in the zone."""

import pytest

from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.rules.base import MAX_TRACKS
from edge_runtime.events.rules.dwell import DwellMachine
from tests.rigs.events import Machine, Seen, rule

PLACES = {
    "i": Seen(20, 50),
    "o": Seen(80, 50),
    "c": Seen(20, 50, seen=False),
    "C": Seen(80, 50, seen=False),
}


def dwell(**fields: object) -> Machine:
    settings = {"polygon": ((0, 0), (0.5, 0), (0.5, 1), (0, 1)), "seconds": 1, "grace": 0.3, **fields}
    return Machine(rule("dwell", **settings))


def run(machine: Machine, path: str, *, start: float = 0.0) -> list[Happening]:
    """A frame each 0.1 s: inside, outside, coasting inside or (C) predicted outside, `.` no such track."""
    said = []
    for index, mark in enumerate(path):
        said += machine.at(start + index / 10, *((PLACES[mark],) if mark != "." else ()))
    return said


OPEN, CLOSE = Phase.OPENED, Phase.CLOSED


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("i" * 10, []),
        ("i" * 11, [OPEN]),
        ("i" * 5 + "oo" + "i" * 4, [OPEN]),  # away for less than the grace
        ("i" * 5 + "oooo" + "i" * 10, []),  # away for the grace: it begins again
        ("i" * 5 + "oooo" + "i" * 11, [OPEN]),
        ("i" * 11 + "oo" + "i" * 3, [OPEN]),
        ("i" * 11 + "ooo", [OPEN, CLOSE]),
        ("i" * 11 + "...", [OPEN, CLOSE]),  # the track is gone
        ("i" * 11 + "cccccc", [OPEN]),  # the tracker still believes in it
        ("i" * 11 + "CCCCCC", [OPEN]),  # wherever it predicts it
        ("i" * 11 + "ocCc", [OPEN, CLOSE]),  # last seen outside: coasting does not bring it back
        ("i" * 8 + "ccc", []),  # a detection must complete it
        ("i" * 8 + "ccci", [OPEN]),
        ("c" * 20, []),
        ("o" * 20, []),
    ],
)
def test_stays(path: str, expected: list[Phase]) -> None:
    assert [happening.phase for happening in run(dwell(), path)] == expected


def test_it_begins_when_the_track_came_and_ends_when_it_was_last_there() -> None:
    opened, closed = run(dwell(), "ooo" + "i" * 16 + "ooooo")
    assert opened.since.media_ns == closed.since.media_ns == 300_000_000
    assert (opened.duration_ns, closed.duration_ns) == (1_000_000_000, 1_500_000_000)
    assert (opened.track, closed.track, opened.key) == (1, 1, 1)


def test_each_track_has_its_own_time() -> None:
    machine = dwell()
    said = []
    for index in range(20):
        late = (Seen(30, 50, track=2),) if index >= 5 else ()
        said += machine.at(index / 10, Seen(20, 50, track=1), *late)
    assert [(h.track, h.phase) for h in said] == [(1, OPEN), (2, OPEN)]
    assert machine.rule.tally() == {"dwelling": 2}


def test_measured_time_at_a_changing_frame_rate() -> None:
    machine = dwell()
    at = [0, 0.01, 0.02, 0.3, 0.31, 0.9]
    assert [said for second in at for said in machine.at(second, PLACES["i"])] == []
    assert [said.phase for said in machine.at(1.0, PLACES["i"])] == [OPEN]


def test_an_epoch_interrupts_what_was_reported_and_forgets_the_rest() -> None:
    machine = dwell()
    run(machine, "i" * 12)
    (interrupted,) = machine.new_epoch()
    assert (interrupted.phase, interrupted.track) == (Phase.INTERRUPTED, 1)
    assert machine.new_epoch() == []
    assert run(machine, "i" * 10, start=50) == []


def test_while_nobody_watches_neither_the_stay_nor_the_grace_runs() -> None:
    machine = dwell()
    run(machine, "i" * 12)
    machine.timeline.pause()
    assert run(machine, "." * 3, start=30) == []  # 0.2 s of the grace
    assert [said.phase for said in machine.at(30.3)] == [CLOSE]


def test_stopping_closes_reported_stays() -> None:
    machine = dwell()
    run(machine, "i" * 12)
    assert [said.phase for said in machine.rule.stop()] == [CLOSE]
    assert machine.rule.stop() == []


def test_a_very_long_grace_does_not_fill_the_memory() -> None:
    machine = dwell(grace=1e6)
    for index in range(MAX_TRACKS // 100 + 4):
        machine.at(index / 1000, *(Seen(20, 50, track=1 + index * 100 + row) for row in range(100)))
    assert isinstance(machine.rule, DwellMachine)
    assert len(machine.rule._stays) <= MAX_TRACKS
