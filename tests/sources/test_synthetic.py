import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.config.source import SyntheticSource
from edge_runtime.sources import SourceRunner, SourceState, open_source
from edge_runtime.sources.reader import SourceSilent
from edge_runtime.sources.synthetic import SyntheticReader, SyntheticScene
from tests.rigs.cameras import FakeClock, collect, drain, running, wait_until


def camera(**fields: object) -> SourceRunner:
    settings = {
        "kind": "synthetic",
        "width": 64,
        "height": 48,
        "backoff_first": 0.01,
        "backoff_max": 0.05,
        **fields,
    }
    config = SyntheticSource.model_validate(settings)
    return open_source("cam", config, base=Path(), clock=SystemClock(), seed=1)


def test_a_scene_follows_from_its_seed_alone() -> None:
    scene, again, other = (SyntheticScene(320, 240, 30, 4, seed) for seed in (7, 7, 8))
    for index in (0, 1, 999):
        assert np.array_equal(scene.draw(index), again.draw(index))
        assert np.array_equal(scene.boxes(index), again.boxes(index))
    assert not np.array_equal(scene.draw(0), other.draw(0))


def test_boxes_are_where_they_are_drawn_and_stay_in_the_frame() -> None:
    scene = SyntheticScene(160, 120, 30, 1, 3)
    for index in range(0, 600, 37):
        (box,) = scene.boxes(index)
        left, top, right, bottom = box.astype(int)
        assert 0 <= left < right <= 160
        assert 0 <= top < bottom <= 120
        inside = scene.draw(index)[top:bottom, left:right].reshape(-1, 3)
        assert (inside == inside[0]).all()
    assert not np.array_equal(scene.boxes(0), scene.boxes(30))


def test_no_objects_and_many() -> None:
    assert SyntheticScene(64, 48, 30, 0, 0).boxes(5).shape == (0, 4)
    assert SyntheticScene(64, 48, 30, 500, 0).boxes(5).shape == (500, 4)


def test_a_still_scene_is_alive() -> None:
    scene = SyntheticScene(64, 48, 30, 0, 0)
    assert not np.array_equal(scene.draw(0), scene.draw(1))


def test_as_a_recording_it_gives_every_frame() -> None:
    runner = camera(pacing="every_frame", frames=50, fps=25)
    assert not runner.live
    frames = drain(runner)
    assert [frame.sequence for frame in frames] == list(range(50))
    assert [frame.media_ns // 10**6 for frame in frames[:3]] == [0, 40, 80]
    scene = SyntheticScene(64, 48, 25, 3, 0)
    assert all(np.array_equal(frame.image, scene.draw(i)) for i, frame in enumerate(frames))


def test_as_a_camera_it_drops_what_is_not_taken() -> None:
    runner = camera(fps=200, frames=40)
    assert runner.live
    runner.start()
    assert wait_until(lambda: runner.status().decoded == 40)
    last = runner.poll()
    assert last is not None
    assert last.sequence == 39
    assert wait_until(lambda: runner.finished)
    status = runner.status()
    assert status.state is SourceState.ENDED
    assert status.drops == {"superseded": 39}
    assert runner.stop()


def test_capture_times_are_on_the_camera_grid() -> None:
    with running(camera(fps=100)) as runner:
        frames = collect(runner, 10)
    first = frames[0]
    for frame in frames:
        steps = frame.sequence - first.sequence
        assert abs(frame.capture_ns - first.capture_ns - steps * 10_000_000) <= 1000


def test_a_dead_camera_stalls_reconnects_and_gives_up() -> None:
    runner = camera(fps=200, dead_after=3, stall_after=0.05, give_up_after=0.3)
    states: list[SourceState] = []
    runner.on_change(lambda: states.append(runner.status().state))
    runner.start()
    # its state changes before those who asked are told
    assert wait_until(lambda: states[-1:] == [SourceState.FAILED])
    status = runner.status()
    assert status.decoded == 3
    assert "given up after 0.3 s" in (status.error or "")
    assert "cable was cut after 3 frames" in (status.error or "")
    kept = [state for i, state in enumerate(states) if i == 0 or state is not states[i - 1]]
    assert kept == [SourceState.RUNNING, SourceState.STALLED, SourceState.RECONNECTING, SourceState.FAILED]
    assert runner.stop()


def test_a_camera_does_not_wait_for_a_reader_that_was_away() -> None:
    clock = FakeClock()
    config = SyntheticSource(kind="synthetic", width=32, height=32, fps=10, max_age=0.5)
    reader = SyntheticReader(config, clock, threading.Event())
    assert reader.read() is not None
    clock.advance(5.0)
    grab = reader.read()
    assert grab is not None
    assert clock.now_ns - grab.capture_ns <= 100_000_000
    assert reader.counts.drops == {"behind": 49}


def test_silence_ends_early_when_it_is_stopped() -> None:
    config = SyntheticSource(kind="synthetic", width=32, height=32, dead_after=0, stall_after=60)
    reader = SyntheticReader.__new__(SyntheticReader)
    with pytest.raises(Exception, match="is dead"):
        SyntheticReader(config, SystemClock(), threading.Event())
    cancel = threading.Event()
    reader = SyntheticReader(config.model_copy(update={"dead_after": 1}), SystemClock(), cancel)
    assert reader.read() is not None
    cancel.set()
    begin = time.monotonic()
    assert reader.read() is None
    assert time.monotonic() - begin < 10
    quick = SyntheticReader(
        config.model_copy(update={"dead_after": 1, "stall_after": 0.01}), SystemClock(), threading.Event()
    )
    quick.read()
    with pytest.raises(SourceSilent, match=r"no picture for 0.01 s"):
        quick.read()
