"""YOLOv5, YOLOv8, YOLOX and the end-to-end heads on outputs made from known objects."""

import math
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends.base import Tensor
from tests.rigs.heads import (
    LABELS,
    THINGS,
    Thing,
    assert_found,
    decoder,
    grid_cells,
    home,
    input_spec,
    logit,
    spoiled,
)

V5 = HeadSpec(family="yolov5", outputs=("output0",))
V8 = HeadSpec(family="yolov8", outputs=("output0",))
X = HeadSpec(family="yolox", outputs=("output",))
E2E = HeadSpec(family="yolo_end2end", outputs=("output0",), nms="inside")


def v5_rows(things: tuple[Thing, ...] = THINGS, count: int = 945) -> Tensor:
    random = np.random.default_rng(1)
    rows = np.empty((1, count, 5 + LABELS), np.float32)
    rows[..., :4] = random.random((1, count, 4)) * 90
    rows[..., 4] = random.random((1, count)) * 0.2
    rows[..., 5:] = random.random((1, count, LABELS)) * 0.9
    for place, thing in zip((3, 400, 944), things, strict=True):
        rows[0, place] = [thing.cx, thing.cy, thing.w, thing.h, 0.95, *[0.01] * LABELS]
        rows[0, place, 5 + thing.label] = thing.score / 0.95
    return rows


def v8_columns(things: tuple[Thing, ...] = THINGS, count: int = 315) -> Tensor:
    random = np.random.default_rng(2)
    columns = np.empty((1, 4 + LABELS, count), np.float32)
    columns[:, :4] = random.random((1, 4, count)) * 90
    columns[:, 4:] = random.random((1, LABELS, count)) * 0.2
    for place, thing in zip((0, 100, 314), things, strict=True):
        columns[0, :4, place] = [thing.cx, thing.cy, thing.w, thing.h]
        columns[0, 4 + thing.label, place] = thing.score
    return columns


def x_rows(things: tuple[Thing, ...] = THINGS, **size: int) -> Tensor:
    spec = input_spec(**size)
    cells = grid_cells(spec, (8, 16, 32))
    random = np.random.default_rng(3)
    rows = np.empty((1, len(cells), 5 + LABELS), np.float32)
    rows[..., :4] = random.normal(0, 1, (1, len(cells), 4))
    rows[..., 4] = random.random((1, len(cells))) * 0.2
    rows[..., 5:] = random.random((1, len(cells), LABELS)) * 0.9
    for thing, stride in zip(things, (8, 16, 32), strict=True):
        place = home(thing, cells, stride)
        _, row, column = cells[place]
        rows[0, place, :4] = [
            thing.cx / stride - column,
            thing.cy / stride - row,
            math.log(thing.w / stride),
            math.log(thing.h / stride),
        ]
        rows[0, place, 4:] = [0.95, *[0.01] * LABELS]
        rows[0, place, 5 + thing.label] = thing.score / 0.95
    return rows


def e2e_rows(things: tuple[Thing, ...] = THINGS, count: int = 30) -> Tensor:
    rows = np.zeros((1, count, 6), np.float32)
    for place, thing in enumerate(things):
        rows[0, place] = [*thing.xyxy, thing.score, thing.label]
    return rows


CASES: list[Any] = [
    pytest.param(V5, v5_rows(), (0, 3, 4), (0, 3, 7), id="yolov5"),
    pytest.param(V8, v8_columns(), (0, 6, 0), (0, 1, 0), id="yolov8"),
    pytest.param(X, x_rows(), (0, 62, 4), (0, 62, 7), id="yolox"),
    pytest.param(E2E, e2e_rows(), (0, 0, 4), (0, 0, 2), id="end2end"),
]
everywhere = pytest.mark.parametrize(("head", "tensor", "score_at", "other_at"), CASES)


@everywhere
def test_the_objects_are_found(head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any) -> None:
    assert_found(decoder(head).decode([tensor], 0, 0.25), THINGS)
    assert_found(decoder(head).decode([tensor], 0, 0.6), THINGS[:2])


@everywhere
def test_transposed_double_and_squeezed(head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any) -> None:
    for variant in (
        tensor.transpose(0, 2, 1),
        np.ascontiguousarray(tensor.transpose(0, 2, 1)),
        tensor.astype(np.float64),
        tensor[0],
    ):
        assert_found(decoder(head).decode([variant], 0, 0.25), THINGS)


@everywhere
def test_half_precision(head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any) -> None:
    for variant in (tensor, tensor.transpose(0, 2, 1)):
        found = decoder(head).decode([variant.astype(np.float16)], 0, 0.25)
        assert_found(found, THINGS, pixels=0.3, score=2e-3)


@everywhere
def test_the_right_image_of_a_batch(head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any) -> None:
    batch = np.concatenate([np.zeros_like(tensor), tensor, np.zeros_like(tensor)])
    assert len(decoder(head).decode([batch], 0, 0.25).score) == 0
    assert_found(decoder(head).decode([batch], 1, 0.25), THINGS)
    with pytest.raises(DecodeError, match="holds 3 images, there is no image 3"):
        decoder(head).decode([batch], 3, 0.25)


@everywhere
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_in_a_score_or_a_box_is_counted(
    head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any, value: float
) -> None:
    for where in (score_at, other_at):
        for dtype in (np.float32, np.float16):
            found = decoder(head).decode(spoiled([tensor.astype(dtype)], 0, where, value), 0, 0.25)
            assert found.nonfinite == 1
            assert len(found.score) == 2
            assert np.isfinite(found.xyxy).all()


@everywhere
def test_an_output_of_nothing_but_nan_is_not_an_empty_answer(
    head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any
) -> None:
    # negative NaN is what x86 makes of an invalid operation
    for nan in (np.nan, -np.nan):
        for dtype in (np.float32, np.float16):
            spoilt = np.full(tensor.shape, nan, dtype)
            found = decoder(head).decode([spoilt], 0, 0.25)
            assert len(found.score) == 0
            assert found.nonfinite == max(tensor.shape[1:])


@everywhere
def test_another_label_map_is_refused(head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any) -> None:
    if head is E2E:
        with pytest.raises(DecodeError, match="class id 4, but the 4 labels start at id 0"):
            decoder(head, labels=4).decode([tensor], 0, 0.25)
    else:
        with pytest.raises(DecodeError, match=r"4 classes.*the label map does not fit"):
            decoder(head, labels=4).decode([tensor], 0, 0.25)


@everywhere
def test_other_shapes_are_refused(head: HeadSpec, tensor: Tensor, score_at: Any, other_at: Any) -> None:
    with pytest.raises(DecodeError, match="2 outputs where the head has 1"):
        decoder(head).decode([tensor, tensor], 0, 0.25)
    with pytest.raises(DecodeError, match="where 3 dimensions are needed"):
        decoder(head).decode([tensor[0, 0]], 0, 0.25)
    with pytest.raises(DecodeError, match="holds bool, not numbers"):
        decoder(head).decode([tensor > 0], 0, 0.25)


@pytest.mark.parametrize(("head", "tensor"), [(V5, v5_rows()), (V8, v8_columns()), (X, x_rows())])
def test_logits_are_refused_or_activated(head: HeadSpec, tensor: Tensor) -> None:
    logits = tensor.copy()
    part = logits[:, 4:] if head is V8 else logits[..., 4:]
    np.clip(part, 1e-4, 1 - 1e-6, out=part)
    part[...] = np.log(part / (1 - part))
    with pytest.raises(DecodeError, match="no probabilities yet"):
        decoder(head).decode([logits * 2], 0, 0.25)
    activated = head.model_copy(update={"activation": "sigmoid"})
    assert_found(decoder(activated).decode([logits], 0, 0.25), THINGS, score=1e-3)


@pytest.mark.parametrize(("head", "tensor"), [(V5, v5_rows()), (V8, v8_columns()), (X, x_rows())])
def test_a_background_class_is_skipped(head: HeadSpec, tensor: Tensor) -> None:
    shifted = head.model_copy(update={"first_class_id": 1})
    axis, first = (1, 4) if head is V8 else (2, 5)
    background = np.insert(tensor, first, 0.94, axis=axis)
    assert_found(decoder(shifted).decode([background], 0, 0.25), THINGS)


def test_as_many_cells_as_channels() -> None:
    tensor = v8_columns()[..., :9]
    found = decoder(V8).decode([tensor], 0, 0.25)
    assert_found(found, THINGS[:1])


def test_corners_in_fractions() -> None:
    tensor = v8_columns()
    for place, thing in zip((0, 100, 314), THINGS, strict=True):
        tensor[0, :4, place] = np.array(thing.xyxy) / [160, 96, 160, 96]
    head = V8.model_copy(update={"boxes": "xyxy", "normalized": True})
    assert_found(decoder(head).decode([tensor], 0, 0.25), THINGS)


def test_yolox_cells_must_fit_the_input() -> None:
    with pytest.raises(DecodeError, match="315 cells do not fit any usual strides of a 64x64 input"):
        decoder(X, input_spec(64, 64)).decode([x_rows()], 0, 0.25)


def test_yolox_with_four_strides() -> None:
    spec = input_spec(128, 192)
    cells = grid_cells(spec, (8, 16, 32, 64))
    rows = np.zeros((1, len(cells), 5 + LABELS), np.float32)
    thing = Thing(150, 70, 100, 90, label=3, score=0.8)
    place = home(thing, cells, 64)
    rows[0, place] = [150 / 64 - 2, 70 / 64 - 1, math.log(100 / 64), math.log(90 / 64), 1, 0, 0, 0, 0.8, 0]
    assert_found(decoder(X, spec).decode([rows], 0, 0.25), [thing])


def test_objectness_below_the_threshold_hides_a_nan_in_a_class() -> None:
    tensor = v5_rows()
    tensor[0, 10, 4] = 0.1
    tensor[0, 10, 6] = np.nan
    assert decoder(V5).decode([tensor], 0, 0.25).nonfinite == 0


ANCHORS = ((10.0, 13.0, 16.0, 30.0), (30.0, 61.0, 62.0, 45.0))
GRID = HeadSpec(family="yolov5", outputs=("a", "b"), anchors=ANCHORS)


def anchor_grids() -> list[Tensor]:
    """Two strides, two anchors each; one object per stride, before the sigmoid."""
    maps = []
    for level, (stride, things) in enumerate(((8, THINGS[:1]), (16, THINGS[1:2]))):
        rows, columns = 96 // stride, 160 // stride
        cube = np.full((1, 2, rows, columns, 5 + LABELS), -8, np.float32)
        for thing in things:
            row, column = int(thing.cy // stride), int(thing.cx // stride)
            width, height = ANCHORS[level][2:]
            cube[0, 1, row, column] = [
                logit((thing.cx / stride - column + 0.5) / 2),
                logit((thing.cy / stride - row + 0.5) / 2),
                logit(math.sqrt(thing.w / width) / 2),
                logit(math.sqrt(thing.h / height) / 2),
                logit(0.95),
                *[-8] * LABELS,
            ]
            cube[0, 1, row, column, 5 + thing.label] = logit(thing.score / 0.95)
        maps.append(cube)
    return maps


def test_anchor_grids() -> None:
    maps = anchor_grids()
    assert_found(decoder(GRID).decode(maps, 0, 0.25), THINGS[:2])
    stacked = [np.moveaxis(cube, 4, 2).reshape(1, -1, *cube.shape[2:4]) for cube in maps]
    assert_found(decoder(GRID).decode(stacked, 0, 0.25), THINGS[:2])
    spoilt = spoiled(maps, 0, (0, 1, 3, 2, 4), np.nan)
    assert decoder(GRID).decode(spoilt, 0, 0.25).nonfinite == 1


def test_anchor_grids_that_do_not_fit() -> None:
    maps = anchor_grids()
    with pytest.raises(DecodeError, match="1 outputs where the head has 2"):
        decoder(GRID).decode(maps[:1], 0, 0.25)
    with pytest.raises(DecodeError, match="does not hold 2 anchors of 9 channels"):
        decoder(GRID, labels=4).decode(maps, 0, 0.25)
    with pytest.raises(DecodeError, match="does not hold 2 anchors of 9 channels"):
        decoder(GRID, labels=4).decode([cube[:, 0].transpose(0, 3, 1, 2) for cube in maps], 0, 0.25)
    with pytest.raises(DecodeError, match="do not fit a 96x160 input"):
        decoder(GRID, input_spec(160, 96)).decode(maps, 0, 0.25)
    with pytest.raises(DecodeError, match="feature map of 240 cells"):
        decoder(GRID, input_spec(32, 32)).decode(maps, 0, 0.25)
