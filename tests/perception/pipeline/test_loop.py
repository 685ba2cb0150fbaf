"""The loop keeps order, keeps frames fresh, and turns every failure into a value."""

import threading
import time
from typing import Any

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.errors import BackendError, DecodeError, EdgeRuntimeError
from edge_runtime.perception.pipeline import (
    Evaluated,
    Lane,
    LaneSource,
    NotEvaluated,
    Pipeline,
    StageTimes,
    Unseen,
)
from edge_runtime.perception.pipeline.lane import infer_limit_ns
from tests.rigs import pipeline as rig

MS = 1_000_000


class Run:
    """One lane on one simulated model, run to its end."""

    def __init__(
        self,
        model: Any,
        sources: list[LaneSource],
        *,
        workers: int = 1,
        batch: int = 1,
        variants: tuple[Any, ...] = (),
    ) -> None:
        self.consumer = rig.Recorder()
        self.times = StageTimes()
        clock = SystemClock()
        self.pipeline = Pipeline(self.consumer, times=self.times, clock=clock, depth=4)
        self.lane = Lane(
            "m",
            model,
            sources,
            workers=workers,
            batch=batch,
            timeout_s=0.2,
            deliver=self.pipeline.deliver,
            times=self.times,
            clock=clock,
            variants=variants,
        )

    def go(self) -> list[Any]:
        self.pipeline.run([self.lane])
        assert self.lane.join(5)
        return self.consumer.outcomes


def recording(name: str, count: int) -> Any:
    supply = rig.Supply(name)
    supply.put(*(rig.make_frame(name, i) for i in range(count)))
    supply.end()
    return supply


def sequences(outcomes: list[Any], source: str) -> list[int]:
    return [o.frame.sequence for o in outcomes if o.frame.source == source]


def test_every_frame_of_a_recording_comes_out_once_and_in_order() -> None:
    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(recording("a", 50), None)])
    outcomes = run.go()
    assert sequences(outcomes, "a") == list(range(50))
    assert all(isinstance(o, Evaluated) and o.detections.label[0] == o.frame.sequence for o in outcomes)
    assert set(run.times.summary()) >= {"preprocess", "infer", "postprocess", "age"}


def test_parallel_runs_finish_out_of_order_and_leave_in_order() -> None:
    accelerator = rig.Accelerator(duration_s=lambda run: 0.02 if run % 3 == 0 else 0.002)
    run = Run(rig.SimulatedModel(accelerator), [LaneSource(recording("a", 30), None)], workers=3)
    assert sequences(run.go(), "a") == list(range(30))
    assert accelerator.most_in_flight == 3


def test_a_backend_that_allows_one_run_at_a_time_gets_no_more() -> None:
    accelerator = rig.Accelerator(in_flight=1, duration_s=lambda run: 0.002)
    run = Run(rig.SimulatedModel(accelerator), [LaneSource(recording("a", 10), None)], workers=4)
    run.go()
    assert run.lane.workers == 1
    assert accelerator.most_in_flight == 1


def test_cameras_batch_where_the_model_allows() -> None:
    accelerator = rig.Accelerator(duration_s=lambda run: 0.003)
    supplies = [recording(f"c{i}", 12) for i in range(4)]
    run = Run(rig.SimulatedModel(accelerator, capacity=4), [LaneSource(s, None) for s in supplies], batch=4)
    outcomes = run.go()
    for supply in supplies:
        assert sequences(outcomes, supply.name) == list(range(12))
    assert max(accelerator.batches) == 4
    assert run.lane.batch_sizes[4] >= 10


def test_the_package_limits_the_batch() -> None:
    accelerator = rig.Accelerator()
    run = Run(
        rig.SimulatedModel(accelerator, capacity=1),
        [LaneSource(recording("a", 5), None), LaneSource(recording("b", 5), None)],
        batch=8,
    )
    run.go()
    assert set(accelerator.batches) == {1}


def test_a_limit_takes_exactly_that_many_frames() -> None:
    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(recording("a", 50), None, limit=7)])
    assert sequences(run.go(), "a") == list(range(7))


def test_timeout_and_error_are_values_and_the_lane_goes_on() -> None:
    accelerator = rig.Accelerator(duration_s=lambda run: 5.0 if run == 1 else 0.0)
    accelerator.fault = lambda run: BackendError("out of memory") if run == 3 else None
    run = Run(rig.SimulatedModel(accelerator), [LaneSource(recording("a", 6), None)])
    outcomes = run.go()
    assert [type(o) for o in outcomes] == [
        Evaluated, NotEvaluated, Evaluated, NotEvaluated, Evaluated, Evaluated,
    ]  # fmt: skip
    assert outcomes[1].reason is Unseen.TIMEOUT
    assert outcomes[3].reason is Unseen.ERROR
    assert outcomes[3].text == "out of memory"


def test_output_that_does_not_decode_is_a_value() -> None:
    def refuse(*_: Any) -> Any:
        raise DecodeError("outputs have 3 tensors, the manifest says 1")

    model = rig.SimulatedModel(rig.Accelerator(), postprocessor=refuse)
    (outcome,) = Run(model, [LaneSource(recording("a", 1), None)]).go()
    assert outcome.reason is Unseen.LAYOUT
    assert "3 tensors" in outcome.text


def test_only_nonfinite_output_is_not_an_empty_scene_and_becomes_a_fault() -> None:
    supply = rig.Supply("a")
    supply.put(*(rig.make_frame("a", 255 + 256 * i) for i in range(6)), rig.make_frame("a", 1))
    supply.end()
    outcomes = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(supply, None)]).go()
    assert [getattr(o, "reason", None) for o in outcomes] == [
        *[Unseen.NONFINITE] * 4,
        *[Unseen.MODEL_FAULT] * 2,
        None,
    ]
    assert "6 times in a row" in outcomes[5].text
    assert "model check" in outcomes[5].text


def test_dark_frames_are_reported_in_order_without_asking_the_model() -> None:
    accelerator = rig.Accelerator(duration_s=lambda run: 0.002)
    supply = rig.Supply("a")
    supply.put(*(rig.make_frame("a", i, dark=i in (2, 3)) for i in range(6)))
    supply.end()
    outcomes = Run(rig.SimulatedModel(accelerator), [LaneSource(supply, None)]).go()
    assert sequences(outcomes, "a") == list(range(6))
    assert [isinstance(o, NotEvaluated) for o in outcomes] == [False, False, True, True, False, False]
    assert outcomes[2].reason is Unseen.DARK
    assert accelerator.runs == 4


def test_a_frame_too_old_for_its_limit_is_dropped_and_counted() -> None:
    supply = rig.Supply("a")
    stale = SystemClock().monotonic_ns() - 10_000 * MS
    supply.put(rig.make_frame("a", 0, capture_ns=stale), rig.make_frame("a", 1))
    supply.end()
    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(supply, 5_000 * MS)])
    assert sequences(run.go(), "a") == [1]
    assert run.lane.drops["a", "too_old"] == 1


def test_a_camera_faster_than_the_model_is_evaluated_fresh() -> None:
    supply = rig.Supply("a", live=True)
    run = Run(
        rig.SimulatedModel(rig.Accelerator(duration_s=lambda run: 0.03)), [LaneSource(supply, 500 * MS)]
    )

    def film() -> None:
        for i in range(90):
            supply.put(rig.make_frame("a", i))
            time.sleep(0.01)
        supply.end()

    camera = threading.Thread(target=film)
    camera.start()
    outcomes = run.go()
    camera.join()
    assert supply.superseded > 30
    assert len(outcomes) > 10
    assert sequences(outcomes, "a") == sorted(sequences(outcomes, "a"))
    ages = sorted(
        taken - o.frame.capture_ns for taken, o in zip(run.consumer.taken_ns, outcomes, strict=True)
    )
    # One period (10 ms) and the model (30 ms); a queue instead of a mailbox would reach hundreds of ms.
    assert ages[len(ages) // 2] < 90 * MS


def test_one_dead_camera_does_not_take_the_turns_of_the_others() -> None:
    dead = rig.Supply("dead", live=True)
    alive = [recording(f"c{i}", 20) for i in range(3)]
    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(s, None) for s in [*alive, dead]])
    threading.Timer(0.5, dead.end).start()
    outcomes = run.go()
    assert len(outcomes) == 60
    assert sequences(outcomes, "dead") == []


@pytest.mark.parametrize("when", [0.0, 0.05])
def test_stop_ends_the_loop_and_evaluates_what_was_in_flight(when: float) -> None:
    supply = rig.Supply("a")
    supply.put(*(rig.make_frame("a", i) for i in range(10_000)))
    accelerator = rig.Accelerator(duration_s=lambda run: 0.005)
    run = Run(rig.SimulatedModel(accelerator), [LaneSource(supply, None)])
    threading.Timer(when, run.pipeline.request_stop).start()
    outcomes = run.go()
    assert len(outcomes) < 200
    assert sequences(outcomes, "a") == list(range(len(outcomes)))


def test_a_slow_consumer_holds_the_lane_back_instead_of_piling_results_up() -> None:
    accelerator = rig.Accelerator()
    run = Run(rig.SimulatedModel(accelerator), [LaneSource(recording("a", 40), None)])
    run.consumer.delay_s = 0.005
    threading.Timer(0.1, run.pipeline.request_stop).start()
    outcomes = run.go()
    assert accelerator.runs - len(outcomes) <= 8


def test_a_defect_in_a_lane_reaches_the_owner() -> None:
    accelerator = rig.Accelerator()
    accelerator.fault = lambda run: ZeroDivisionError("defect") if run == 2 else None
    run = Run(rig.SimulatedModel(accelerator), [LaneSource(recording("a", 10), None)])
    with pytest.raises(ZeroDivisionError, match="defect"):
        run.go()
    assert len(run.consumer.outcomes) == 2


def test_a_defect_in_the_consumer_leaves_no_lane_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(recording("a", 200), None)], workers=2)

    def break_down(outcome: Any) -> None:
        time.sleep(0.1)  # long enough for the queue to fill
        raise ZeroDivisionError("a rule is defect")

    monkeypatch.setattr(run.consumer, "take", break_down)
    with pytest.raises(ZeroDivisionError):
        run.pipeline.run([run.lane])
    assert run.lane.join(5)


def test_the_consumer_hears_the_time_while_nothing_arrives() -> None:
    silent = rig.Supply("a", live=True)
    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(silent, 500 * MS)])
    threading.Timer(0.5, silent.end).start()
    assert run.go() == []
    assert run.consumer.ticks >= 3


def test_what_the_threads_are_at_is_seen_while_they_are_at_it() -> None:
    going, seen = threading.Event(), threading.Event()

    def wait(run: int) -> float:
        going.set()
        assert seen.wait(5)
        return 0.0

    run = Run(rig.SimulatedModel(rig.Accelerator(duration_s=wait)), [LaneSource(recording("a", 1), None)])
    found: list[Any] = []

    def look() -> None:
        assert going.wait(5)
        found.extend(run.lane.under_way())
        seen.set()

    looker = threading.Thread(target=look)
    looker.start()
    (outcome,) = run.go()
    looker.join()
    (unit,) = found
    assert unit.thread == "m-infer-0"
    assert unit.captured == (("a", outcome.frame.capture_ns),)
    assert unit.due_ns - unit.since_ns == 300 * MS  # the time limit of 200 and half of it again
    assert run.lane.under_way() == []


@pytest.mark.parametrize(
    ("timeout_s", "limit_ms"), [(0.01, 110), (0.2, 300), (1.0, 1500), (10.0, 11_000), (600.0, 601_000)]
)
def test_how_long_an_inference_may_take(timeout_s: float, limit_ms: int) -> None:
    assert infer_limit_ns(timeout_s) == limit_ms * MS


def test_a_share_of_the_frames_of_a_live_camera_and_all_of_a_recording() -> None:
    live, stored = rig.Supply("live"), recording("stored", 40)
    now = SystemClock().monotonic_ns()
    live.put(*(rig.make_frame("live", i, capture_ns=now + i * 10 * MS) for i in range(40)))
    live.end()
    run = Run(
        rig.SimulatedModel(rig.Accelerator()), [LaneSource(live, 60_000 * MS), LaneSource(stored, None)]
    )
    run.lane.frame_share = 0.25
    outcomes = run.go()
    assert len(sequences(outcomes, "stored")) == 40
    kept = sequences(outcomes, "live")
    assert len(kept) + run.lane.drops["live", "thermal"] == 40
    assert 9 <= len(kept) <= 11


@pytest.mark.parametrize("workers", [1, 3])
def test_a_smaller_model_takes_over_between_batches_and_no_frame_is_lost(workers: int) -> None:
    large = rig.Accelerator(duration_s=lambda run: 0.002)
    small = rig.Accelerator(duration_s=lambda run: 0.001)
    run = Run(
        rig.SimulatedModel(large, capacity=4),
        [LaneSource(recording(f"c{i}", 40), None) for i in range(4)],
        workers=workers,
        batch=4,
        variants=(rig.SimulatedModel(small, capacity=2),),
    )
    take, seen = run.consumer.take, 0

    def switch(outcome: Any) -> None:
        nonlocal seen
        seen += 1
        run.lane.variant = seen // 20 % 2 * 7  # 7 is beyond the last one, which stays
        take(outcome)

    run.consumer.take = switch  # type: ignore[method-assign]
    outcomes = run.go()
    for i in range(4):
        assert sequences(outcomes, f"c{i}") == list(range(40))
    assert all(isinstance(o, Evaluated) and o.detections.label[0] == o.frame.sequence for o in outcomes)
    by_variant = [sum(o.variant == variant for o in outcomes) for variant in (0, 1)]
    assert by_variant == [sum(large.batches), sum(small.batches)]
    assert min(by_variant) > 20
    assert max(small.batches) <= 2


def test_a_variant_that_allows_one_run_at_a_time_holds_the_lane_to_it() -> None:
    small = rig.SimulatedModel(rig.Accelerator(in_flight=1))
    model = rig.SimulatedModel(rig.Accelerator())
    run = Run(model, [LaneSource(recording("a", 1), None)], workers=4, variants=(small,))
    assert run.lane.workers == 1
    run.go()


def test_a_thread_that_dies_before_it_runs_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter can fail between a thread's start and its first line: a tracer of Python 3.11 did."""
    said: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: said.append(str(args.exc_value)))

    def trace(*_: object) -> None:
        if threading.current_thread().name == "m-infer-0":
            raise RuntimeError("another trace function is being installed")

    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(recording("a", 50), None)])
    monkeypatch.setattr(threading, "_trace_hook", trace)
    with pytest.raises(EdgeRuntimeError, match="m-infer-0 ended before it ran"):
        run.pipeline.run([run.lane])
    assert run.lane.join(5)
    assert said


def test_a_system_without_threads_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def one_alone(thread: threading.Thread) -> None:
        if thread.name == "m-infer-0":
            raise RuntimeError("can't start new thread")
        start(thread)

    run = Run(rig.SimulatedModel(rig.Accelerator()), [LaneSource(recording("a", 50), None)])
    monkeypatch.setattr(threading.Thread, "start", one_alone)
    with pytest.raises(EdgeRuntimeError, match="raise the limit of this process's tasks"):
        run.pipeline.run([run.lane])
    assert run.lane.join(5)
