"""Heads that score every cell in one tensor: YOLOv5, YOLOv8, YOLOX, NanoDet in one piece."""

from collections.abc import Iterator

import numpy as np

from edge_runtime.authoring.signatures.observed import (
    Match,
    Observed,
    beyond_unit,
    classes_text,
    probabilities,
    shape_text,
)
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends import Tensor

_USUAL_CLASSES = 80  # COCO, which most published detectors know
_DISTRIBUTION = 32  # 4 sides x 8 bins, in all published NanoDet and PicoDet models

_COCO_ANCHORS = (
    (10.0, 13.0, 16.0, 30.0, 33.0, 23.0),
    (30.0, 61.0, 62.0, 45.0, 59.0, 119.0),
    (116.0, 90.0, 156.0, 198.0, 373.0, 326.0),
)
"""Anchors of the published YOLOv5 models in pixels (ultralytics/yolov5 `models/yolov5n.yaml`)."""


def dense_matches(observed: Observed) -> Iterator[Match]:
    """Every dense head that the outputs could be."""
    flat = [
        (name, tensor) for name, tensor in observed.outputs.items() if tensor.ndim == 3 and len(tensor) == 1
    ]
    grids = [(name, tensor) for name, tensor in observed.outputs.items() if tensor.ndim == 5]
    if len(flat) == 1 and len(flat) + len(grids) == len(observed.outputs):
        yield from _single(observed, *flat[0])
    elif not flat and len(grids) == len(observed.outputs) == len(_COCO_ANCHORS):
        yield from _anchor_grids(observed, grids)


def _single(observed: Observed, name: str, tensor: Tensor) -> Iterator[Match]:
    rows, columns = tensor.shape[1:]
    by_column, by_row = observed.pyramid(columns), observed.pyramid(rows)
    if by_column is not None and by_row is None and by_column[1] == 1:
        yield from _anchor_free(name, tensor[0].T, tensor, "candidates in columns", certain=True)
    elif by_row is not None and by_row[1] == 3:
        yield from _anchored(name, tensor, columns)
    elif by_column is not None and by_column[1] == 3:
        yield from _anchored(name, tensor, rows)
    elif by_row is not None:
        yield from _one_per_cell(observed, name, tensor, by_row[0])


def _anchored(name: str, tensor: Tensor, channels: int) -> Iterator[Match]:
    if channels < 6:
        return
    cube = tensor[0] if tensor.shape[2] == channels else tensor[0].T
    head = HeadSpec(
        family="yolov5",
        outputs=(name,),
        activation=None if probabilities(cube[:, 4:]) else "sigmoid",
    )
    what = f"three anchors per cell, a box, objectness and {classes_text(channels - 5)}"
    why = f"{name} is {shape_text(tensor)}: {what}"
    yield Match(head, "yolov5", channels - 5, certain=True, why=why)


def _anchor_free(name: str, rows: Tensor, tensor: Tensor, order: str, *, certain: bool) -> Iterator[Match]:
    classes = rows.shape[1] - 4
    if classes < 1:
        return
    head = HeadSpec(
        family="yolov8",
        outputs=(name,),
        activation=None if probabilities(rows[:, 4:]) else "sigmoid",
        normalized=None if beyond_unit(rows[:, :4]) or not np.isfinite(rows[:, :4]).any() else True,
    )
    why = f"{name} is {shape_text(tensor)}: one anchor per cell, a box and {classes_text(classes)}, {order}"
    yield Match(head, "yolov8", classes, certain=certain, why=why)


def _one_per_cell(observed: Observed, name: str, tensor: Tensor, strides: tuple[int, ...]) -> Iterator[Match]:
    """(1, cells, channels): values and class count tell which of several families it is."""
    rows = tensor[0]
    matches: list[Match] = []
    if rows.shape[1] >= 6 and probabilities(rows[:, 4:]):
        matches.append(_with_objectness(observed, name, tensor, strides))
        if matches[0].head.family != "yolox":
            matches += _anchor_free(name, rows, tensor, "candidates in rows", certain=False)
    matches += _distribution_rows(name, tensor, strides)
    known = _USUAL_CLASSES if observed.classes is None else observed.classes
    fitting = [match for match in matches if match.classes == known]
    if len(fitting) == 1 and observed.classes is not None:
        why = f"{fitting[0].why}; {classes_text(known)} known"
        yield Match(fitting[0].head, fitting[0].kind, fitting[0].classes, certain=True, why=why)
    else:
        yield from fitting or matches


def _with_objectness(observed: Observed, name: str, tensor: Tensor, strides: tuple[int, ...]) -> Match:
    rows = tensor[0].astype(np.float32)
    classes = rows.shape[1] - 5
    shape = (
        f"{name} is {shape_text(tensor)}: one anchor per cell, a box, objectness and {classes_text(classes)}"
    )
    # Decoded centres reach across the picture, whatever is in it; offsets from a cell stay around 0.
    if not (rows[:, 0] > observed.size[1] / 2).any():
        head = HeadSpec(family="yolox", outputs=(name,), strides=strides)
        why = f"{shape}; boxes are relative to their cell"
        return Match(head, "yolox", classes, certain=True, why=why)
    head = HeadSpec(family="yolov5", outputs=(name,))
    if np.ptp(rows[:, 4]) == 0:
        why = f"{shape}; boxes in pixels and a constant objectness, as YOLOv6 writes them"
        return Match(head, "yolov8", classes, certain=False, why=why)
    why = f"{shape}; boxes in pixels, as YOLOX with its decoding inside the graph writes them"
    return Match(head, "yolox", classes, certain=False, why=why)


def _distribution_rows(name: str, tensor: Tensor, strides: tuple[int, ...]) -> Iterator[Match]:
    rows = tensor[0]
    classes = rows.shape[1] - _DISTRIBUTION
    if classes < 1 or not probabilities(rows[:, :classes]) or probabilities(rows[:, classes:]):
        return
    head = HeadSpec(family="nanodet", outputs=(name,), strides=strides, reg_max=_DISTRIBUTION // 4 - 1)
    why = f"{name} is {shape_text(tensor)}: scores of {classes_text(classes)}, then 4 x 8 bins of a distribution"
    yield Match(head, "nanodet", classes, certain=True, why=why)


def _anchor_grids(observed: Observed, grids: list[tuple[str, Tensor]]) -> Iterator[Match]:
    """One (1, 3, H, W, 5 + C) per stride, before the sigmoid; the anchors are not in the outputs."""
    ordered = sorted(grids, key=lambda item: -item[1].shape[2] * item[1].shape[3])
    channels = {tensor.shape[4] for _, tensor in ordered}
    cells = [tensor.shape[2] * tensor.shape[3] for _, tensor in ordered]
    fits = cells == [observed.cells((stride,)) for stride in (8, 16, 32)]
    if len(channels) != 1 or not fits or any(tensor.shape[1] != 3 for _, tensor in ordered):
        return
    classes = channels.pop() - 5
    head = HeadSpec(
        family="yolov5",
        outputs=tuple(name for name, _ in ordered),
        strides=(8, 16, 32),
        anchors=_COCO_ANCHORS,
    )
    why = (
        "three grids of anchor boxes; the anchors are those of the published models, since the file has none"
    )
    yield Match(head, "yolov5", classes, certain=False, why=why)
