"""Prefilters that lose nothing, and the exact test that follows them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import HeadSpec
from edge_runtime.perception.decoders.boxes import before_sigmoid, sigmoid
from edge_runtime.perception.decoders.selection import (
    best_class,
    class_ids_to_labels,
    finish,
    not_below,
    rows_not_below,
)

HEAD = HeadSpec(family="yolov8", outputs=("output0",), first_class_id=1)
anything16 = st.floats(width=16, allow_nan=True, allow_infinity=True)
anything32 = st.floats(width=32, allow_nan=True, allow_infinity=True)
thresholds = st.floats(0, 1)


@given(
    scores=hnp.arrays(np.float16, st.tuples(st.integers(0, 6), st.integers(1, 4)), elements=anything16),
    threshold=thresholds,
    transposed=st.booleans(),
)
def test_half_precision_loses_no_candidate(scores: np.ndarray, threshold: float, transposed: bool) -> None:
    view = np.asfortranarray(scores) if transposed else scores
    kept = set(rows_not_below(view, threshold).tolist())
    wanted = {
        row for row in range(len(scores)) if any(not value < threshold for value in scores[row].tolist())
    }
    assert wanted <= kept
    # what is let through in addition has a negative number in it, which no probability has
    for row in kept - wanted:
        assert (
            threshold <= 0
            or np.signbit(scores[row]).any()
            or scores[row].max() >= np.float16(threshold) * 0.999
        )


@given(
    scores=hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.integers(1, 4)), elements=anything32),
    threshold=st.floats(0, 1, width=32),
)
def test_single_precision_is_exact(scores: np.ndarray, threshold: float) -> None:
    wanted = [
        row for row in range(len(scores)) if any(not value < threshold for value in scores[row].tolist())
    ]
    assert rows_not_below(scores, threshold).tolist() == wanted


@given(values=hnp.arrays(np.float32, st.integers(0, 20), elements=anything32), threshold=thresholds)
def test_a_column_keeps_nan(values: np.ndarray, threshold: float) -> None:
    limit = float(np.float32(threshold))
    wanted = [index for index, value in enumerate(values.tolist()) if not value < limit]
    assert not_below(values, limit).tolist() == wanted


@given(values=hnp.arrays(np.float16, st.integers(0, 20), elements=anything16), threshold=thresholds)
def test_a_column_of_halves_loses_none(values: np.ndarray, threshold: float) -> None:
    wanted = {index for index, value in enumerate(values.tolist()) if not value < threshold}
    assert wanted <= set(not_below(values, threshold).tolist())


@given(value=st.floats(-20, 20, width=32), threshold=thresholds)
def test_a_threshold_on_logits_loses_no_candidate(value: float, threshold: float) -> None:
    if sigmoid(np.float32(value)) >= threshold:
        assert value >= before_sigmoid(threshold)


def test_a_nan_is_the_best_class() -> None:
    best, label = best_class(np.array([[0.1, np.nan, 0.9], [0.3, 0.2, 0.1]], np.float32))
    assert np.isnan(best[0])
    assert label.tolist() == [1, 0]


def box(count: int) -> np.ndarray:
    return np.tile(np.array([1, 2, 3, 4], np.float32), (count, 1))


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", range(4))
def test_a_broken_coordinate_is_dropped_and_counted(broken: float, column: int) -> None:
    xyxy = box(3)
    xyxy[1, column] = broken
    found = finish(HEAD, xyxy, np.full(3, 0.5, np.float32), np.arange(3), 0.25)
    assert found.label.tolist() == [0, 2]
    assert found.nonfinite == 1


def test_only_would_be_candidates_are_counted() -> None:
    score = np.array([np.nan, 0.1, 0.3, np.inf, -np.inf], np.float32)
    found = finish(HEAD, box(5), score, np.arange(5), 0.25)
    assert found.label.tolist() == [2]
    assert found.nonfinite == 2


def test_large_numbers_are_finite_though_their_sum_is_not() -> None:
    xyxy = np.full((4, 4), 3e38, np.float32)
    with np.errstate(over="ignore"):
        found = finish(HEAD, xyxy, np.full(4, 0.5, np.float32), np.arange(4), 0.25)
    assert len(found.score) == 4
    assert found.nonfinite == 0


def test_scores_a_little_above_one_are_quantisation_and_far_above_are_logits() -> None:
    found = finish(HEAD, box(1), np.array([1.004], np.float32), np.array([0]), 0.25)
    assert found.score.tolist() == [1.0]
    with pytest.raises(DecodeError, match=r"scores reach 7.3.*activation to 'sigmoid'"):
        finish(HEAD, box(1), np.array([7.3], np.float32), np.array([0]), 0.25)


def test_class_ids_become_labels() -> None:
    score = np.full(2, 0.5, np.float32)
    assert class_ids_to_labels(HEAD, np.array([1.0, 3.0]), score, 3).tolist() == [0, 2]
    assert class_ids_to_labels(HEAD, np.array([1, 3], np.int64), score, 3).tolist() == [0, 2]
    assert class_ids_to_labels(HEAD, np.array([0.9997, 2.9998]), score, 3).tolist() == [0, 2]


@pytest.mark.parametrize("given_id", [0, 4, -1])
def test_a_class_without_a_label_is_an_error(given_id: int) -> None:
    with pytest.raises(DecodeError, match=f"class id {given_id}, but the 3 labels start at id 1"):
        class_ids_to_labels(HEAD, np.array([1, given_id]), np.full(2, 0.5, np.float32), 3)


def test_a_class_id_that_is_no_number_spoils_its_score() -> None:
    score = np.full(2, 0.5, np.float32)
    label = class_ids_to_labels(HEAD, np.array([np.nan, 2.0]), score, 3)
    assert label[1] == 1
    found = finish(HEAD, box(2), score, label, 0.25)
    assert (found.label.tolist(), found.nonfinite) == ([1], 1)
