"""What a lane takes of its cameras: which frames wait, which are due, and which heat or age leaves out."""

from collections import Counter
from collections.abc import Callable, Sequence

from edge_runtime.perception.pipeline.lineup import LaneModel
from edge_runtime.perception.pipeline.planner import BatchPlanner, Waiting
from edge_runtime.perception.pipeline.supply import LaneSource
from edge_runtime.perception.pipeline.thinning import Thinning
from edge_runtime.sources.frame import Frame
from edge_runtime.sources.mailbox import DropCause


class Intake:
    """Takes frames of several cameras, fairly.

    Frames are taken by one thread at a time; `still_fresh` may be asked from any.

    Args:
        sources: the cameras.
        batch: most frames at once.
        workers: inferences in flight.

    Attributes:
        drops: frames that it left out, by camera and cause.
        live: whether one of the cameras does not wait.
    """

    def __init__(self, sources: Sequence[LaneSource], batch: int, workers: int) -> None:
        self.drops: Counter[tuple[str, str]] = Counter()
        self.live = any(source.max_age_ns is not None for source in sources)
        self._sources, self._workers = tuple(sources), workers
        self._max_age = {source.runner.name: source.max_age_ns for source in self._sources}
        self._taken = [0] * len(self._sources)
        self._thinning = [Thinning() for _ in self._sources]
        self._planner = BatchPlanner(len(self._sources), batch)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back, from any thread, when a frame arrives or a camera ends."""
        for source in self._sources:
            source.runner.on_change(callback)

    def waiting(self) -> list[Waiting]:
        """The frames that could be taken now."""
        found = []
        for index, source in enumerate(self._sources):
            capture_ns = None if self._exhausted(index) else source.runner.waiting()
            if capture_ns is not None:
                found.append(Waiting(index, capture_ns, source.max_age_ns))
        return found

    def take(self, now_ns: int, waiting: Sequence[Waiting], model: LaneModel, share: float) -> list[Frame]:
        """The frames for one batch of a model; empty where those that were due are left out.

        Args:
            now_ns: monotonic.
            waiting: from `waiting`.
            model: that will look at them.
            share: of the work on live cameras that may be done, above 0, at most 1.
        """
        frames = []
        for index in self._planner.plan(now_ns, waiting, model.durations)[: model.capacity]:
            frame = self._sources[index].runner.poll()
            self._planner.served(index)
            if frame is not None and self._wants(index, frame, model, share):
                self._taken[index] += 1
                frames.append(frame)
        return frames

    @property
    def finished(self) -> bool:
        """No frame will come any more."""
        return all(
            self._exhausted(index) or source.runner.finished for index, source in enumerate(self._sources)
        )

    def still_fresh(self, frames: Sequence[Frame], now_ns: int) -> tuple[tuple[int, Frame], ...]:
        """The frames with their places; one that outlived its age limit meanwhile is dropped and counted."""
        fresh = []
        for index, frame in enumerate(frames):
            limit = self._max_age[frame.source]
            if limit is None or now_ns - frame.capture_ns <= limit:
                fresh.append((index, frame))
            else:
                self.drops[frame.source, DropCause.TOO_OLD.value] += 1
        return tuple(fresh)

    def _wants(self, index: int, frame: Frame, model: LaneModel, share: float) -> bool:
        """Whether heat allows this frame; a recording is never thinned."""
        if self._sources[index].max_age_ns is None:
            return True
        together = min(len(self._sources), model.capacity)
        rounds = -(-len(self._sources) // model.capacity)
        work_ns = model.durations.estimate_ns(together) * rounds // self._workers
        if self._thinning[index].wants(frame, share, work_ns):
            return True
        self.drops[frame.source, DropCause.THERMAL.value] += 1
        return False

    def _exhausted(self, index: int) -> bool:
        limit = self._sources[index].limit
        return limit is not None and self._taken[index] >= limit
