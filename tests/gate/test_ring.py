"""The ring in front of the gate: bounded by bytes and number, severest first, every overflow counted."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.gate.ring import HandOverRing, Waiting
from tests.rigs.events import FakeClock
from tests.rigs.gate import event

EVENT = event(FakeClock())


def item(number: int, size: int = 10) -> Waiting:
    return Waiting(EVENT, size, number)


def numbers(items: Sequence[Waiting]) -> list[int]:
    return [waiting.deadline_ns for waiting in items]


def test_the_severest_leave_first_and_equals_in_order() -> None:
    ring = HandOverRing(1000, 100)
    for number, severity in enumerate([0, 3, 1, 3, 0]):
        assert ring.put(item(number), severity)
    assert ring.fill == (5, 50)
    assert numbers(ring.take(3, 0)) == [1, 3, 2]
    assert numbers(ring.take(9, 0)) == [0, 4]
    assert ring.take(9, 0) == []


def test_a_severer_one_takes_the_place_of_the_oldest_lesser() -> None:
    ring = HandOverRing(30, 100)
    for number in range(3):
        ring.put(item(number), number)
    assert ring.put(item(9), 3)
    assert numbers(ring.take(9, 0)) == [9, 2, 1]
    assert ring.take_overflow() == 1
    assert ring.take_overflow() == 0


def test_among_equals_the_newcomer_is_refused_and_nothing_is_given_up_in_vain() -> None:
    ring = HandOverRing(30, 3)
    for number in range(3):
        ring.put(item(number), 1)
    assert not ring.put(item(3), 1)
    assert not ring.put(item(4, size=31), 3)  # larger than the whole ring: nobody leaves for it
    assert numbers(ring.take(9, 0)) == [0, 1, 2]
    assert ring.take_overflow() == 2


def test_a_closed_ring_takes_nothing_and_gives_what_is_inside() -> None:
    ring = HandOverRing(100, 10)
    ring.put(item(1), 0)
    ring.close()
    assert not ring.put(item(2), 3)
    assert numbers(ring.take(9, 5.0)) == [1]
    assert ring.take(9, 5.0) == []  # at once: nobody will write any more


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.booleans()), max_size=200))
def test_it_stays_within_its_bounds_and_every_event_is_taken_inside_or_counted(
    steps: list[tuple[int, int, bool]],
) -> None:
    ring = HandOverRing(100, 7)
    put = taken = 0
    for severity, size, take in steps:
        ring.put(item(put, size), severity)
        put += 1
        if take:
            taken += len(ring.take(2, 0))
        count, size_inside = ring.fill
        assert count <= 7
        assert size_inside <= 100
    assert put == taken + ring.fill[0] + ring.take_overflow()
