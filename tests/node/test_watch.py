"""Perception beats after work that it finished, hides no stuck thread, and says what holds of its cameras."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.config import load_config
from edge_runtime.config.node import NodeConfig
from edge_runtime.guard.conditions import Condition, conditions_in
from edge_runtime.guard.page import PageError
from edge_runtime.node.camera_watch import EVALUATED, EVENT_WINDOW_NS, CameraWatch, SourceLook
from edge_runtime.node.models import ReadyModel
from edge_runtime.node.watch import camera_deadline_ns, perception_longest_ms
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.pipeline import Evaluated, NotEvaluated, Outcome, Unseen
from edge_runtime.protocol import EventRecord
from edge_runtime.sources import Frame, SourceState
from tests.rigs.cameras import MjpegCamera
from tests.rigs.deliveries import event_record
from tests.rigs.watched import StuckSink, Watched, loaded_models, watched, write_watched

C = Condition
MS = 1_000_000
YARD = {"kind": "synthetic", "fps": 20, "width": 320, "height": 240}
NOBODY = {"kind": "absence", "name": "nobody", "labels": ["zebra"], "seconds": 0.2}


# -- one camera, without any I/O --------------------------------------------------------------------------------


def frame(capture_ns: int = 0) -> Frame:
    return Frame(np.zeros((8, 8, 3), np.uint8), "yard", 0, 0, capture_ns, 0)


def seen(capture_ns: int = 0) -> Outcome:
    return Evaluated(frame(capture_ns), Detections.empty(), "m")


def unseen(reason: Unseen, capture_ns: int = 0) -> Outcome:
    return NotEvaluated(frame(capture_ns), reason, "why", "m")


def camera_watch(*, live: bool = True) -> CameraWatch:
    return CameraWatch(live=live, max_age_ns=500 * MS, deadline_ns=200 * MS)


def holds(watch: CameraWatch) -> set[Condition]:
    return set(conditions_in(watch.tripped))


RUNNING = SourceLook(SourceState.RUNNING, 0)


@pytest.mark.parametrize(
    ("outcome", "age_ms", "expected"),
    [
        (seen(), 10, set()),
        (seen(), 500, set()),
        (seen(), 501, {C.SOURCE_LATE}),
        (unseen(Unseen.DARK), 10, {C.SOURCE_DARK}),
        (unseen(Unseen.FROZEN), 10, {C.SOURCE_FROZEN}),
        (unseen(Unseen.NONFINITE), 10, {C.OUTPUT_NOT_FINITE}),
        (unseen(Unseen.MODEL_FAULT), 10, {C.OUTPUT_NOT_FINITE}),
        (unseen(Unseen.TIMEOUT), 10, set()),
    ],
)
def test_what_one_outcome_says_is_taken_back_by_the_next_good_one(
    outcome: Outcome, age_ms: int, expected: set[Condition]
) -> None:
    watch = camera_watch()
    watch.took(outcome, age_ms * MS, [], 0)
    assert holds(watch) == expected
    watch.took(seen(), 10 * MS, [], 0)
    assert holds(watch) == set()


@pytest.mark.parametrize("reason", [Unseen.TIMEOUT, Unseen.ERROR, Unseen.LAYOUT, None])
def test_three_of_ten_inferences_without_an_answer_in_time_are_late(reason: Unseen | None) -> None:
    watch = camera_watch()
    bad = partial(watch.took, unseen(reason), 10 * MS) if reason else partial(watch.took, seen(), 201 * MS)
    good = partial(watch.took, seen(), 200 * MS)
    for step in (bad, good, bad, good):
        step([], 0)
        assert C.INFERENCE_LATE not in holds(watch)
    bad([], 0)
    assert C.INFERENCE_LATE in holds(watch)
    for _ in range(5):
        good([], 0)
        assert C.INFERENCE_LATE in holds(watch)
    good([], 0)  # the first of the three is the eleventh now
    assert holds(watch) == set()


def test_a_dark_picture_is_no_inference() -> None:
    watch = camera_watch()
    for _ in range(3):
        watch.took(unseen(Unseen.DARK), 300 * MS, [], 0)
    assert holds(watch) == {C.SOURCE_DARK}


def test_no_answer_does_not_make_a_faulty_model_well() -> None:
    watch = camera_watch()
    for reason in (Unseen.NONFINITE, Unseen.TIMEOUT, Unseen.DARK):
        watch.took(unseen(reason), 10 * MS, [], 0)
        assert C.OUTPUT_NOT_FINITE in holds(watch)


@pytest.mark.parametrize("state", list(SourceState))
@pytest.mark.parametrize("live", [True, False])
def test_only_a_live_camera_stalls(state: SourceState, live: bool) -> None:
    watch = camera_watch(live=live)
    watch.took(seen(), 10 * MS, [], 0)
    watch.look(SourceLook(state, 0), None, 0)
    silent = live and state not in (SourceState.STARTING, SourceState.RUNNING)
    assert holds(watch) == ({C.SOURCE_STALLED} if silent else set())
    watch.look(RUNNING, None, 0)
    assert holds(watch) == set()


def test_a_camera_is_looked_at_once_it_gave_a_frame_or_could_not() -> None:
    starting, running, failed = (camera_watch() for _ in range(3))
    for watch, state in (
        (starting, SourceState.STARTING),
        (running, SourceState.RUNNING),
        (failed, SourceState.FAILED),
    ):
        watch.look(SourceLook(state, 0), None, 0)
    assert (starting.looked, running.looked, failed.looked) == (False, False, True)


@pytest.mark.parametrize("live", [True, False])
def test_frames_dropped_for_their_age_are_late_until_one_comes_in_time(live: bool) -> None:
    watch = camera_watch(live=live)
    watch.took(seen(), 10 * MS, [], 0)
    watch.look(SourceLook(SourceState.RUNNING, 2), None, 0)
    assert holds(watch) == ({C.SOURCE_LATE} if live else set())
    watch.look(SourceLook(SourceState.RUNNING, 2), None, 0)
    assert holds(watch) == ({C.SOURCE_LATE} if live else set())
    watch.took(seen(), 10 * MS, [], 0)
    assert holds(watch) == set()


def test_a_frame_that_a_thread_has_been_at_for_too_long_is_late() -> None:
    watch = camera_watch()
    watch.look(RUNNING, 1000 * MS, 1500 * MS)
    assert holds(watch) == set()
    watch.look(RUNNING, 1000 * MS, 1501 * MS)
    assert holds(watch) == {C.SOURCE_LATE}


@pytest.mark.parametrize(
    ("relied_on", "live", "evaluated_ms", "newest_ms", "expected"),
    [
        (True, True, 500, 500, set()),
        (True, True, 499, 499, {C.SOURCE_STALLED}),
        (True, True, 499, 999, {C.SOURCE_LATE}),  # it gives frames, and none of them is evaluated
        (True, False, 0, 0, set()),
        (False, True, 0, 0, set()),
    ],
)
def test_a_body_moves_by_no_frame_that_is_older_than_one_may_be(
    relied_on: bool, live: bool, evaluated_ms: int, newest_ms: int, expected: set[Condition]
) -> None:
    watch = CameraWatch(live=live, max_age_ns=500 * MS, deadline_ns=10_000 * MS, relied_on=relied_on)
    watch.look(RUNNING, None, 0)
    assert holds(watch) == set()
    watch.took(seen(evaluated_ms * MS), 10 * MS, [], 0)
    watch.look(SourceLook(SourceState.RUNNING, 0, newest_ms * MS), None, 1000 * MS)
    assert holds(watch) == expected
    watch.took(seen(1000 * MS), 10 * MS, [], 0)
    assert holds(watch) == set()


def test_a_late_event_holds_for_two_seconds() -> None:
    watch = camera_watch()
    late: EventRecord = event_record(late=True)
    watch.took(seen(), 10 * MS, [late.model_copy(update={"late": False})], 0)
    assert holds(watch) == set()
    watch.took(seen(), 10 * MS, [late], 0)
    watch.took(seen(), 10 * MS, [], 0)
    watch.look(RUNNING, None, EVENT_WINDOW_NS - 1)
    assert holds(watch) == {C.EVENT_LATE}
    watch.look(RUNNING, None, EVENT_WINDOW_NS)
    assert holds(watch) == set()


# -- bounds that follow from the configuration ------------------------------------------------------------------


def configuration(
    source: Mapping[str, Any] = YARD,
    *,
    moves: bool = True,
    response_ms: float | None = None,
    rules: tuple[Mapping[str, Any], ...] = (),
) -> NodeConfig:
    profile = {
        "power_watts": 10,
        "max_temperature_c": 85,
        "sensor_bandwidth_mbps": 10,
        "link": "none",
        "response_deadline_ms": response_ms,
    }
    document: dict[str, Any] = {
        "models": {"m": {"package": "p"}},
        "cameras": {"yard": {"source": source, "model": "m", "rules": list(rules)}},
        "guard": {"profile": "body.yaml"} if moves else {},
    }
    if response_ms is not None:
        document["device"] = {"profile": profile}
    return NodeConfig.model_validate(document)


RECORDING = {"kind": "file", "path": "a.mp4"}


@pytest.mark.parametrize(
    ("config", "expected_ms"),
    [
        (configuration(moves=False), 10_000),
        (configuration(), 600),
        (configuration({**YARD, "max_age": 0.25}), 350),
        (configuration({**YARD, "max_age": 0.01}), 300),
        (configuration({**YARD, "max_age": 60}), 10_000),
        (configuration(response_ms=300), 400),
        (configuration(response_ms=3000), 600),
        (configuration(RECORDING), 10_000),
        (configuration(RECORDING, response_ms=300), 10_000),
        (configuration({**RECORDING, "pacing": "camera"}), 600),
        (configuration({**YARD, "pacing": "every_frame"}), 10_000),
    ],
)
def test_the_longest_time_between_beats(config: NodeConfig, expected_ms: int) -> None:
    assert perception_longest_ms(config) == expected_ms


def test_a_cameras_deadline_is_the_shortest_of_its_rules_and_its_device() -> None:
    rules = ({**NOBODY, "deadline": 0.4}, {**NOBODY, "name": "b", "deadline": 0.7})
    for config, expected_ms in (
        (configuration(), 1000),
        (configuration(rules=rules), 400),
        (configuration(rules=rules, response_ms=250), 250),
        (configuration(response_ms=2500), 2500),
    ):
        assert camera_deadline_ns(config, config.cameras["yard"]) == expected_ms * MS


# -- a node that runs -------------------------------------------------------------------------------------------

Start = Callable[..., AbstractContextManager[Watched]]


@pytest.fixture(scope="module")
def models(
    yolox_package: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, ReadyModel]]:
    folder = tmp_path_factory.mktemp("models")
    cameras = {name: {"source": YARD, "model": name} for name in ("m", "n")}
    with loaded_models(write_watched(folder, yolox_package, cameras)) as found:
        yield found


@pytest.fixture
def start(tmp_path: Path, yolox_package: Path, models: Mapping[str, ReadyModel]) -> Start:
    def begin(
        cameras: Mapping[str, Any], *, timeout: float = 10.0, sinks: Any = (), **more: Any
    ) -> AbstractContextManager[Watched]:
        path = write_watched(tmp_path, yolox_package, cameras, timeout=timeout, **more)
        used = load_config(path).config.models
        return watched(path, {name: models[name] for name in used}, sinks=sinks)

    return begin


def test_a_camera_that_is_well_beats_with_nothing_tripped(start: Start) -> None:
    with start({"yard": {"source": YARD}}) as run:
        first = run.until_evaluated()
        assert first.evaluated == EVALUATED
        assert run.beats_within(1.0) >= 10
        beat = run.beat
        assert beat is not None
        assert run.tripped == set()
        assert beat.newest_capture_ns is not None
        assert 0 <= beat.beat_ns - beat.newest_capture_ns < 500 * MS
        assert abs(beat.deadline_ns - beat.beat_ns - 10_000 * MS) < 20 * MS
        with pytest.raises(PageError, match="belongs to the thread that beat first"):
            run.writer.finished("other", None, beat.deadline_ns, 0, 0)


def test_nothing_is_evaluated_before_each_camera_has_shown_something(start: Start) -> None:
    camera = MjpegCamera().start()
    camera.hung.set()
    try:
        with start(
            {"yard": {"source": YARD}, "late": {"source": {"kind": "http", "url": camera.url}}}
        ) as run:
            run.until(lambda: run.node.snapshot().cameras["yard"].evaluated > 5, "frames of the first")
            assert run.beat is not None
            assert run.beat.evaluated == 0
            camera.hung.clear()
            assert run.until_evaluated().evaluated == EVALUATED
            run.until(lambda: run.tripped == set(), "health")
    finally:
        camera.kill()


def test_a_camera_that_never_opens_is_looked_at_when_its_time_is_over(start: Start) -> None:
    camera = MjpegCamera().start()
    camera.hung.set()
    source = {"kind": "http", "url": camera.url, "open_timeout": 0.5}
    try:
        with start({"yard": {"source": YARD}, "never": {"source": source}}) as run:
            run.until_evaluated()
            assert run.tripped == {C.SOURCE_STALLED}
    finally:
        camera.kill()


def test_an_inference_that_never_returns_stops_the_beats_of_a_live_evaluator(start: Start) -> None:
    with start({"yard": {"source": {**YARD, "max_age": 0.15}}}, timeout=0.3) as run:
        run.until_evaluated()
        run.faulty["m"].block()
        run.until(lambda: C.SOURCE_LATE in run.tripped, "the frame grew too old")
        time.sleep(1.0)  # its time limit and the margin are over
        assert run.beats_within(1.0) == 0
        decoded = run.node.snapshot().cameras["yard"].decoded
        run.until(lambda: run.node.snapshot().cameras["yard"].decoded > decoded + 3, "the camera goes on")
        assert run.thread.is_alive()
        run.faulty["m"].unblock()
        run.until(lambda: run.beats_within(0.2) > 0, "beats")


def test_a_preparation_that_never_ends_stops_the_beats(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_runtime.perception.pipeline.lane.PREPARE_LIMIT_NS", 300 * MS)
    with start({"yard": {"source": YARD}}) as run:
        run.until_evaluated()
        run.preparing["m"].free.clear()
        run.until(lambda: run.beats_within(0.5) == 0, "silence")
        assert run.thread.is_alive()
        run.preparing["m"].free.set()
        run.until(lambda: run.beats_within(0.2) > 0, "beats")


def test_another_models_frames_do_not_hide_a_stuck_one(start: Start) -> None:
    with start(
        {"yard": {"source": YARD}, "other": {"source": YARD, "model": "n"}},
        timeout=0.3,
    ) as run:
        run.until_evaluated()
        run.faulty["m"].block()
        run.until(lambda: run.beats_within(0.6) == 0, "silence")
        before = run.node.snapshot().cameras["other"].evaluated
        run.until(lambda: run.node.snapshot().cameras["other"].evaluated > before + 3, "frames of the other")
        assert run.beats_within(0.5) == 0


def test_a_sink_that_blocks_stops_the_beats(start: Start) -> None:
    sink = StuckSink()
    sink.free.clear()
    with start({"yard": {"source": YARD, "rules": [NOBODY]}}, sinks=[sink]) as run:
        run.until(lambda: sink.taken > 0, "an event")
        assert run.beats_within(1.0) == 0
        decoded = run.node.snapshot().cameras["yard"].decoded
        run.until(lambda: run.node.snapshot().cameras["yard"].decoded > decoded + 3, "the camera goes on")
        sink.free.set()
        run.until(lambda: run.beats_within(0.2) > 0, "beats")


def test_a_camera_that_falls_silent_is_stalled(start: Start) -> None:
    source = {**YARD, "dead_after": 10, "stall_after": 0.4, "backoff_first": 0.1, "backoff_max": 0.2}
    with start({"yard": {"source": source}, "well": {"source": YARD}}) as run:
        run.until_evaluated()
        run.until(lambda: C.SOURCE_STALLED in run.tripped, "a stall")
        assert run.beats_within(0.5) > 3


def test_a_body_that_moves_does_not_wait_for_its_camera_to_be_torn_down(start: Start) -> None:
    source = {**YARD, "dead_after": 10, "stall_after": 60.0, "max_age": 0.3}
    moving = {"profile": "read by the guard"}
    with start({"yard": {"source": source}, "well": {"source": YARD}}, guard=moving) as run:
        run.until_evaluated()
        run.until(lambda: run.tripped == {C.SOURCE_STALLED}, "blindness")
        assert run.beat is not None
        assert run.node.snapshot().cameras["yard"].state == "running"


def test_a_camera_that_shows_nothing_is_dark(start: Start) -> None:
    everything = [[0, 0], [1, 0], [1, 1], [0, 1]]
    with start({"yard": {"source": YARD, "masks": [{"polygon": everything}]}}) as run:
        run.until_evaluated()
        run.until(lambda: run.tripped == {C.SOURCE_DARK}, "darkness")


def test_a_camera_that_repeats_itself_is_frozen_until_it_moves(start: Start) -> None:
    camera = MjpegCamera().start()
    source = {
        "kind": "http",
        "url": camera.url,
        "frozen_after": 0.5,
        "backoff_first": 0.1,
        "backoff_max": 0.2,
    }
    try:
        with start({"yard": {"source": source}}) as run:
            run.until_evaluated()
            camera.frozen = True
            run.until(lambda: C.SOURCE_FROZEN in run.tripped, "a freeze")
            camera.frozen = False
            run.until(lambda: run.tripped == set(), "a living picture")
    finally:
        camera.kill()


def test_a_model_that_is_too_slow_is_late_and_makes_its_camera_late(start: Start) -> None:
    rule = {**NOBODY, "seconds": 60, "deadline": 0.1}
    with start({"yard": {"source": {**YARD, "max_age": 0.4}, "rules": [rule]}}) as run:
        run.until_evaluated()
        run.faulty["m"].slow_s = 0.15
        run.until(lambda: run.tripped == {C.INFERENCE_LATE}, "late inferences")
        run.faulty["m"].slow_s = 0.5
        run.until(lambda: {C.SOURCE_LATE, C.INFERENCE_LATE} <= run.tripped, "frames too old")
        run.faulty["m"].slow_s = 0.0
        run.until(lambda: run.tripped == set(), "speed")


def test_outputs_that_are_no_numbers(start: Start) -> None:
    with start({"yard": {"source": YARD}}) as run:
        run.until_evaluated()
        run.faulty["m"].nan = True
        run.until(lambda: C.OUTPUT_NOT_FINITE in run.tripped, "not a number")
        run.faulty["m"].nan = False
        run.until(lambda: run.tripped == set(), "numbers")


def test_an_event_after_its_deadline(start: Start) -> None:
    with start({"yard": {"source": YARD, "rules": [{**NOBODY, "deadline": 0.0001}]}}) as run:
        run.until(lambda: C.EVENT_LATE in run.tripped, "a late event")


def test_a_recording_is_never_late_and_its_end_is_no_stall(start: Start, media: Path) -> None:
    source = {"kind": "file", "path": str(media / "vtest.avi"), "pacing": "real_time"}
    with start({"yard": {"source": YARD}, "clip": {"source": source}}) as run:
        run.until_evaluated()
        run.faulty["m"].slow_s = 0.05
        assert run.beats_within(1.5) > 5
        assert not run.tripped & {C.SOURCE_STALLED}
