"""Outputs of detection heads made from known objects, by the formulas that the decoders invert."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.decoders import Candidates, HeadDecoder, make_decoder

LABELS = 5


def input_spec(height: int = 96, width: int = 160, **fields: Any) -> InputSpec:
    """A small input that is not square, so that swapped axes show."""
    return InputSpec(**{"name": "images", "height": height, "width": width, **fields})


@dataclass(frozen=True)
class Thing:
    """One object in model pixels."""

    cx: float
    cy: float
    w: float
    h: float
    label: int = 0
    score: float = 0.9

    @property
    def xyxy(self) -> tuple[float, float, float, float]:
        """Corners."""
        return (
            self.cx - self.w / 2,
            self.cy - self.h / 2,
            self.cx + self.w / 2,
            self.cy + self.h / 2,
        )


THINGS = (
    Thing(20, 30, 24, 40, label=2, score=0.9),
    Thing(100, 50, 60.5, 33, label=0, score=0.75),
    Thing(140, 80, 30, 16, label=4, score=0.5),
)


def decoder(head: HeadSpec, spec: InputSpec | None = None, labels: int = LABELS) -> HeadDecoder:
    """A decoder for the small input."""
    return make_decoder(head, spec or input_spec(), labels)


def assert_found(
    found: Candidates, things: Sequence[Thing], *, pixels: float = 0.01, score: float = 1e-4
) -> None:
    """The candidates are exactly these objects, in any order."""
    order = sorted(range(len(found.score)), key=lambda index: -found.score[index])
    wanted = sorted(things, key=lambda thing: -thing.score)
    assert [int(found.label[index]) for index in order] == [thing.label for thing in wanted]
    assert found.xyxy.dtype == np.float32
    assert found.score.dtype == np.float32
    assert found.label.dtype == np.int64
    expected = np.array([thing.xyxy for thing in wanted]).reshape(-1, 4)
    np.testing.assert_allclose(found.xyxy[order], expected, atol=pixels)
    np.testing.assert_allclose(found.score[order], [thing.score for thing in wanted], atol=score)


def grid_cells(spec: InputSpec, strides: Sequence[int]) -> list[tuple[int, int, int]]:
    """(stride, row, column) of every cell in the usual order."""
    return [
        (stride, row, column)
        for stride in strides
        for row in range(math.ceil(spec.height / stride))
        for column in range(math.ceil(spec.width / stride))
    ]


def home(thing: Thing, cells: Sequence[tuple[int, int, int]], stride: int) -> int:
    """Index of the cell of `stride` that holds an object's centre."""
    return list(cells).index((stride, int(thing.cy // stride), int(thing.cx // stride)))


def logit(probability: float) -> float:
    """Inverse of the logistic function."""
    return math.log(probability / (1 - probability))


Spoil = Callable[[Tensor], None]


def spoiled(tensors: Sequence[Tensor], position: int, where: Any, value: float) -> list[Tensor]:
    """A copy of the outputs with one number replaced."""
    copies = [tensor.copy() for tensor in tensors]
    copies[position][where] = value
    return copies
