"""Cells of feature maps: where they are and which strides a head must have."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from edge_runtime.perception.detections import FloatArray

USUAL_STRIDES = (
    (8, 16, 32),
    (8, 16, 32, 64),
    (16, 32),
    (8, 16),
    (4, 8, 16, 32),
    (8, 16, 32, 64, 128),
    (4,),
    (8,),
    (16,),
    (32,),
)
"""Pyramids that one-stage detectors are trained with, the common ones first."""


def cells(spec: InputSpec, stride: int) -> tuple[int, int]:
    """(rows, columns) of the feature map with `stride`: convolutions with padding round up."""
    return -(-spec.height // stride), -(-spec.width // stride)


def cell_count(spec: InputSpec, strides: Sequence[int]) -> int:
    """Cells of all feature maps together."""
    return sum(rows * columns for rows, columns in (cells(spec, stride) for stride in strides))


def strides_for(head: HeadSpec, spec: InputSpec, count: int) -> tuple[int, ...]:
    """The head's strides, declared or inferred from how many cells it has.

    Raises:
        DecodeError: the count fits neither the declared nor any usual pyramid at this input size.
    """
    choices = (head.strides,) if head.strides else USUAL_STRIDES
    for strides in choices:
        if cell_count(spec, strides) == count:
            return strides
    where = "the declared strides" if head.strides else "any usual strides"
    raise DecodeError(
        f"{head.family}: {count} cells do not fit {where} of a {spec.width}x{spec.height} input: "
        "the input size or the strides of the manifest are wrong"
    )


def stride_of_level(head: HeadSpec, spec: InputSpec, level: int, count: int) -> int:
    """The stride of one feature map among several, declared or inferred from its number of cells.

    Raises:
        DecodeError: no stride gives that many cells.
    """
    choices = head.strides[level : level + 1] if head.strides else (4, 8, 16, 32, 64, 128)
    for stride in choices:
        if cell_count(spec, (stride,)) == count:
            return stride
    raise DecodeError(
        f"{head.family}: a feature map of {count} cells does not fit a {spec.width}x{spec.height} input: "
        "the input size or the strides of the manifest are wrong"
    )


@lru_cache(maxsize=64)
def cell_grid(
    height: int, width: int, strides: tuple[int, ...], offset: float
) -> tuple[FloatArray, FloatArray]:
    """Anchor points of all cells in the order in which heads concatenate them: level, row, column.

    Args:
        height: of the model input, in pixels.
        width: of the model input, in pixels.
        strides: of the feature maps.
        offset: where in its cell the point sits; 0 is the corner, 0.5 the middle.

    Returns:
        (N, 2) x and y in cells, and (N, 1) stride in pixels: pixels are their product. Shared, read-only.
    """
    points, sizes = [], []
    for stride in strides:
        rows, columns = -(-height // stride), -(-width // stride)
        y, x = np.mgrid[:rows, :columns]
        points.append(np.stack([x.ravel(), y.ravel()], 1) + offset)
        sizes.append(np.full((rows * columns, 1), stride))
    grid = np.concatenate(points).astype(np.float32), np.concatenate(sizes).astype(np.float32)
    for array in grid:
        array.setflags(write=False)
    return grid
