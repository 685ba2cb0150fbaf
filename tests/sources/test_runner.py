"""Bug kinds 8 (frozen or dead streams), 9 (growing latency) and 25 (a start that cannot be stopped)."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from edge_runtime.errors import MissingDependency, SourceError
from edge_runtime.sources import SourceRunner, SourceState
from edge_runtime.sources.reader import (
    Grab,
    ReadCounts,
    Reader,
    SourceRefused,
    SourceSilent,
    SourceUnauthorized,
    StreamFacts,
)
from edge_runtime.sources.runner import Limits, Plan
from tests.rigs.cameras import FakeClock, picture, wait_until

S = 1_000_000_000
LIMITS = Limits(
    max_age_ns=S // 2,
    open_ns=10 * S,
    stall_after_ns=5 * S,
    frozen_after_ns=10 * S,
    give_up_after_ns=None,
    backoff_first_s=0.001,
    backoff_max_s=0.002,
)


class Script:
    """A camera that does what the test says: each connection takes the next list of steps.

    A step is a number (a picture with it), an error to raise, "end", or "hang" (until released or cancelled).
    """

    def __init__(self, *connections: Sequence[object], clock: FakeClock | None = None) -> None:
        self.connections = deque(connections)
        self.clock = clock or FakeClock()
        self.release = threading.Event()
        self.opened = self.closed = 0
        self.deaf = False  # a library call that does not hear a request to stop

    def open(self, cancel: threading.Event) -> Reader:
        steps: deque[object] = deque(self.connections.popleft() if self.connections else ["hang"])
        if steps and isinstance(steps[0], Exception):
            raise steps.popleft()  # type: ignore[misc]
        if steps and steps[0] == "hang in open":
            self._wait(cancel)
            raise SourceError("cam did not answer")
        self.opened += 1
        return ScriptReader(self, steps, cancel)

    def _wait(self, cancel: threading.Event) -> None:
        while not self.release.wait(0.002):
            if cancel.is_set() and not self.deaf:
                return


class ScriptReader:
    def __init__(self, script: Script, steps: deque[object], cancel: threading.Event) -> None:
        self._script, self._steps, self._cancel = script, steps, cancel
        self.facts = StreamFacts(64, 48, "script")
        self.counts = ReadCounts()
        self.warning: str | None = None
        self._given = 0

    def read(self) -> Grab | None:
        step = self._steps.popleft() if self._steps else "hang"
        if isinstance(step, Exception):
            raise step
        if step == "end":
            return None
        if step == "hang":
            self._script._wait(self._cancel)
            return None
        assert isinstance(step, (int, float))
        self._given += 1
        pts_ns = self._given * S // 10
        return Grab(picture(int(step)), pts_ns, self._script.clock.now_ns, preroll=step != int(step))

    def close(self) -> None:
        self._script.closed += 1


def runner(script: Script, limits: Limits | None = LIMITS, **fields: object) -> SourceRunner:
    plan = Plan(open_reader=script.open, limits=limits, **fields)  # type: ignore[arg-type]
    return SourceRunner("cam", plan, masks=(), clock=script.clock, rng=random.Random(0))


def state_is(source: SourceRunner, state: SourceState) -> Callable[[], bool]:
    return lambda: source.status().state is state


def in_starting(script: Script, source: SourceRunner) -> None:
    script.connections.append(["hang in open"])
    source.start()


def in_running(script: Script, source: SourceRunner) -> None:
    script.connections.append([1, "hang"])
    source.start()


def in_stalled(script: Script, source: SourceRunner) -> None:
    in_running(script, source)
    assert wait_until(state_is(source, SourceState.RUNNING))
    script.clock.advance(6)


def in_reconnecting(script: Script, source: SourceRunner) -> None:
    script.connections.extend([[SourceError("no route")], ["hang in open"]])
    source.start()


def in_ended(script: Script, source: SourceRunner) -> None:
    source.stop(1)


def in_failed(script: Script, source: SourceRunner) -> None:
    script.connections.append([SourceRefused("not a camera")])
    source.start()


INTO = {
    SourceState.STARTING: in_starting,
    SourceState.RUNNING: in_running,
    SourceState.STALLED: in_stalled,
    SourceState.RECONNECTING: in_reconnecting,
    SourceState.ENDED: in_ended,
    SourceState.FAILED: in_failed,
}


@pytest.mark.parametrize("state", SourceState)
def test_stop_works_in_every_state(state: SourceState) -> None:
    script = Script()
    source = runner(script, endless=True)
    INTO[state](script, source)
    assert wait_until(state_is(source, state))
    begin = time.monotonic()
    assert source.stop(5)
    assert time.monotonic() - begin < 4
    assert source.finished
    assert source.poll() is None
    assert source.waiting() is None
    assert source.status().state is (SourceState.FAILED if state is SourceState.FAILED else SourceState.ENDED)
    assert script.opened == script.closed
    assert source.stop(1)


def test_a_source_runs_once() -> None:
    script = Script([1, "end"])
    source = runner(script, limits=None)
    source.start()
    with pytest.raises(SourceError, match="open it anew"):
        source.start()
    source.stop()
    never = runner(Script())
    never.stop()
    with pytest.raises(SourceError, match="open it anew"):
        never.start()


def test_a_start_has_a_deadline() -> None:
    script = Script(["hang in open"])
    source = runner(script)
    source.start()
    assert state_is(source, SourceState.STARTING)()
    script.clock.advance(10.5)
    status = source.status()
    assert status.state is SourceState.STALLED
    assert status.error == "no picture for 10 s"
    assert source.stop()


def test_a_thread_that_hangs_in_a_library_is_seen_left_and_counted() -> None:
    script = Script([1, "hang"])
    script.deaf = True
    source = runner(script)
    source.start()
    assert wait_until(state_is(source, SourceState.RUNNING))
    script.clock.advance(5.5)
    assert source.status().state is SourceState.STALLED
    assert not source.stop(0.02)
    assert source.finished
    assert source.status().abandoned
    script.release.set()
    assert wait_until(lambda: not source.status().abandoned)
    assert script.closed == 1
    assert source.stop()


def test_a_lost_camera_comes_back_in_a_new_epoch_with_its_pipeline_torn_down() -> None:
    script = Script(
        [1, 2, SourceError("gone")], [SourceError("no route")], [3, SourceSilent("silent")], [4, "hang"]
    )
    source = runner(script, endless=True)
    states: list[str] = []
    frames = []

    def note() -> None:
        states.append(source.status().state.value)
        frame = source.poll()
        if frame is not None:
            frames.append((frame.epoch, frame.sequence, int(np.median(frame.image))))

    source.on_change(note)
    source.start()
    assert wait_until(lambda: len(frames) == 4)  # the status tells of a frame before its arrival is signalled
    status = source.status()
    assert (status.reconnects, status.attempts, status.decoded, status.error) == (2, 4, 4, None)
    assert [frame[:2] for frame in frames] == [(0, 0), (0, 1), (1, 0), (2, 0)]
    kept = [state for i, state in enumerate(states) if i == 0 or state != states[i - 1]]
    assert kept == ["running", "reconnecting", "running", "stalled", "reconnecting", "running"]
    assert script.closed == script.opened - 1
    source.stop()
    assert script.closed == script.opened


def test_the_end_of_a_camera_is_a_loss_and_of_a_recording_the_end() -> None:
    camera = runner(Script([1, "end"], [2, "hang"]), endless=True)
    camera.start()
    assert wait_until(lambda: camera.status().epoch == 1)
    camera.stop()
    recording = runner(Script([1, 2, "end"]), limits=None)
    recording.start()
    assert wait_until(state_is(recording, SourceState.ENDED))
    assert recording.waiting() is not None
    assert [f.sequence for f in iter(recording.poll, None)] == [0, 1]
    assert recording.finished
    recording.stop()


def test_a_recording_that_breaks_fails_after_its_frames() -> None:
    source = runner(Script([1, 2, SourceError("disk error")]), limits=None)
    source.start()
    assert wait_until(state_is(source, SourceState.FAILED))
    assert source.status().error == "disk error"
    assert [f.sequence for f in iter(source.poll, None)] == [0, 1]
    assert source.finished


def test_a_recording_without_a_frame_fails() -> None:
    source = runner(Script(["end"]), limits=None)
    source.start()
    assert wait_until(lambda: source.finished)
    assert source.status().state is SourceState.FAILED
    assert source.status().error == "not one frame of it can be decoded"


@pytest.mark.parametrize("error", [SourceRefused("not a video"), MissingDependency("install GStreamer")])
def test_what_cannot_pass_is_not_tried_again(error: Exception) -> None:
    source = runner(Script([error]))
    source.start()
    assert wait_until(lambda: source.finished)
    status = source.status()
    assert (status.state, status.error, status.attempts) == (SourceState.FAILED, str(error), 1)


def test_an_unforeseen_error_is_a_stated_failure() -> None:
    source = runner(Script([1, ZeroDivisionError("at rtsp://bob:hunter22@cam")]))
    source.start()
    assert wait_until(state_is(source, SourceState.FAILED))
    error = source.status().error or ""
    assert error.startswith("internal error: ZeroDivisionError")
    assert "hunter22" not in error
    assert source.stop()


def test_a_refused_password_is_not_tried_again_at_once() -> None:
    patient = replace(LIMITS, backoff_max_s=10_000)
    again = runner(Script(*[[SourceError("no route")] for _ in range(5)]), patient)
    again.start()
    assert wait_until(lambda: again.status().attempts == 6)
    again.stop()
    wrong = runner(Script(*[[SourceUnauthorized("wrong password")] for _ in range(5)]), patient)
    wrong.start()
    assert wait_until(state_is(wrong, SourceState.RECONNECTING))
    time.sleep(0.05)
    assert wrong.status().attempts == 1
    assert wrong.stop()


def test_a_camera_that_delivers_does_not_stall() -> None:
    clock = FakeClock()
    script = Script([*range(30), "hang"], clock=clock)
    source = runner(script)
    source.on_change(lambda: clock.advance(1))
    source.start()
    assert wait_until(lambda: source.status().decoded == 30)
    assert clock.now_ns - FakeClock().now_ns > 6 * LIMITS.stall_after_ns - S
    assert source.status().state is SourceState.RUNNING
    source.stop()


def test_giving_up() -> None:
    script = Script(*[[SourceError("no route")] for _ in range(500)])
    limits = Limits(2, S, S, None, 30 * S, 0.001, 0.001)
    source = runner(script, limits)
    source.start()
    assert wait_until(lambda: source.status().attempts > 5)
    assert source.status().state is SourceState.RECONNECTING
    script.clock.advance(31)
    assert wait_until(state_is(source, SourceState.FAILED))
    assert source.status().error == "given up after 30 s: no route"


def test_a_frozen_camera_is_flagged_and_reopened_once() -> None:
    clock = FakeClock()

    class Ticking(Script):
        """Every picture comes a second after the last."""

        def open(self, cancel: threading.Event) -> Reader:
            reader = super().open(cancel)
            read = reader.read

            def ticking() -> Grab | None:
                clock.advance(1)
                return read()

            reader.read = ticking  # type: ignore[method-assign]
            return reader

    script = Ticking([*[7] * 30], [*[7] * 20, 8, 9, "hang"], clock=clock)
    source = runner(script, endless=True)
    marks = []

    def note() -> None:
        frame = source.poll()
        if frame is not None:
            marks.append((frame.epoch, frame.sequence, frame.frozen))

    source.on_change(note)
    source.start()
    assert wait_until(lambda: source.status().epoch == 1 and source.status().sequence == 21)
    frozen = [mark for mark in marks if mark[2]]
    assert frozen[0][0] == 0
    assert frozen[0][1] in (11, 12)
    assert frozen[1] == (1, 0, True), "reopening does not make the same picture new"
    assert frozen[-1] == (1, 19, True)
    assert marks[-2:] == [(1, 20, False), (1, 21, False)]
    status = source.status()
    assert (status.attempts, status.reconnects, status.frozen) == (2, 1, False)
    source.stop()


def test_preroll_is_decoded_and_not_delivered() -> None:
    source = runner(Script([1.5, 2.5, 3, "hang"]))
    source.start()
    assert wait_until(lambda: source.waiting() is not None)
    frame = source.poll()
    assert frame is not None
    assert (frame.sequence, frame.media_ns) == (2, 200_000_000)
    assert source.status().drops == {"preroll": 2}
    source.stop()


def test_no_frame_over_age_is_given_and_drops_are_counted() -> None:
    script = Script([*range(100), "hang"])
    source = runner(script)
    source.start()
    assert wait_until(lambda: source.status().decoded == 100)
    assert source.waiting() == script.clock.now_ns
    script.clock.advance(0.6)
    assert source.waiting() is None
    assert source.poll() is None
    assert source.status().drops == {"superseded": 99, "too_old": 1}
    source.stop()


def test_a_gap_in_the_sequence_is_a_counted_drop() -> None:
    """Bug kind 24: what is missing between two frames is what the counters say."""
    script = Script([*range(50), "hang"])
    source = runner(script)
    taken = []
    source.on_change(lambda: taken.append(source.poll()) if source.status().decoded % 7 == 0 else None)
    source.start()
    assert wait_until(lambda: source.status().decoded == 50)
    sequences = [frame.sequence for frame in taken if frame is not None]
    gaps = sum(b - a - 1 for a, b in zip([-1, *sequences], sequences, strict=False))
    waiting = source.waiting() is not None
    assert gaps + (49 - sequences[-1]) == source.status().drops.get("superseded", 0) + waiting
    source.stop()


def test_frames_that_waited_when_it_was_stopped_are_counted() -> None:
    source = runner(Script([*range(20), "end"]), limits=None)
    source.start()
    assert wait_until(lambda: source.status().decoded >= 9)
    assert source.stop()
    status = source.status()
    assert status.drops == {"stopped": status.decoded}
    assert status.state is SourceState.ENDED


def test_a_hundred_reconnects_close_what_they_open() -> None:
    script = Script(*[[i, SourceError("gone")] for i in range(100)])
    source = runner(script)
    threads = threading.active_count()
    source.start()
    assert wait_until(lambda: script.opened == 101 or script.closed == 100)
    assert threading.active_count() <= threads + 1
    assert source.stop()
    assert script.closed == script.opened
    assert threading.active_count() <= threads


def test_dark_is_neither_no_frame_nor_nothing_seen() -> None:
    source = runner(Script([1, "hang"]))
    source.start()
    assert wait_until(lambda: source.status().decoded == 1)
    assert not source.status().dark
    frame = source.poll()
    assert frame is not None
    assert not frame.dark
    assert source.poll() is None
    assert source.status().state is SourceState.RUNNING
    source.stop()
