"""The loop: sources → lanes → one evaluator that turns outputs into outcomes, each camera's in order.

Decoding, preprocessing and inference run in threads of their own; what follows (boxes, tracks, rules, sinks) runs
in the evaluator alone, so nothing downstream needs a lock. When it falls behind, lanes wait, live frames are
dropped in their mailboxes and counted, and recordings are read more slowly.
"""

import queue
import threading
from collections.abc import Sequence
from typing import Protocol

from edge_runtime.clock import Clock
from edge_runtime.errors import DecodeError
from edge_runtime.perception.pipeline.lane import Lane
from edge_runtime.perception.pipeline.outcome import NotEvaluated, Outcome, OutcomeJudge, Unseen
from edge_runtime.perception.pipeline.results import Completed
from edge_runtime.perception.pipeline.timing import StageTimes
from edge_runtime.sources.frame import Frame

TICK_S = 0.1
"""How often the consumer is told the time while no frame arrives: bounds how late a lost camera is reported."""


class Consumer(Protocol):
    """Takes outcomes; always called from the evaluator's thread."""

    def take(self, outcome: Outcome) -> None:
        """One frame's outcome, each camera's in order."""
        ...

    def tick(self) -> None:
        """Time passes: look at the cameras' states."""
        ...


class Pipeline:
    """Runs lanes to their end or until stopped.

    Args:
        consumer: what happens with each outcome.
        times: where durations go.
        clock: monotonic time.
        depth: completed batches that may wait for the evaluator.
        nonfinite_limit: so many frames of a camera in a row with non-finite outputs and nothing else are a fault
            of the model.
    """

    def __init__(
        self, consumer: Consumer, *, times: StageTimes, clock: Clock, depth: int, nonfinite_limit: int = 5
    ) -> None:
        self._consumer = consumer
        self._times = times
        self._clock = clock
        self._results: queue.Queue[Completed] = queue.Queue(maxsize=depth)
        self._judge = OutcomeJudge(nonfinite_limit)
        self._stop = threading.Event()
        self._closed = threading.Event()

    def deliver(self, completed: Completed) -> None:
        """For lanes: hand on one batch; waits while the evaluator is behind, and drops it once that has ended."""
        while not self._closed.is_set():
            try:
                self._results.put(completed, timeout=TICK_S)
            except queue.Full:
                continue
            return

    def request_stop(self) -> None:
        """Ask the loop to end; frames already being inferred are still evaluated. Safe in a signal handler."""
        self._stop.set()

    def run(self, lanes: Sequence[Lane]) -> None:
        """Evaluate until all lanes are done. Call from the thread that owns the consumer.

        Raises:
            BaseException: the defect that ended a lane's thread, after everything in flight was evaluated.
        """
        try:
            self._run(lanes)
        finally:
            # Whatever ended the loop, no lane may wait for it any longer.
            self._closed.set()
            for lane in lanes:
                lane.stop()
        for lane in lanes:
            if lane.failure is not None:
                raise lane.failure

    def _run(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            lane.start()
        stopped = False
        last_tick = self._clock.monotonic_ns()
        while True:
            if self._stop.is_set() and not stopped:
                stopped = True
                for lane in lanes:
                    lane.stop()
            ending = all(lane.done for lane in lanes)
            try:
                completed = self._results.get(timeout=0 if ending else TICK_S)
            except queue.Empty:
                if ending:
                    break
                completed = None
            if completed is not None:
                self._evaluate(completed)
            now = self._clock.monotonic_ns()
            if now - last_tick >= TICK_S * 1e9:
                last_tick = now
                self._consumer.tick()

    def _evaluate(self, completed: Completed) -> None:
        for index, frame in completed.frames:
            outcome: Outcome
            if completed.outputs is None:
                reason = completed.reason or Unseen.ERROR
                name = completed.model.manifest.name
                outcome = NotEvaluated(frame, reason, completed.text, name, completed.lineup)
            else:
                outcome = self._decode(completed, index, frame)
            self._times.record("age", self._clock.monotonic_ns() - frame.capture_ns, (frame.source,))
            self._consumer.take(outcome)

    def _decode(self, completed: Completed, index: int, frame: Frame) -> Outcome:
        name, lineup = completed.model.manifest.name, completed.lineup
        geometry = completed.geometries[index]
        outputs = completed.outputs
        if outputs is None or geometry is None:
            raise AssertionError("a completed batch has outputs and a geometry for each of its frames")
        begun = self._clock.monotonic_ns()
        try:
            detections = completed.model.postprocessor(outputs, index, geometry)
        except DecodeError as error:
            return NotEvaluated(frame, Unseen.LAYOUT, str(error), name, lineup)
        self._times.record("postprocess", self._clock.monotonic_ns() - begun, (frame.source,))
        return self._judge.outcome(frame, detections, name, variant=completed.variant, lineup=lineup)
