"""How many are in a zone: hysteresis in number and time."""

import pytest

from edge_runtime.events.happening import Happening, Phase
from tests.rigs.events import Machine, Seen, rule

S = 1_000_000_000


def crowd(count: int, *, seen: bool = True) -> list[Seen]:
    return [Seen(10 + 4 * index, 50, track=index + 1, seen=seen) for index in range(count)]


def run(machine: Machine, counts: list[int], *, start: float = 0.0, step: float = 0.1) -> list[Happening]:
    said = []
    for index, count in enumerate(counts):
        said += machine.at(start + index * step, *crowd(count))
    return said


def phases(said: list[Happening]) -> list[tuple[Phase, int | None]]:
    return [(happening.phase, happening.count) for happening in said]


def occupancy(**fields: object) -> Machine:
    return Machine(rule("occupancy", **{"at_least": 3, "clear_at": 1, "hold": 0.5, **fields}))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([3] * 5, []),  # 0.4 s
        ([3] * 6, [(Phase.OPENED, 3)]),  # 0.5 s
        ([3] * 5 + [2] + [3] * 5, []),  # the hold begins again
        ([3] * 6 + [2] * 20, [(Phase.OPENED, 3), (Phase.UPDATED, 2)]),  # between the two limits
        ([3] * 6 + [1] * 5, [(Phase.OPENED, 3), (Phase.UPDATED, 1)]),
        ([3] * 6 + [1] * 6, [(Phase.OPENED, 3), (Phase.UPDATED, 1), (Phase.CLOSED, 1)]),
        ([3] * 6 + [4, 5], [(Phase.OPENED, 3), (Phase.UPDATED, 4), (Phase.UPDATED, 5)]),
    ],
)
def test_hysteresis(counts: list[int], expected: list[tuple[Phase, int]]) -> None:
    assert phases(run(occupancy(), counts)) == expected


def test_without_hold_it_follows_at_once() -> None:
    said = run(occupancy(at_least=1, clear_at=0, hold=0), [0, 1, 0])
    assert phases(said) == [(Phase.OPENED, 1), (Phase.CLOSED, 0)]


def test_it_lasted_from_when_it_was_full_until_it_was_clear_the_hold_apart() -> None:
    said = run(occupancy(), [0] * 3 + [3] * 20 + [0] * 8)
    assert said[0].since.media_ns == 300_000_000
    assert (said[-1].phase, said[-1].duration_ns) == (Phase.CLOSED, 2_000_000_000)


def test_coasting_keeps_a_place_and_takes_none() -> None:
    machine = occupancy(at_least=2, hold=0)
    assert machine.at(0, *crowd(3, seen=False)) == []
    assert machine.rule.tally() == {"occupants": 0}
    machine.at(0.1, *crowd(2))
    machine.at(0.2, *crowd(2, seen=False))
    assert machine.rule.tally() == {"occupants": 2}


def test_it_goes_on_across_an_epoch_when_the_zone_is_as_full_as_before() -> None:
    machine = occupancy()
    run(machine, [3] * 6)
    assert machine.new_epoch() == []
    # the tracker confirms the same people again after two frames, within the hold
    assert phases(run(machine, [0, 0, 3, 3, 3, 3, 3, 3, 3], start=30)) == [
        (Phase.UPDATED, 0),
        (Phase.UPDATED, 3),
    ]


def test_it_ends_after_an_epoch_when_they_are_gone() -> None:
    machine = occupancy()
    run(machine, [3] * 6)
    machine.new_epoch()
    assert run(machine, [0] * 9, start=30)[-1].phase is Phase.CLOSED


def test_stopping_closes_it_once_and_forgets() -> None:
    machine = occupancy()
    run(machine, [3] * 16)
    (closing,) = machine.rule.stop()
    assert (closing.phase, closing.count, closing.duration_ns) == (Phase.CLOSED, 3, 1_500_000_000)
    assert machine.rule.stop() == []
    assert run(machine, [3] * 5, start=5) == []
    assert phases(run(machine, [3] * 6, start=6)) == [(Phase.OPENED, 3)]
