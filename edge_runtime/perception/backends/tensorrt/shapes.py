"""Shapes of tensors, and which of them the optimisation profiles of an engine allow."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_runtime.errors import BackendError

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class ShapeRange:
    """What one profile allows of one input."""

    minimum: Shape
    maximum: Shape

    def holds(self, shape: Shape) -> bool:
        """Whether it allows `shape`."""
        return len(shape) == len(self.minimum) and all(
            low <= size <= high for low, size, high in zip(self.minimum, shape, self.maximum, strict=True)
        )


Profile = Mapping[str, ShapeRange]


def sizes(dims: Any) -> Shape:
    """A `tensorrt.Dims` as numbers; -1 where a size is open."""
    return tuple(int(size) for size in dims)


def dimensions(shape: Iterable[int | None]) -> str:
    """A shape for messages: 1x3x640x640."""
    return "x".join("?" if size is None else str(size) for size in shape)


def fitting(profiles: Sequence[Profile], shapes: Shapes, preferred: int) -> int:
    """The profile that allows `shapes`, `preferred` if it does.

    Raises:
        BackendError: none does; the text says what is allowed.
    """
    order = sorted(range(len(profiles)), key=lambda index: index != preferred)
    for index in order:
        if all(name in shapes and allowed.holds(shapes[name]) for name, allowed in profiles[index].items()):
            return index
    for name, shape in shapes.items():
        ranges = [profile[name] for profile in profiles if name in profile]
        if not any(allowed.holds(shape) for allowed in ranges):
            allowed = " or ".join(f"{dimensions(r.minimum)} to {dimensions(r.maximum)}" for r in ranges)
            raise BackendError(f"the engine takes {allowed} for {name}, not {dimensions(shape)}")
    raise BackendError("no optimisation profile of the engine allows these inputs together")
