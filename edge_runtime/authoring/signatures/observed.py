"""What a recogniser looks at, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends import Tensor
from edge_runtime.qualification.sizes import Size

PYRAMIDS: Final = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (16, 32), (8, 16), (8, 16, 32, 64, 128))
"""Strides that one-stage detectors predict at, the common ones first."""

_SLACK: Final = 0.02
"""Quantised probabilities leave 0..1 by a little."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A graph that was run once on a picture.

    Attributes:
        outputs: arrays by name, in the graph's order, with a batch axis of 1 where the graph has one.
        size: of the input, height and width.
        classes: number of classes where something tells it (metadata, a label file, the graph), or None.
        has_size_input: the graph takes the picture's size as a second input.
    """

    outputs: Mapping[str, Tensor]
    size: Size
    classes: int | None = None
    has_size_input: bool = False

    def cells(self, strides: Sequence[int]) -> int:
        """Cells of all feature maps with these strides; convolutions with padding round up."""
        height, width = self.size
        return sum(-(-height // stride) * -(-width // stride) for stride in strides)

    def pyramid(self, count: int) -> tuple[tuple[int, ...], int] | None:
        """Strides and anchors per cell (1 or 3) that give `count` candidates, or None."""
        for anchors in (1, 3):
            for strides in PYRAMIDS:
                if self.cells(strides) * anchors == count:
                    return strides, anchors
        return None


@dataclass(frozen=True, slots=True)
class Match:
    """A head that fits what was observed.

    Attributes:
        head: for the manifest.
        kind: which preprocessing convention usually goes with it.
        classes: that the head distinguishes, or None where its outputs do not tell.
        certain: no other known head looks like this.
        why: the evidence.
    """

    head: HeadSpec
    kind: str
    classes: int | None
    certain: bool
    why: str


def shape_text(tensor: Tensor) -> str:
    """`1x84x8400`."""
    return "x".join(str(size) for size in tensor.shape) or "scalar"


def classes_text(classes: int) -> str:
    """`1 class`, `80 classes`."""
    return "1 class" if classes == 1 else f"{classes} classes"


def probabilities(values: Tensor) -> bool:
    """Whether all finite values lie in 0..1; a tensor without any (a broken model) is given the doubt."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    return bool(finite.size == 0 or (finite.min() >= -_SLACK and finite.max() <= 1 + _SLACK))


def whole_numbers(values: Tensor) -> bool:
    """Whether all finite values are integers that are not negative."""
    if values.dtype.kind in "iu":
        return bool((values >= 0).all())
    finite = values[np.isfinite(values)]
    return bool((finite == np.rint(finite)).all() and (finite >= 0).all())


def beyond_unit(values: Tensor) -> bool:
    """Whether boxes are in pixels: fractions of a picture reach a little over 1, pixels go much further."""
    finite = values[np.isfinite(values)]
    return bool(finite.size and np.abs(finite).max() > 4)
