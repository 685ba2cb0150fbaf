"""Overlaps in single precision against the plain definition in double."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.perception.tracking.overlap import pairwise_iou
from tests.scoring.mot import iou


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12))
def test_agrees_with_the_definition(seed: int, first_count: int, second_count: int) -> None:
    rng = np.random.default_rng(seed)

    def boxes(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        corner = rng.uniform(-50, 3840, (count, 2))
        return np.concatenate([corner, corner + rng.uniform(2, 900, (count, 2))], axis=1)

    first, second = boxes(first_count), boxes(second_count)
    found = pairwise_iou(first.T.astype(np.float32), second.T.astype(np.float32))
    assert found.shape == (first_count, second_count)
    np.testing.assert_allclose(found, iou(first, second), atol=2e-4)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param((0, 0, 10, 10), 1.0, id="itself"),
        pytest.param((10, 0, 20, 10), 0.0, id="touching"),
        pytest.param((30, 30, 40, 40), 0.0, id="apart in both"),
        pytest.param((5, 0, 15, 10), 1 / 3, id="half over"),
        pytest.param((2, 2, 8, 8), 0.36, id="inside"),
    ],
)
def test_table(other: tuple[float, ...], expected: float) -> None:
    box = np.array([[0, 0, 10, 10]], np.float32).T
    assert pairwise_iou(box, np.array([other], np.float32).T)[0, 0] == pytest.approx(expected, abs=1e-6)
