"""Frames of a lane on their way through a model, and the reusable inputs into which they are prepared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline.lineup import Choice, LaneModel
from edge_runtime.sources.frame import Frame


@dataclass(slots=True)
class _Room:
    """A reusable input tensor of one model, and where in it the pictures lie."""

    tensor: Tensor
    geometries: list[Letterbox | None]


@dataclass(slots=True)
class Batch:
    """Frames prepared for one of a lane's models.

    Attributes:
        ticket: its place in the order of the results.
        choice: for which of the models; None while it is free.
        frames: in it, in the order of the images.
        feeds: input arrays by name.
    """

    ticket: int = 0
    choice: Choice | None = None
    frames: list[Frame] = field(default_factory=list)
    feeds: Mapping[str, Tensor] = field(default_factory=dict)
    _rooms: dict[LaneModel, _Room] = field(default_factory=dict)

    def make_room(self, model: LaneModel) -> _Room:
        """The tensor for a model, which is made when it is first asked for."""
        room = self._rooms.get(model)
        if room is None:
            tensor = model.model.preprocessor.allocate(model.capacity)
            room = self._rooms[model] = _Room(tensor, [None] * model.capacity)
        return room

    def fill(self, choice: Choice, frames: Sequence[Frame]) -> None:
        """Prepare `frames` for the model that was chosen."""
        model, room = choice.model, self.make_room(choice.model)
        for index, frame in enumerate(frames):
            room.geometries[index] = model.model.preprocessor.fill(
                frame.image, room.tensor, index, room.geometries[index]
            )
        self.choice, self.frames = choice, list(frames)
        self.feeds = model.model.feeds(room.tensor, len(frames))

    def geometries(self, model: LaneModel) -> tuple[Letterbox | None, ...]:
        """Where the pictures lie in a model's tensor, by index of the image."""
        return tuple(self._rooms[model].geometries)

    def empty(self) -> None:
        """Its frames were looked at."""
        self.choice, self.frames, self.feeds = None, [], {}

    def forget(self, model: LoadedModel) -> None:
        """Free the tensor for a model that looks no more."""
        for known in [each for each in self._rooms if each.model is model]:
            del self._rooms[known]
