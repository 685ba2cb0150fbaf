"""SSD and DETR heads, which give finished boxes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.backends.base import Tensor
from tests.rigs.heads import LABELS, THINGS, Thing, assert_found, decoder, logit, spoiled

SSD = HeadSpec(family="ssd", outputs=("boxes", "scores", "classes", "count"), first_class_id=1, nms="inside")
ROWS = HeadSpec(family="ssd", outputs=("detection_out",), first_class_id=1, nms="inside")
DETR = HeadSpec(family="detr", outputs=("labels", "boxes", "scores"), nms="inside")
QUERIES = HeadSpec(family="detr", outputs=("logits", "pred_boxes"), nms="inside")
SIZE = np.array([160, 96, 160, 96])


def ssd_outputs(things: Sequence[Thing] = THINGS, rows: int = 10) -> list[Tensor]:
    boxes = np.zeros((1, rows, 4), np.float32)
    scores = np.zeros((1, rows), np.float32)
    classes = np.ones((1, rows), np.float32)
    for place, thing in enumerate(things):
        boxes[0, place] = (np.array(thing.xyxy) / SIZE)[[1, 0, 3, 2]]
        scores[0, place] = thing.score
        classes[0, place] = thing.label + 1
    return [boxes, scores, classes, np.array([len(things)], np.float32)]


def test_tensorflow() -> None:
    outputs = ssd_outputs()
    assert_found(decoder(SSD).decode(outputs, 0, 0.25), THINGS)
    assert_found(decoder(SSD).decode(outputs[:3], 0, 0.25), THINGS)
    assert_found(decoder(SSD).decode([tensor[0] for tensor in outputs[:3]], 0, 0.25), THINGS)
    whole: list[Tensor] = [*outputs[:2], outputs[2].astype(np.int64), outputs[3].astype(np.int32)]
    assert_found(decoder(SSD).decode(whole, 0, 0.25), THINGS)
    with_axis: list[Tensor] = [outputs[0], outputs[1][..., None], outputs[2][..., None], outputs[3]]
    assert_found(decoder(SSD).decode(with_axis, 0, 0.25), THINGS)


def test_rows_after_the_count_are_padding() -> None:
    outputs = ssd_outputs()
    outputs[1][0, 5] = 0.9
    outputs[2][0, 5] = 99
    assert_found(decoder(SSD).decode(outputs, 0, 0.25), THINGS)
    assert_found(decoder(SSD).decode(outputs, 0, 0.0), THINGS)
    batch = [np.concatenate([tensor, tensor]) for tensor in outputs]
    batch[3][1] = 1
    assert_found(decoder(SSD).decode(batch, 1, 0.25), THINGS[:1])


def test_torchvision() -> None:
    boxes = np.array([[thing.xyxy for thing in THINGS]], np.float32)
    head = HeadSpec(
        family="ssd", outputs=("boxes", "scores", "labels"), boxes="xyxy", normalized=False, nms="inside"
    )
    scores = np.array([[thing.score for thing in THINGS]], np.float32)
    labels = np.array([[thing.label for thing in THINGS]], np.int64)
    assert_found(decoder(head).decode([boxes, scores, labels], 0, 0.25), THINGS)
    assert_found(decoder(head).decode([boxes[0], scores[0], labels[0]], 0, 0.25), THINGS)
    nothing: list[Tensor] = [boxes[0, :0], scores[0, :0], labels[0, :0]]
    assert len(decoder(head).decode(nothing, 0, 0.25).score) == 0


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_ssd_counts_what_is_not_finite(position: int, value: float) -> None:
    where = (0, 1, 2) if position == 0 else (0, 1)
    found = decoder(SSD).decode(spoiled(ssd_outputs(), position, where, value), 0, 0.25)
    assert (len(found.score), found.nonfinite) == (2, 1)


def test_ssd_outputs_that_do_not_fit() -> None:
    outputs = ssd_outputs()
    with pytest.raises(DecodeError, match="class id 5, but the 4 labels start at id 1"):
        decoder(SSD, labels=4).decode(outputs, 0, 0.25)
    with pytest.raises(DecodeError, match="2 outputs where the head has 1 or 3 or 4: boxes, scores"):
        decoder(SSD).decode(outputs[:2], 0, 0.25)
    with pytest.raises(DecodeError, match="list them in the head's order"):
        decoder(SSD).decode([outputs[0], outputs[1][:, :5], outputs[2]], 0, 0.25)
    for count in (np.array([np.nan], np.float32), np.array([-1.0]), np.zeros(0)):
        with pytest.raises(DecodeError, match="number of detections"):
            decoder(SSD).decode([*outputs[:3], count], 0, 0.25)


def detection_output(things: Sequence[Thing] = THINGS) -> Tensor:
    rows = [[0, thing.label + 1, thing.score, *np.array(thing.xyxy) / SIZE] for thing in things]
    other = [[1, 1, 0.95, 0.1, 0.1, 0.2, 0.2]]
    padding = [[-1, 0, 0, 0, 0, 0, 0], [0, 99, 0.9, 0, 0, 1, 1]]
    return np.array([[rows + other + padding]], np.float32)


def test_detection_output() -> None:
    table = detection_output()
    assert_found(decoder(ROWS).decode([table], 0, 0.25), THINGS)
    assert len(decoder(ROWS).decode([table], 1, 0.25).score) == 1
    assert len(decoder(ROWS).decode([table], 2, 0.25).score) == 0
    for column in range(7):
        found = decoder(ROWS).decode(spoiled([table], 0, (0, 0, 1, column), np.nan), 0, 0.25)
        assert (len(found.score), found.nonfinite) == (2, 1), column


def detr_outputs(things: Sequence[Thing] = THINGS, queries: int = 12) -> list[Tensor]:
    labels = np.zeros((1, queries), np.int64)
    boxes = np.zeros((1, queries, 4), np.float32)
    scores = np.full((1, queries), 0.01, np.float32)
    for place, thing in enumerate(things):
        labels[0, place], boxes[0, place], scores[0, place] = thing.label, thing.xyxy, thing.score
    return [labels, boxes, scores]


def test_deploy_graph() -> None:
    outputs = detr_outputs()
    assert_found(decoder(DETR).decode(outputs, 0, 0.25), THINGS)
    assert_found(decoder(DETR).decode([tensor[0] for tensor in outputs], 0, 0.25), THINGS)
    batch = [np.concatenate([np.zeros_like(tensor), tensor]) for tensor in outputs]
    assert_found(decoder(DETR).decode(batch, 1, 0.25), THINGS)
    with pytest.raises(DecodeError, match="class id 4"):
        decoder(DETR, labels=4).decode(outputs, 0, 0.25)
    with pytest.raises(DecodeError, match="list the outputs in the head's order"):
        decoder(DETR).decode([outputs[0], outputs[2], outputs[1]], 0, 0.25)
    assert decoder(DETR).decode(spoiled(outputs, 2, (0, 1), np.nan), 0, 0.25).nonfinite == 1
    assert decoder(DETR).decode(spoiled(outputs, 1, (0, 1, 3), np.inf), 0, 0.25).nonfinite == 1


def query_outputs(things: Sequence[Thing] = THINGS, classes: int = LABELS, first: int = 0) -> list[Tensor]:
    logits = np.full((1, 12, classes), -6, np.float32)
    boxes = np.full((1, 12, 4), 0.5, np.float32)
    for place, thing in enumerate(things):
        logits[0, place, first + thing.label] = logit(thing.score)
        boxes[0, place] = np.array([thing.cx, thing.cy, thing.w, thing.h]) / SIZE
    return [logits, boxes]


def test_logits_and_boxes() -> None:
    assert_found(decoder(QUERIES).decode(query_outputs(), 0, 0.25), THINGS)
    skipping = QUERIES.model_copy(update={"first_class_id": 1})
    assert_found(decoder(skipping).decode(query_outputs(classes=6, first=1), 0, 0.25), THINGS)
    with pytest.raises(DecodeError, match="one side must be 5 for 5 labels"):
        decoder(QUERIES).decode(query_outputs(classes=6), 0, 0.25)
    assert decoder(QUERIES).decode(spoiled(query_outputs(), 0, (0, 5, 2), np.nan), 0, 0.25).nonfinite == 1


def test_softmax_with_no_object_last() -> None:
    head = QUERIES.model_copy(update={"activation": "softmax"})
    logits, boxes = query_outputs(classes=LABELS + 1)
    logits[...] = -40
    logits[0, :, LABELS] = 0
    for place, thing in enumerate(THINGS):
        logits[0, place, thing.label] = logit(thing.score)
    assert_found(decoder(head).decode([logits, boxes], 0, 0.25), THINGS)


def test_queries_in_one_tensor() -> None:
    logits, boxes = query_outputs()
    tensor = np.concatenate([boxes, 1 / (1 + np.exp(-logits))], 2)
    head = HeadSpec(family="detr", outputs=("output0",), nms="inside")
    for variant in (tensor, tensor.transpose(0, 2, 1), tensor[0]):
        assert_found(decoder(head).decode([variant], 0, 0.25), THINGS)
    found: Any = decoder(head).decode([tensor.astype(np.float16)], 0, 0.25)
    assert_found(found, THINGS, pixels=0.2, score=2e-3)
