"""One model's lane: frames are prepared while the model runs, so that the model is the bottleneck.

Threads of a lane: one prepares (it owns the preprocessor), `workers` run the model. Results leave in the order
in which the frames were prepared, so every camera's frames stay in order however many runs are in flight.

For live cameras a frame is prepared only just before the model is free, so that it is as fresh as it can be:
age at evaluation is at most one frame period plus the model's time.

The models can be exchanged while the lane runs: frames that were prepared for the old ones are looked at by them,
all later ones by the new ones, and none is dropped for it.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.errors import BackendError
from edge_runtime.perception.backends import InferenceTimeout
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline.batch import Batch
from edge_runtime.perception.pipeline.crew import Crew
from edge_runtime.perception.pipeline.execution import fewest_in_flight
from edge_runtime.perception.pipeline.intake import Intake
from edge_runtime.perception.pipeline.lineup import Choice, LaneModels
from edge_runtime.perception.pipeline.outcome import Unseen
from edge_runtime.perception.pipeline.recent import RecentTimes
from edge_runtime.perception.pipeline.results import Completed, InOrder, unanswered
from edge_runtime.perception.pipeline.supply import LaneSource
from edge_runtime.perception.pipeline.timing import StageTimes
from edge_runtime.perception.pipeline.under_way import UnderWay, WorkBoard
from edge_runtime.sources.frame import Frame

_POLL_S = 0.25
"""How often a lane with nothing to do looks for the end of its sources; arrivals wake it at once."""

_LEAD_MARGIN_NS = NS_PER_MS
_LEAD_FRACTION = 0.05
"""A live frame is prepared this much before the model is expected to be free."""

PREPARE_LIMIT_NS = 5 * NS_PER_S
"""Preparing a batch takes milliseconds; a thread that is at one for so long is stuck."""

_PREPARE = 0
"""The place of the preparing thread on the board; workers follow."""


class Lane:
    """Runs one model for the cameras that share it.

    Args:
        name: of the model in the configuration.
        model: loaded, warmed up.
        sources: the cameras, not started.
        workers: inferences in flight; fewer where a backend allows no more.
        batch: largest batch to form; limited by the package.
        timeout_s: one inference may take this long.
        deliver: called in order with each completed batch, from the lane's threads, one at a time.
        times: where durations go.
        clock: monotonic time.
        variants: smaller models that can take its place.

    Attributes:
        variant: which model prepares and infers from the next batch on, 0 for the one that is meant to look; may
            be set from any thread. Beyond the last one the last one stays.
        frame_share: of the work on live cameras that may be done, above 0, at most 1; may be set from any thread.
            What is left out is counted as dropped.
    """

    def __init__(
        self,
        name: str,
        model: LoadedModel,
        sources: Sequence[LaneSource],
        *,
        workers: int,
        batch: int,
        timeout_s: float,
        deliver: Callable[[Completed], None],
        times: StageTimes,
        clock: Clock,
        variants: Sequence[LoadedModel] = (),
    ) -> None:
        self.name = name
        self.variant = 0
        self.frame_share = 1.0
        self.batch_sizes: Counter[int] = Counter()
        self._workers = fewest_in_flight(workers, (each.backend for each in (model, *variants)))
        self._intake = Intake(sources, batch, self._workers)
        self._models = LaneModels((model, *variants), batch, self._workers)
        self._chosen = self._models.lineup.choose(0)
        self._timeout_s = timeout_s
        self._deliver = deliver
        self._times = times
        self._clock = clock
        self._prepare_ns = 0
        self._changed = threading.Condition()
        self._batches = tuple(Batch() for _ in range(self._workers + 1))
        self._free: deque[Batch] = deque(self._batches)
        self._ready: deque[Batch] = deque()
        self._busy_until: dict[int, int] = {}
        self._finished_input = False
        self._stopping = False
        self._next_ticket = 0
        self._order = InOrder(self._hand_over)
        self._failure: BaseException | None = None
        loops: dict[str, Callable[[], None]] = {f"{name}-prepare": self._prepare_loop}
        for index in range(self._workers):
            loops[f"{name}-infer-{index}"] = partial(self._infer_loop, index)
        self._board = WorkBoard(tuple(loops))
        self._infer_limit_ns = infer_limit_ns(timeout_s)
        self._crew = Crew(name, loops, self._fail)
        self._intake.on_change(self._wake)

    @property
    def workers(self) -> int:
        """Inferences in flight."""
        return self._workers

    @property
    def live(self) -> bool:
        """Whether one of its cameras does not wait."""
        return self._intake.live

    @property
    def drops(self) -> Counter[tuple[str, str]]:
        """Frames that the lane left out, by camera and cause."""
        return self._intake.drops

    @property
    def capacity(self) -> int:
        """Largest batch that may form."""
        return self._models.lineup.models[0].capacity

    @property
    def models(self) -> tuple[LoadedModel, ...]:
        """The models that may look from the next batch on, the one that is meant to look first."""
        return tuple(each.model for each in self._models.lineup.models)

    def recent_times(self) -> RecentTimes:
        """What the model that is meant to look took for a frame, over the last minute."""
        return self._models.lineup.models[0].recent.times(self._clock.monotonic_ns())

    def exchange(self, models: Sequence[LoadedModel], announce: Callable[[int], None]) -> None:
        """Let other models look from the next batch on; from any thread, one at a time.

        No frame waits for it: what takes time, room for the new model's input, is made before.

        Args:
            models: the one that is meant to look, and the smaller ones that can take its place; those that the
                lane has already stay as they are.
            announce: told the number that outcomes of these models will carry, before there is one.
        """
        with self._changed:
            lineup = self._models.line_up(models)
        for batch in self._batches:
            batch.make_room(lineup.models[0])
        announce(lineup.number)
        with self._changed:
            self._models.lineup = lineup
            self._changed.notify_all()

    def let_go(self, model: LoadedModel) -> bool:
        """Forget a model that may look no more; False while a frame is still prepared for it, or looked at.

        After True the lane never touches it again, and its owner may close it.
        """
        with self._changed:
            at_work = [batch.choice.model.model for batch in self._batches if batch.choice is not None]
            if self._models.uses(model) or any(each is model for each in at_work):
                return False
            self._models.forget(model)
            for batch in self._batches:
                batch.forget(model)  # a tensor may lie in the model's own memory
        return True

    def under_way(self) -> list[UnderWay]:
        """What the lane's threads are at now; never waits for them."""
        return self._board.under_way()

    def start(self) -> None:
        """Start the threads; the sources are started by their owner.

        Raises:
            EdgeRuntimeError: the system gives no more threads; those that have started end with `stop`.
        """
        self._crew.start()

    def stop(self) -> None:
        """Take no more frames; what is being inferred is still delivered."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the threads; False when one is still running after `timeout_s`."""
        return self._crew.join(timeout_s)

    @property
    def done(self) -> bool:
        """Whether all frames were delivered and the threads have ended."""
        if self._failure is None and (failure := self._crew.stillborn()) is not None:
            self._fail(failure)
        return not self._crew.at_work

    @property
    def failure(self) -> BaseException | None:
        """The defect that ended a thread of the lane, if one did."""
        return self._failure

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """One thread has ended, and the others are not to wait for it."""
        with self._changed:
            self._failure = error
            self._stopping = self._finished_input = True
            self._changed.notify_all()

    # ---- prepare

    def _prepare_loop(self) -> None:
        while (batch := self._next_free()) is not None:
            gathered = self._gather(batch)
            if gathered is None:
                break
            choice, taken = gathered
            begun = self._clock.monotonic_ns()
            frames = self._divert_unusable(taken, choice)
            if frames:
                self._board.begin(_PREPARE, begun, PREPARE_LIMIT_NS, frames)
                batch.fill(choice, frames)
                self._board.end(_PREPARE)
                self._note_prepared(self._clock.monotonic_ns() - begun, frames)
            with self._changed:
                if frames:
                    batch.ticket = self._take_ticket()
                    self._ready.append(batch)
                else:
                    batch.empty()
                    self._free.append(batch)
                self._changed.notify_all()
        with self._changed:
            self._finished_input = True
            self._changed.notify_all()

    def _next_free(self) -> Batch | None:
        with self._changed:
            while not self._free:
                if self._stopping:
                    return None
                self._changed.wait()
            return None if self._stopping else self._free.popleft()

    def _gather(self, batch: Batch) -> tuple[Choice, list[Frame]] | None:
        """Wait for frames that should be prepared now, and for which model; None when no more will come."""
        with self._changed:
            while not self._stopping:
                now = self._clock.monotonic_ns()
                waiting = self._intake.waiting()
                hold_ns = self._hold_ns(now) if waiting else 0
                if waiting and hold_ns <= 0:
                    self._chosen = choice = self._models.lineup.choose(self.variant)
                    frames = self._intake.take(now, waiting, choice.model, self.frame_share)
                    if frames:
                        batch.choice = choice  # under the lock: from here on the model is needed
                        return choice, frames
                    continue
                if not waiting and self._intake.finished:
                    return None
                self._changed.wait(min(hold_ns / 1e9, _POLL_S) if waiting else _POLL_S)
        return None

    def _hold_ns(self, now: int) -> int:
        """How long to wait before preparing, so that a live frame is fresh when the model is free."""
        if not self.live or len(self._busy_until) < self._workers or self._ready:
            return 0
        free_at = min(self._busy_until.values())
        durations = self._chosen.model.durations
        lead = self._prepare_ns + _LEAD_MARGIN_NS + int(durations.estimate_ns(1) * _LEAD_FRACTION)
        return free_at - lead - now

    def _divert_unusable(self, frames: list[Frame], choice: Choice) -> list[Frame]:
        """Frames without a usable picture are delivered as such, in order, without asking the model."""
        usable = [frame for frame in frames if not (frame.dark or frame.frozen)]
        for frame in frames:
            if frame.dark or frame.frozen:
                reason = Unseen.DARK if frame.dark else Unseen.FROZEN
                text = f"the picture is {reason.value}"
                with self._changed:
                    ticket = self._take_ticket()
                self._order.put(ticket, unanswered(choice, ((0, frame),), reason, text))
        return usable

    def _note_prepared(self, duration_ns: int, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._times.record("decode", frame.decode_ns, (frame.source,))
            self._times.record("preprocess", duration_ns // len(frames), (frame.source,))
        self._prepare_ns = duration_ns if not self._prepare_ns else (self._prepare_ns * 3 + duration_ns) // 4

    def _take_ticket(self) -> int:
        ticket = self._next_ticket
        self._next_ticket += 1
        return ticket

    # ---- infer

    def _infer_loop(self, worker: int) -> None:
        while (batch := self._next_ready(worker)) is not None:
            self._order.put(batch.ticket, self._run(batch, worker))
            with self._changed:
                self._busy_until.pop(worker, None)
                batch.empty()
                self._free.append(batch)
                self._changed.notify_all()

    def _next_ready(self, worker: int) -> Batch | None:
        with self._changed:
            while not self._ready:
                if self._finished_input:
                    return None
                self._changed.wait()
            batch = self._ready.popleft()
            now = self._clock.monotonic_ns()
            durations = _choice_of(batch).model.durations
            self._busy_until[worker] = now + durations.estimate_ns(len(batch.frames))
            self._changed.notify_all()
            return batch

    def _run(self, batch: Batch, worker: int) -> Completed:
        choice = _choice_of(batch)
        used = choice.model
        with used.turn:
            frames = self._intake.still_fresh(batch.frames, self._clock.monotonic_ns())
            if not frames:
                return Completed(used.model, ())
            begun = self._clock.monotonic_ns()
            place = _PREPARE + 1 + worker
            self._board.begin(place, begun, self._infer_limit_ns, (frame for _, frame in frames))
            try:
                outputs = used.model.backend.infer(batch.feeds, self._timeout_s)
            except InferenceTimeout as error:
                return unanswered(choice, frames, Unseen.TIMEOUT, str(error))
            except BackendError as error:
                return unanswered(choice, frames, Unseen.ERROR, str(error))
            finally:
                self._board.end(place)
        ended = self._clock.monotonic_ns()
        with self._changed:
            used.durations.learn(len(batch.frames), ended - begun)
            self.batch_sizes[len(batch.frames)] += 1
        used.recent.add(ended, (ended - begun) // len(batch.frames))
        self._times.record("infer", ended - begun, [frame.source for _, frame in frames])
        return Completed(
            used.model,
            frames,
            batch.geometries(used),
            outputs,
            variant=choice.variant,
            lineup=choice.lineup,
        )

    def _hand_over(self, completed: Completed) -> None:
        if completed.frames:
            self._deliver(completed)


def infer_limit_ns(timeout_s: float) -> int:
    """How long a thread may be at one inference with this time limit: half of it again, at least 0.1 s, at most 1.

    A run that is cancelled ends at the next node of its graph; one that does not is stuck in a call.
    """
    return int((timeout_s + min(max(timeout_s / 2, 0.1), 1.0)) * NS_PER_S)


def _choice_of(batch: Batch) -> Choice:
    if batch.choice is None:
        raise AssertionError("a batch that is ready was prepared for a model")
    return batch.choice
