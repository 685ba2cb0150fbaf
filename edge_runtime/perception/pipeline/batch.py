"""The models of a lane, and the reusable inputs into which frames are prepared for one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline.planner import DurationModel
from edge_runtime.sources.frame import Frame


class LaneModel:
    """A model of a lane, and how long it takes.

    Args:
        model: loaded.
        batch: largest batch to form; limited by the package.

    Attributes:
        capacity: largest batch that may form.
        durations: learnt from its runs.
    """

    def __init__(self, model: LoadedModel, batch: int) -> None:
        self.model = model
        self.capacity = min(batch, model.manifest.input.batch)
        self.durations = DurationModel()


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
        variant: which of the models.
        frames: in it, in the order of the images.
        feeds: input arrays by name.
    """

    ticket: int = 0
    variant: int = 0
    frames: list[Frame] = field(default_factory=list)
    feeds: Mapping[str, Tensor] = field(default_factory=dict)
    _rooms: dict[int, _Room] = field(default_factory=dict)

    def fill(self, models: Sequence[LaneModel], variant: int, frames: list[Frame]) -> None:
        """Prepare `frames` for the model `variant`; its tensor is made when it is first needed."""
        model, room = models[variant], self._rooms.get(variant)
        if room is None:
            tensor = model.model.preprocessor.allocate(model.capacity)
            room = self._rooms[variant] = _Room(tensor, [None] * model.capacity)
        for index, frame in enumerate(frames):
            room.geometries[index] = model.model.preprocessor.fill(
                frame.image, room.tensor, index, room.geometries[index]
            )
        self.variant, self.frames = variant, frames
        self.feeds = model.model.feeds(room.tensor, len(frames))

    def geometries(self) -> tuple[Letterbox | None, ...]:
        """Where the pictures lie, by index of the image."""
        return tuple(self._rooms[self.variant].geometries)
