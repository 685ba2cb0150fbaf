"""Non-maximum suppression against a reference that compares one pair at a time, and against OpenCV."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edge_runtime.perception.detections import FloatArray, IntArray
from edge_runtime.perception.nms import class_aware_nms


def iou_of(a: FloatArray, b: FloatArray) -> float:
    x1, y1, x2, y2 = (float(value) for value in a)
    u1, v1, u2, v2 = (float(value) for value in b)
    shared = max(min(x2, u2) - max(x1, u1), 0.0) * max(min(y2, v2) - max(y1, v1), 0.0)
    union = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - shared
    return shared / union if union > 0 else 0.0


def reference(xyxy: FloatArray, score: FloatArray, label: IntArray, iou: float, limit: int) -> list[int]:
    """Greedy suppression, one pair at a time."""
    kept: list[int] = []
    for index in sorted(range(len(score)), key=lambda index: -score[index]):
        if len(kept) == limit:
            break
        if all(label[other] != label[index] or iou_of(xyxy[other], xyxy[index]) <= iou for other in kept):
            kept.append(index)
    return kept


def corners(origin: FloatArray, size: FloatArray) -> FloatArray:
    return np.concatenate([origin, origin + size], 1).astype(np.float32)


def crowd(count: int, classes: int, seed: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Boxes in clumps, as a detector gives them before suppression."""
    random = np.random.default_rng(seed)
    clumps = random.random((count // 5 + 1, 2)) * 600
    origin = clumps[random.integers(0, len(clumps), count)] + random.normal(0, 8, (count, 2))
    xyxy = corners(origin.astype(np.float32), (random.random((count, 2)) * 60 + 20).astype(np.float32))
    return xyxy, random.random(count).astype(np.float32), random.integers(0, classes, count)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    count=st.integers(0, 40),
    iou=st.sampled_from([0.0, 0.25, 1 / 3, 0.45, 0.5, 0.65, 0.7, 1.0]),
    limit=st.integers(1, 50),
)
def test_it_is_the_greedy_algorithm_to_the_letter(
    data: st.DataObject, count: int, iou: float, limit: int
) -> None:
    # Small whole numbers make ties of scores, boxes without area and IoUs exactly at the threshold.
    origin = data.draw(hnp.arrays(np.float32, (count, 2), elements=st.integers(0, 6)))
    size = data.draw(hnp.arrays(np.float32, (count, 2), elements=st.integers(0, 4)))
    score = data.draw(hnp.arrays(np.float32, count, elements=st.sampled_from([0.1, 0.5, 0.5, 0.9])))
    label = data.draw(hnp.arrays(np.int64, count, elements=st.integers(0, 2)))
    xyxy = corners(origin, size)
    assert class_aware_nms(xyxy, score, label, iou, limit).tolist() == reference(
        xyxy, score, label, iou, limit
    )


@pytest.mark.parametrize("count", [127, 128, 129, 500])
@pytest.mark.parametrize("classes", [1, 7])
@pytest.mark.parametrize("limit", [10, 128, 300])
def test_blocks_do_not_show(count: int, classes: int, limit: int) -> None:
    xyxy, score, label = crowd(count, classes, seed=count + classes)
    assert class_aware_nms(xyxy, score, label, 0.45, limit).tolist() == reference(
        xyxy, score, label, 0.45, limit
    )


@pytest.mark.parametrize("seed", range(5))
def test_opencv_keeps_the_same_boxes(seed: int) -> None:
    xyxy, score, label = crowd(300, 5, seed)
    kept = class_aware_nms(xyxy, score, label, 0.5, 300)
    xywh = np.concatenate([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]], 1)
    theirs = cv2.dnn.NMSBoxesBatched(xywh.tolist(), score.tolist(), label.tolist(), 0.0, 0.5)
    assert set(kept.tolist()) == set(np.asarray(theirs).ravel().tolist())


def test_far_apart_classes_do_not_cost_precision() -> None:
    # Shifted by label x 1e4, as class-aware suppression is often done, these would be told apart wrongly.
    xyxy = np.array([[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0.1, 0, 0.6, 0.5]], np.float32)
    score = np.array([0.9, 0.8, 0.7], np.float32)
    assert class_aware_nms(xyxy, score, np.array([9999, 9998, 9999]), 0.6, 10).tolist() == [0, 1]
    assert class_aware_nms(xyxy, score, np.array([9999, 9998, 9999]), 0.7, 10).tolist() == [0, 1, 2]


def test_nothing_in_nothing_out() -> None:
    empty = class_aware_nms(
        np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64), 0.5, 9
    )
    assert empty.tolist() == []
    assert empty.dtype == np.int64
