"""The models of a lane: the one meant to look, the smaller ones in its place, and how others take theirs."""

import contextlib
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline.planner import DurationModel
from edge_runtime.perception.pipeline.recent import Recent

RECENT_NS = 60 * NS_PER_S


class LaneModel:
    """A model of a lane, and how long it takes.

    Args:
        model: loaded.
        batch: largest batch to form; limited by the package.
        workers: of the lane; a backend that allows fewer runs at once lets them wait for each other.
        durations: of a model that it takes the place of, until its own are known.

    Attributes:
        capacity: largest batch that may form.
        durations: learnt from its runs.
        recent: what it took for a frame, lately.
        turn: is held while it runs.
    """

    def __init__(
        self, model: LoadedModel, batch: int, workers: int, durations: DurationModel | None = None
    ) -> None:
        self.model = model
        self.capacity = min(batch, model.manifest.input.batch)
        self.durations = DurationModel() if durations is None else durations.copy()
        self.recent = Recent(RECENT_NS)
        most = model.backend.in_flight
        self.turn: AbstractContextManager[object] = (
            contextlib.nullcontext() if most is None or most >= workers else threading.BoundedSemaphore(most)
        )


@dataclass(frozen=True, slots=True)
class Lineup:
    """The models that a lane may choose from; another one takes its place between two batches.

    Attributes:
        number: 0 for the one that the lane began with; each later one has another.
        models: the one that is meant to look, and the smaller ones that can take its place.
    """

    number: int
    models: tuple[LaneModel, ...]

    def choose(self, variant: int) -> "Choice":
        """The model `variant`; beyond the last one the last one."""
        chosen = min(variant, len(self.models) - 1)
        return Choice(self.number, chosen, self.models[chosen])


@dataclass(frozen=True, slots=True)
class Choice:
    """Which model prepares and infers a batch.

    Attributes:
        lineup: number of the lineup that it was chosen from.
        variant: its place there.
    """

    lineup: int
    variant: int
    model: LaneModel


class LaneModels:
    """What a lane knows of its models. Not safe from several threads: the lane's lock is held.

    Args:
        models: the one that is meant to look, and the smaller ones.
        batch: largest batch to form.
        workers: of the lane.

    Attributes:
        lineup: from which the next batch's model is chosen.
    """

    def __init__(self, models: Sequence[LoadedModel], batch: int, workers: int) -> None:
        self._batch, self._workers = batch, workers
        self._known = {id(model): LaneModel(model, batch, workers) for model in models}
        self.lineup = Lineup(0, tuple(self._known[id(model)] for model in models))

    def line_up(self, models: Sequence[LoadedModel]) -> Lineup:
        """A lineup to take the present one's place; what is known of a model's times is kept."""
        durations = self.lineup.models[0].durations
        for model in models:
            if id(model) not in self._known:
                self._known[id(model)] = LaneModel(model, self._batch, self._workers, durations)
        return Lineup(self.lineup.number + 1, tuple(self._known[id(model)] for model in models))

    def uses(self, model: LoadedModel) -> bool:
        """Whether the present lineup has a model."""
        return any(each.model is model for each in self.lineup.models)

    def forget(self, model: LoadedModel) -> None:
        """A model is to be closed."""
        self._known.pop(id(model), None)
