"""Nothing in the zone for a time, and the timer that stands still while the camera is not watched."""

import pytest

from edge_runtime.events.happening import Happening, Phase
from tests.rigs.events import Machine, Seen, rule

HERE = Seen(50, 50)


def absence(**fields: object) -> Machine:
    return Machine(rule("absence", **{"seconds": 2, "grace": 0.3, **fields}))


def run(machine: Machine, present: str, *, start: float = 0.0) -> list[Happening]:
    """A frame each 0.1 s; `x` is somebody, `.` nobody."""
    said = []
    for index, mark in enumerate(present):
        said += machine.at(start + index / 10, *((HERE,) if mark == "x" else ()))
    return said


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("." * 20, []),  # 1.9 s
        ("." * 21, [Phase.OPENED]),
        ("." * 19 + "x" + "." * 20, []),
        ("." * 21 + "x" * 3, [Phase.OPENED]),  # 0.2 s back
        ("." * 21 + "x" * 4, [Phase.OPENED, Phase.CLOSED]),
        ("." * 21 + "xx." * 5, [Phase.OPENED]),
        ("x" * 30, []),
        ("." * 21 + "x" * 4 + "." * 20, [Phase.OPENED, Phase.CLOSED]),
        ("." * 21 + "x" * 4 + "." * 21, [Phase.OPENED, Phase.CLOSED, Phase.OPENED]),
    ],
)
def test_timer(present: str, expected: list[Phase]) -> None:
    assert [happening.phase for happening in run(absence(), present)] == expected


def test_it_lasted_until_somebody_was_back() -> None:
    said = run(absence(), "x" * 10 + "." * 30 + "x" * 5)
    assert said[0].since.media_ns == 1_000_000_000
    assert said[1].duration_ns == 3_000_000_000


def test_the_timer_stands_still_while_the_camera_is_not_watched() -> None:
    machine = absence()
    assert run(machine, "." * 15) == []  # 1.4 s
    machine.timeline.pause()
    assert run(machine, "." * 6, start=60) == []  # 1.9 s
    assert [happening.phase for happening in machine.at(60.6)] == [Phase.OPENED]


def test_the_timer_bridges_an_epoch_without_counting_the_gap() -> None:
    machine = absence()
    run(machine, "." * 15)
    assert machine.new_epoch() == []
    assert run(machine, "." * 6, start=60) == []
    assert [happening.phase for happening in machine.at(60.6)] == [Phase.OPENED]


def test_an_open_absence_goes_on_across_an_epoch() -> None:
    machine = absence()
    run(machine, "." * 21)
    assert machine.new_epoch() == []
    assert run(machine, "." * 10, start=60) == []
    assert [happening.phase for happening in run(machine, "x" * 4, start=61)] == [Phase.CLOSED]


def test_a_coasting_track_that_was_seen_is_there() -> None:
    machine = absence(seconds=0.5)
    machine.at(0, HERE)
    said = []
    for index in range(10):
        said += machine.at(0.1 + index / 10, Seen(50, 50, seen=False))
    assert said == []


def test_those_that_do_not_count_are_not_there() -> None:
    machine = absence(min_height=0.3)
    said = []
    for index in range(30):
        said += machine.at(index / 10, Seen(50, 50, height=20))
    assert [happening.phase for happening in said] == [Phase.OPENED]


def test_variable_frame_rate_and_a_long_gap_in_a_recording() -> None:
    """Between two frames of a recording 5 s apart nothing changed: that is what the recording says."""
    machine = absence()
    assert machine.at(0.0) == []
    assert [happening.phase for happening in machine.at(5.0)] == [Phase.OPENED]


def test_stopping_closes_it_and_starts_from_nothing() -> None:
    machine = absence()
    run(machine, "." * 25)
    (closing,) = machine.rule.stop()
    assert (closing.phase, closing.duration_ns) == (Phase.CLOSED, 2_400_000_000)
    assert machine.rule.tally() == {"absent": 0}
    assert run(machine, "." * 20, start=9) == []
