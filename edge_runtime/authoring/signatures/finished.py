"""Heads that give finished boxes: end-to-end YOLO, SSD with NMS inside, the DETR kind, boxes beside scores."""

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from edge_runtime.authoring.signatures.observed import (
    Match,
    Observed,
    beyond_unit,
    classes_text,
    probabilities,
    shape_text,
    whole_numbers,
)
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends import Tensor

_MOST_QUERIES: Final = 1000
"""Finished heads give a few hundred rows; dense ones give thousands."""

_MOST_CLASSES: Final = 2000
"""LVIS has 1203; thousands of columns are candidates, not classes."""

_FIRST_DETR_CLASSES: Final = 92

Named = tuple[str, Tensor]


def finished_matches(observed: Observed) -> Iterator[Match]:
    """Every finished head that the outputs could be."""
    named = list(observed.outputs.items())
    if len(named) == 1:
        yield from _single(observed, *named[0])
    elif len(named) == 2:
        yield from _boxes_and_scores(named)
    elif len(named) in (3, 4):
        yield from _boxes_scores_ids(observed, named)


def _single(observed: Observed, name: str, tensor: Tensor) -> Iterator[Match]:
    if tensor.ndim == 4 and tensor.shape[:2] == (1, 1) and tensor.shape[3] == 7:
        head = HeadSpec(family="ssd", outputs=(name,), nms="inside", first_class_id=1)
        why = f"{name} is {shape_text(tensor)}: image, class, score and box in each row (DetectionOutput)"
        yield Match(head, "ssd", None, certain=True, why=why)
    if tensor.ndim != 3 or len(tensor) != 1:
        return
    rows = tensor[0]
    dense = observed.pyramid(len(rows)) or observed.pyramid(rows.shape[1])
    if len(rows) > _MOST_QUERIES or dense is not None:
        return
    if rows.shape[1] == 6 and probabilities(rows[:, 4]) and whole_numbers(rows[:, 5]):
        pixels = beyond_unit(rows[:, :4]) or not rows[:, 4].any() or not np.isfinite(rows).any()
        normalized = None if pixels else True
        head = HeadSpec(family="yolo_end2end", outputs=(name,), nms="inside", normalized=normalized)
        why = f"{name} is {shape_text(tensor)}: corners, score and class id in each row"
        yield Match(head, "yolov8", None, certain=True, why=why)
        return
    classes = rows.shape[1] - 4
    if 1 <= classes <= _MOST_CLASSES and observed.classes in (None, classes):
        head = HeadSpec(
            family="detr",
            outputs=(name,),
            nms="inside",
            activation=None if probabilities(rows[:, 4:]) else "sigmoid",
            normalized=False if beyond_unit(rows[:, :4]) else None,
        )
        why = f"{name} is {shape_text(tensor)}: a box and {classes_text(classes)} per query"
        yield Match(head, "detr", classes, certain=True, why=why)


def _boxes_and_scores(named: list[Named]) -> Iterator[Match]:
    """(1, N, 4) and (1, N, C): queries of a DETR, or candidates of an SSD without its NMS."""
    if any(tensor.ndim != 3 or len(tensor) != 1 for _, tensor in named):
        return
    boxes = [item for item in named if item[1].shape[2] == 4]
    if len(boxes) == 2:  # four classes: the boxes are named so, or come last as in logits, boxes
        boxes = [item for item in boxes if "box" in item[0].lower()] or boxes[1:]
    if not boxes:
        return
    box_name, box = boxes[0]
    score_name, score = next(item for item in named if item[0] != box_name)
    if score.shape[1] != box.shape[1]:
        return
    shapes = f"{score_name} is {shape_text(score)} and {box_name} is {shape_text(box)}"
    channels = score.shape[2]
    if box.shape[1] <= _MOST_QUERIES and not probabilities(score):
        # The first DETR has a class for "no object" after COCO's 91 and takes a softmax.
        softmax = channels == _FIRST_DETR_CLASSES
        activation: Literal["softmax"] | None = "softmax" if softmax else None
        head = HeadSpec(family="detr", outputs=(score_name, box_name), nms="inside", activation=activation)
        why = f"{shapes}: logits and boxes of {box.shape[1]} queries"
        yield Match(head, "detr", channels - int(softmax), certain=not softmax, why=why)
        return
    if not probabilities(score):
        return
    pixels = beyond_unit(box)
    background = channels >= 2 and _sums_to_one(score)
    head = HeadSpec(
        family="ultraface",
        outputs=(score_name, box_name),
        first_class_id=1 if background else 0,
        normalized=False if pixels else None,
    )
    kind = "yolov8" if pixels else "ultraface"
    first = "the background and " if background else ""
    classes = channels - (1 if background else 0)
    face = background and classes == 1 and not pixels
    yield Match(
        head, kind, classes, face, f"{shapes}: {first}{classes_text(classes)}, and corners, per candidate"
    )


def _sums_to_one(score: Tensor) -> bool:
    sums = score[0].astype(np.float32).sum(1)
    finite = sums[np.isfinite(sums)]
    return bool(finite.size == 0 or np.abs(finite - 1).max() < 0.02)


def _boxes_scores_ids(observed: Observed, named: list[Named]) -> Iterator[Match]:
    """Boxes, scores and class ids, with or without their count, in any order."""
    boxes = [item for item in named if item[1].ndim in (2, 3) and item[1].shape[-1] == 4]
    if len(boxes) != 1:
        return
    rows = boxes[0][1].reshape(-1, 4).shape[0]
    lists = [item for item in named if item is not boxes[0] and item[1].size == rows and item[1].ndim <= 2]
    count = [item for item in named if item is not boxes[0] and item not in lists]
    if rows == 1:  # a count cannot be told from a list of one
        count, lists = lists[2:], lists[:2]
    if len(lists) != 2 or len(count) != len(named) - 3:
        return
    pair = _scores_and_ids(lists)
    if pair is None:
        return
    (score_name, _), (id_name, _) = pair
    box_name, box = boxes[0]
    names = f"{box_name} {shape_text(box)}, {score_name}, {id_name}"
    if observed.has_size_input and not count:
        head = HeadSpec(family="detr", outputs=(id_name, box_name, score_name), nms="inside")
        why = f"finished {names}, scaled by the second input"
        yield Match(head, "detr", None, certain=True, why=why)
        return
    pixels = beyond_unit(box)
    head = HeadSpec(
        family="ssd",
        outputs=(box_name, score_name, id_name, *(name for name, _ in count)),
        nms="inside",
        boxes="xyxy" if pixels or not count else None,
        normalized=False if pixels else None,
        first_class_id=0 if pixels and count else 1,  # TensorRT's EfficientNMS counts from 0
    )
    certain = bool(count) and not pixels
    kind = "ssd" if certain else "torchvision"
    yield Match(head, kind, None, certain=certain, why=f"finished {names}: NMS is inside the graph")


def _scores_and_ids(lists: list[Named]) -> tuple[Named, Named] | None:
    """Which of two lists holds scores and which class ids, by type, then by name, then by value."""
    first, second = lists
    for one, other in ((first, second), (second, first)):
        if one[1].dtype.kind == "f" and other[1].dtype.kind in "iu":
            return one, other
    for one, other in ((first, second), (second, first)):
        if "score" in one[0].lower() or "class" in other[0].lower() or "label" in other[0].lower():
            return one, other
    for one, other in ((first, second), (second, first)):
        if probabilities(one[1]) and whole_numbers(other[1]) and not whole_numbers(one[1]):
            return one, other
    return None
