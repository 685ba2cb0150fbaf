"""Feature maps: which strides a head has, and where its cells are."""

import numpy as np
import pytest

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.decoders.grid import cell_grid, stride_of_level, strides_for
from tests.rigs.heads import grid_cells, input_spec

OPEN = HeadSpec(family="yolox", outputs=("output",))


@pytest.mark.parametrize(
    ("size", "count", "strides"),
    [
        ((640, 640), 8400, (8, 16, 32)),
        ((416, 416), 3549, (8, 16, 32)),
        ((416, 416), 3598, (8, 16, 32, 64)),  # 6.5 cells of stride 64 a side: 7, rounded up
        ((320, 320), 2125, (8, 16, 32, 64)),
        ((1280, 1280), 34000, (8, 16, 32, 64)),
        ((352, 352), 484, (16,)),
        ((384, 640), 5040, (8, 16, 32)),
    ],
)
def test_strides_follow_from_the_number_of_cells(
    size: tuple[int, int], count: int, strides: tuple[int, ...]
) -> None:
    assert strides_for(OPEN, input_spec(*size), count) == strides


def test_declared_strides_must_fit() -> None:
    head = HeadSpec(family="yolox", outputs=("output",), strides=(8, 16, 32))
    with pytest.raises(DecodeError, match="8400 cells do not fit the declared strides of a 416x416 input"):
        strides_for(head, input_spec(416, 416), 8400)
    with pytest.raises(DecodeError, match="any usual strides"):
        strides_for(OPEN, input_spec(416, 416), 1234)


def test_the_stride_of_one_map() -> None:
    assert stride_of_level(OPEN, input_spec(640, 640), 0, 1600) == 16
    declared = HeadSpec(family="yolox", outputs=("output",), strides=(8, 16))
    assert stride_of_level(declared, input_spec(640, 640), 1, 1600) == 16
    with pytest.raises(DecodeError, match="1600 cells"):
        stride_of_level(declared, input_spec(640, 640), 0, 1600)


def test_cells_come_level_by_level_row_by_row() -> None:
    spec = input_spec(48, 80)
    points, strides = cell_grid(48, 80, (16, 32), 0.5)
    expected = [(stride, row, column) for stride, row, column in grid_cells(spec, (16, 32))]
    assert strides[:, 0].tolist() == [stride for stride, _, _ in expected]
    assert points.tolist() == [[column + 0.5, row + 0.5] for _, row, column in expected]
    with pytest.raises(ValueError, match="read-only"):
        points[0] = 0
    assert np.array_equal(cell_grid(48, 80, (16, 32), 0.5)[0], points)
