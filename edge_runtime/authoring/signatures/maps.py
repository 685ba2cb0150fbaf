"""Heads with feature maps or tensors per stride: NanoDet, PicoDet, FastestDet, CenterFace, YuNet."""

import re
from collections.abc import Iterator
from typing import Final

from edge_runtime.authoring.signatures.observed import (
    PYRAMIDS,
    Match,
    Observed,
    classes_text,
    probabilities,
    shape_text,
)
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends import Tensor

Named = tuple[str, Tensor]

_KEYPOINTS: Final = 10  # five points of a face


def map_matches(observed: Observed) -> Iterator[Match]:
    """Every head of this kind that the outputs could be."""
    named = list(observed.outputs.items())
    if any(tensor.ndim not in (3, 4) or len(tensor) != 1 for _, tensor in named):
        return
    if len(named) == 1:
        yield from _fastestdet(observed, *named[0])
        return
    yield from _centerface(observed, named)
    yield from _yunet(observed, named)
    yield from _nanodet(observed, named)


def _fastestdet(observed: Observed, name: str, tensor: Tensor) -> Iterator[Match]:
    if tensor.ndim != 4 or tensor.shape[1] < 6:
        return
    rows, columns = tensor.shape[2:]
    stride = next((s for s in (8, 16, 32) if observed.cells((s,)) == rows * columns), None)
    scores = tensor[0, 5:]
    if stride is None or not probabilities(scores) or not probabilities(tensor[0, 0]):
        return
    classes = tensor.shape[1] - 5
    head = HeadSpec(family="fastestdet", outputs=(name,), strides=(stride,))
    what = f"one map of stride {stride} with objectness, box and {classes_text(classes)}"
    why = f"{name} is {shape_text(tensor)}: {what}"
    yield Match(head, "fastestdet", classes, certain=True, why=why)


def _centerface(observed: Observed, named: list[Named]) -> Iterator[Match]:
    if len(named) not in (3, 4) or any(tensor.ndim != 4 for _, tensor in named):
        return
    if len({tensor.shape[2:] for _, tensor in named}) != 1:
        return
    rows, columns = named[0][1].shape[2:]
    stride = next((s for s in (4, 8) if observed.cells((s,)) == rows * columns), None)
    heat = [item for item in named if item[1].shape[1] not in (2, _KEYPOINTS) and probabilities(item[1])]
    pairs = [item for item in named if item[1].shape[1] == 2]
    points = [item for item in named if item[1].shape[1] == _KEYPOINTS]
    if stride is None or len(heat) != 1 or len(pairs) != 2 or len(heat + pairs + points) != len(named):
        return
    offset_named = [item for item in pairs if re.search(r"off|reg", item[0], re.IGNORECASE)]
    certain = len(offset_named) == 1
    if certain and offset_named[0] is pairs[0]:
        pairs.reverse()
    classes = heat[0][1].shape[1]
    outputs = tuple(name for name, _ in (*heat, *pairs, *points))
    head = HeadSpec(family="centerface", outputs=outputs, strides=(stride,))
    order = "by their names" if certain else "in the usual order size, offset"
    why = f"a heat map of stride {stride}, two maps of pairs ({order}) and {len(points)} of face points"
    yield Match(head, "centerface", classes, bool(points) and stride == 4, why)


def _levels(observed: Observed, count: int) -> tuple[tuple[int, ...], list[int]] | None:
    """Strides of a pyramid with `count` levels, and the cells of each."""
    for strides in PYRAMIDS:
        if len(strides) == count:
            return strides, [observed.cells((stride,)) for stride in strides]
    return None


def _cells_and_channels(tensor: Tensor, cells: list[int]) -> tuple[int, int] | None:
    """(cells, channels) of a list (1, N, C), a list (1, C, N) or a map (1, C, H, W)."""
    if tensor.ndim == 4:
        return tensor.shape[2] * tensor.shape[3], tensor.shape[1]
    if tensor.shape[1] in cells:
        return tensor.shape[1], tensor.shape[2]
    if tensor.shape[2] in cells:
        return tensor.shape[2], tensor.shape[1]
    return None


def _yunet(observed: Observed, named: list[Named]) -> Iterator[Match]:
    """Per stride a class score, an objectness, a box and five points; score and objectness look the same."""
    if len(named) not in (9, 12):
        return
    pyramid = _levels(observed, 3)
    if pyramid is None:
        return
    strides, cells = pyramid
    groups: list[list[Named]] = []
    for count in cells:
        level = [
            item
            for item in named
            if _cells_and_channels(item[1], [count]) in [(count, c) for c in (1, 4, 10)]
        ]
        groups.append(level)
    if any(len(level) != len(named) // 3 for level in groups):
        return
    columns: dict[str, list[str]] = {"class": [], "objectness": [], "box": [], "points": []}
    by_name = True
    for count, level in zip(cells, groups, strict=True):
        channels = {name: (_cells_and_channels(tensor, [count]) or (0, 0))[1] for name, tensor in level}
        singles = [name for name, width in channels.items() if width == 1]
        if len(singles) != 2:
            return
        objectness = [name for name in singles if re.search(r"obj|iou", name, re.IGNORECASE)]
        by_name = by_name and len(objectness) == 1
        if len(objectness) == 1 and objectness[0] == singles[0]:
            singles.reverse()
        columns["class"].append(singles[0])
        columns["objectness"].append(singles[1])
        columns["box"] += [name for name, width in channels.items() if width == 4]
        columns["points"] += [name for name, width in channels.items() if width == _KEYPOINTS]
    outputs = tuple(name for column in columns.values() for name in column)
    if len(outputs) != len(named):
        return
    head = HeadSpec(family="yunet", outputs=outputs, strides=strides)
    order = "told apart by name" if by_name else "taken in the usual order"
    why = f"class score, objectness ({order}), box and points for the strides 8, 16, 32"
    yield Match(head, "yunet", 1, certain=True, why=why)


def _nanodet(observed: Observed, named: list[Named]) -> Iterator[Match]:
    """Per stride the class scores and the distribution of the four sides."""
    if len(named) % 2 or len(named) < 4:
        return
    pyramid = _levels(observed, len(named) // 2)
    if pyramid is None:
        return
    strides, cells = pyramid
    scores: list[str] = []
    sides: list[str] = []
    widths: set[tuple[int, int]] = set()
    raw = False
    for count in cells:
        level = [(name, tensor) for name, tensor in named if _is_level(tensor, count)]
        if len(level) != 2:
            return
        level.sort(key=lambda item: not probabilities(item[1]))  # stable: scores before logits
        score, side = level
        raw = raw or not probabilities(score[1])
        scores.append(score[0])
        sides.append(side[0])
        widths.add(tuple((_cells_and_channels(t, [count]) or (0, 0))[1] for t in (score[1], side[1])))  # type: ignore[arg-type]
    if len(widths) != 1:
        return
    classes, bins = widths.pop()
    if bins % 4 or bins < 8:
        return
    head = HeadSpec(
        family="nanodet",
        outputs=(*scores, *sides),
        strides=strides,
        reg_max=bins // 4 - 1,
        activation="sigmoid" if raw else None,
    )
    kind = "picodet" if len(strides) == 4 else "nanodet"
    levels = ", ".join(map(str, strides))
    why = f"scores of {classes_text(classes)} and 4 x {bins // 4} bins for each of the strides {levels}"
    yield Match(head, kind, classes, certain=True, why=why)


def _is_level(tensor: Tensor, count: int) -> bool:
    size = _cells_and_channels(tensor, [count])
    return size is not None and size[0] == count
