"""Models change places in a running lane: no frame is lost or looked at twice, and the old model can be freed."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.perception.pipeline import Evaluated, LaneSource
from edge_runtime.perception.pipeline.recent import Recent
from tests.perception.pipeline.test_loop import Run, recording, sequences
from tests.rigs import pipeline as rig

FRAMES = 60


def model(
    seconds: float = 0.001, *, in_flight: int | None = None, capacity: int = 1
) -> tuple[rig.Accelerator, Any]:
    accelerator = rig.Accelerator(in_flight=in_flight, duration_s=lambda run: seconds)
    return accelerator, rig.SimulatedModel(accelerator, capacity=capacity)


class Exchanges:
    """Does something at the n-th outcome, on the evaluator's thread, as a swap's thread may at any moment."""

    def __init__(self, run: Run, at: dict[int, Callable[[], None]]) -> None:
        self._take, self._at, self._seen = run.consumer.take, at, 0
        run.consumer.take = self  # type: ignore[method-assign]

    def __call__(self, outcome: Any) -> None:
        self._seen += 1
        self._at.get(self._seen, lambda: None)()
        self._take(outcome)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("sources", [1, 3])
def test_every_frame_is_looked_at_once_by_the_old_model_or_the_new_one(workers: int, sources: int) -> None:
    old, first = model(0.002, capacity=2)
    new, second = model(0.001, capacity=4)
    cameras = [f"c{i}" for i in range(sources)]
    run = Run(
        first, [LaneSource(recording(name, FRAMES), None) for name in cameras], workers=workers, batch=4
    )
    announced: list[int] = []
    Exchanges(
        run,
        {
            15: lambda: run.lane.exchange((second,), announced.append),
            30: lambda: run.lane.exchange((first,), announced.append),
            45: lambda: run.lane.exchange((second,), announced.append),
        },
    )
    outcomes = run.go()
    for name in cameras:
        assert sequences(outcomes, name) == list(range(FRAMES))
    assert all(isinstance(o, Evaluated) and o.detections.label[0] == o.frame.sequence for o in outcomes)
    assert announced == [1, 2, 3]
    assert {o.lineup for o in outcomes} == {0, 1, 2, 3}
    for name in cameras:
        lineups = [o.lineup for o in outcomes if o.frame.source == name]
        assert lineups == sorted(lineups), "a new model's frame never comes before an old one's"
    by_model = [sum(o.lineup % 2 == odd for o in outcomes) for odd in (0, 1)]
    assert by_model == [sum(old.batches), sum(new.batches)]
    assert max(old.batches) <= 2


def test_the_next_batch_after_an_exchange_is_for_the_new_model() -> None:
    _, first = model()
    _, second = model()
    supply = rig.Supply("a")
    run = Run(first, [LaneSource(supply, None)])
    thread = threading.Thread(target=run.go)
    thread.start()
    try:
        for sequence in range(6):
            if sequence == 3:
                run.lane.exchange((second,), lambda lineup: None)
            supply.put(rig.make_frame("a", sequence))
            until(lambda wanted=sequence: len(run.consumer.outcomes) > wanted)  # type: ignore[misc]
    finally:
        supply.end()
        thread.join(10)
    assert [o.lineup for o in run.consumer.outcomes] == [0, 0, 0, 1, 1, 1]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_model_is_let_go_only_when_no_frame_needs_it() -> None:
    release = threading.Event()
    old = rig.Accelerator()

    def held(run: int) -> None:
        release.wait(10)

    old.fault = held
    first: Any = rig.SimulatedModel(old)
    _, second = model()
    supply = rig.Supply("a")
    run = Run(first, [LaneSource(supply, None)])
    thread = threading.Thread(target=run.go)
    thread.start()
    try:
        supply.put(rig.make_frame("a", 0))
        until(lambda: old.running == 1)
        assert not run.lane.let_go(first), "it looks"
        run.lane.exchange((second,), lambda lineup: None)
        assert not run.lane.let_go(first), "a frame is still in it"
        assert not run.lane.let_go(second), "it is in use"
        release.set()
        until(lambda: run.lane.let_go(first))
        supply.put(rig.make_frame("a", 1))
        until(lambda: len(run.consumer.outcomes) == 2)
    finally:
        release.set()
        supply.end()
        thread.join(10)
    assert [o.lineup for o in run.consumer.outcomes] == [0, 1]
    assert old.runs == 1


def test_a_model_that_was_let_go_leaves_no_input_behind() -> None:
    run = Run(model()[1], [LaneSource(recording("a", 40), None)], workers=2)
    made = 0
    freed: list[int] = []

    def exchange() -> None:
        nonlocal made
        before = run.lane.models[0]
        made += 1
        run.lane.exchange((model()[1],), lambda lineup: None)
        freed.append(made) if run.lane.let_go(before) else left.append(before)

    left: list[Any] = []
    Exchanges(run, dict.fromkeys(range(2, 38), exchange))
    run.go()
    for waiting in left:
        assert run.lane.let_go(waiting)
    rooms = [len(batch._rooms) for batch in run.lane._batches]
    assert rooms == [1, 1, 1], "only the model in use has inputs"


def test_a_smaller_model_stays_when_the_one_it_stands_in_for_is_exchanged() -> None:
    _, first = model()
    small, smaller = model()
    _, second = model()
    run = Run(first, [LaneSource(recording("a", 40), None)], variants=(smaller,))

    def swap() -> None:
        run.lane.exchange((second, smaller), lambda lineup: None)

    def hot() -> None:
        run.lane.variant = 1

    Exchanges(run, {10: swap, 20: hot})
    outcomes = run.go()
    assert sequences(outcomes, "a") == list(range(40))
    assert (outcomes[0].lineup, outcomes[0].variant) == (0, 0)
    assert (outcomes[-1].lineup, outcomes[-1].variant) == (1, 1)
    assert small.runs == sum(o.variant for o in outcomes)


def test_a_new_model_that_allows_fewer_runs_at_once_gets_no_more() -> None:
    _, first = model(0.002)
    new, second = model(0.003, in_flight=1)
    run = Run(first, [LaneSource(recording("a", 40), None)], workers=3)
    Exchanges(run, {10: lambda: run.lane.exchange((second,), lambda lineup: None)})
    assert sequences(run.go(), "a") == list(range(40))
    assert new.runs > 10
    assert new.most_in_flight == 1


def test_the_new_model_is_paced_by_what_the_old_one_took_until_its_own_time_is_known() -> None:
    _, first = model(0.01)
    _, second = model(0.01)
    run = Run(first, [LaneSource(recording("a", 10), None)])
    run.go()
    run.lane.exchange((second,), lambda lineup: None)
    known = run.lane._models.lineup.models[0].durations.estimate_ns(1)
    assert known >= 10_000_000


def test_times_of_the_last_minute_only() -> None:
    recent = Recent(60 * NS_PER_S)
    assert recent.times(0) == recent.times(10**12)
    assert recent.times(0).p50_ms is None
    for second in range(120):
        recent.add(second * NS_PER_S, (10 if second < 60 else 20) * 1_000_000)
    times = recent.times(119 * NS_PER_S)
    assert times.inferences == 61
    assert times.p50_ms == 20
    assert recent.times(10**12).inferences == 0


def test_few_slow_runs_show_in_the_high_percentile_and_not_in_the_median() -> None:
    recent = Recent(60 * NS_PER_S)
    for index in range(100):
        recent.add(index, 1_000_000 if index % 10 else 50_000_000)
    times = recent.times(100)
    assert times.p50_ms == 1
    assert times.p95_ms == pytest.approx(50)
