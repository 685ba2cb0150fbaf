"""How far two models agree about one frame."""

import numpy as np
import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.node.hot_swap.agreement import Objects, agreed
from edge_runtime.node.hot_swap.shadow_count import ShadowCount
from edge_runtime.node.hot_swap.trial_records import Saw
from edge_runtime.perception.detections import Detections
from tests.rigs.events import FakeClock

Row = tuple[str, float, float, float, float]
A, B = (0.0, 0.0, 10.0, 10.0), (100.0, 100.0, 110.0, 110.0)
HALF_OF_A = (0.0, 0.0, 10.0, 5.0)
LESS_OF_A = (0.0, 0.0, 10.0, 4.9)


def objects(*rows: Row) -> Objects:
    return Objects(np.array([row[1:] for row in rows], np.float32).reshape(-1, 4), tuple(r[0] for r in rows))


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        ([], [], 0),
        ([("person", *A)], [], 0),
        ([("person", *A)], [("person", *A)], 1),
        ([("person", *A)], [("car", *A)], 0),
        ([("person", *A)], [("person", *B)], 0),
        ([("person", *A)], [("person", *HALF_OF_A)], 1),
        ([("person", *A)], [("person", *LESS_OF_A)], 0),
        ([("person", *A)], [("person", *A), ("person", *A)], 1),
        ([("person", *A), ("car", *A)], [("car", *A), ("person", *A)], 2),
        ([("person", *A), ("person", *B)], [("person", *B), ("person", *A)], 2),
    ],
)
def test_pairs(first: list[Row], second: list[Row], pairs: int) -> None:
    assert agreed(objects(*first), objects(*second)) == pairs
    assert agreed(objects(*second), objects(*first)) == pairs


def test_an_object_goes_to_the_closest_one() -> None:
    first = objects(("person", *A), ("person", 0, 0, 10, 6))
    second = objects(("person", 0, 0, 10, 6), ("person", *A))
    assert agreed(first, second) == 2


def test_only_what_a_model_counts_is_an_object() -> None:
    seen = Detections(
        np.array([A, B], np.float32), np.array([0.3, 0.29], np.float32), np.array([1, 0], np.int64)
    )
    found = Objects.of(seen, ("person", "car"), 0.3)
    assert found.labels == ("car",)
    assert found.xyxy.tolist() == [list(A)]


def saw(*labels: int, nonfinite: bool = False, unanswered: bool = False, ms: float | None = 2.0) -> Saw:
    return Saw(xyxy=(A,) * len(labels), labels=labels, nonfinite=nonfinite, unanswered=unanswered, ms=ms)


def test_what_is_counted_of_frames_that_both_have_seen() -> None:
    clock = FakeClock()
    count = ShadowCount(clock)
    count.turn(on=True)
    clock.pass_s(3)
    count.add(objects(("person", *A)), saw(0), ("person", "car"))
    count.add(objects(("person", *A)), saw(1, ms=4.0), ("person", "car"))
    count.add(objects(), saw(ms=6.0), ("person", "car"))
    count.turn(on=False)
    clock.pass_s(100)
    found = count.figures(1.5)
    assert not found.on
    assert found.seconds == 3
    assert (found.frames, found.running_objects, found.candidate_objects) == (3, 2, 2)
    assert (found.found, found.confirmed) == (1, 1)
    assert (found.running_ms, found.candidate_ms) == (1.5, 4.0)
    assert found.agreement == 0.5


def test_a_frame_without_an_answer_is_not_one_without_objects() -> None:
    count = ShadowCount(FakeClock())
    count.add(objects(("person", *A)), saw(nonfinite=True, unanswered=True), ("person",))
    count.add(objects(("person", *A)), Saw(unanswered=True), ("person",))
    count.add(objects(("person", *A)), saw(0, nonfinite=True), ("person",))
    found = count.figures(None)
    assert (found.frames, found.unanswered, found.nonfinite) == (1, 2, 2)
    assert found.agreement == 1.0
    assert found.candidate_ms == 2.0


def test_time_adds_up_over_pauses() -> None:
    clock = FakeClock()
    count = ShadowCount(clock)
    for _ in range(3):
        count.turn(on=True)
        count.turn(on=True)
        clock.pass_s(2)
        count.turn(on=False)
        count.turn(on=False)
        clock.pass_s(5)
    count.turn(on=True)
    clock.pass_s(1)
    found = count.figures(None)
    assert found.on
    assert found.seconds == pytest.approx(7)
    assert clock.now_ns > 7 * NS_PER_S
