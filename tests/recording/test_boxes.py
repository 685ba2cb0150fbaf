"""Boxes as rows of numbers: what comes back is what went in, to the last bit."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edge_runtime.perception.detections import Detections
from edge_runtime.recording.boxes import detections_of, rows_of

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=40)
@given(st.integers(0, 12).flatmap(lambda n: st.tuples(
    arrays(np.float32, (n, 4), elements=FINITE),
    arrays(np.float32, (n,), elements=FINITE),
    arrays(np.int64, (n,), elements=st.integers(0, 1 << 40)),
)))  # fmt: skip
def test_boxes_come_back_as_they_were(parts: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    before = Detections(*parts, nonfinite=2)
    after = detections_of(json.loads(json.dumps(rows_of(before))), 2)
    assert np.array_equal(after.xyxy, before.xyxy)
    assert np.array_equal(after.score, before.score)
    assert np.array_equal(after.label, before.label)
    assert [str(part.dtype) for part in (after.xyxy, after.score, after.label)] == [
        "float32",
        "float32",
        "int64",
    ]
    assert (after.xyxy.shape, after.nonfinite) == (before.xyxy.shape, 2)


def test_numbers_are_as_short_as_they_can_be() -> None:
    boxes = np.array([[371.51233, 0.1, 402.25, 1 / 3]], np.float32)
    rows = rows_of(Detections(boxes, np.array([0.87], np.float32), np.array([1], np.int64)))
    assert json.dumps(rows) == "[[371.51233, 0.1, 402.25, 0.33333334, 0.87, 1]]"


@pytest.mark.parametrize(
    "rows", [None, 3, "text", {"x": 1}, [[1, 2, 3]], [[1, 2, 3, 4, 5, 6], [1]], [["a"] * 6], [[1e400] * 6]]
)
def test_what_is_no_row_is_refused(rows: object) -> None:
    with pytest.raises(ValueError, match="boxes are no"):
        detections_of(rows)
