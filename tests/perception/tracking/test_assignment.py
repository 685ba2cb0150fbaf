"""The assignment is exact: against enumeration on small problems, against an integer solver on large ones."""

from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edge_runtime.perception.tracking.assignment import assign, solve
from tests.scoring.idf1 import best_total

Weights = npt.NDArray[np.float32]

# Few distinct values: ties and pairs exactly at the gate are where a solver goes wrong.
tied = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5),
    elements=st.sampled_from([0.0, 0.125, 0.25, 0.375, 0.5, 0.875, 1.0]),
)
smooth = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5),
    elements=st.floats(0, 1, width=32, allow_subnormal=False),
)


def enumerated(weight: Weights) -> float:
    """The best total over every one-to-one choice of pairs, by trying them all."""
    if weight.shape[0] > weight.shape[1]:
        weight = weight.T
    rows, columns = weight.shape
    gain = np.maximum(weight.astype(np.float64), 0)
    return max(
        float(gain[range(rows), list(order)].sum())
        for chosen in combinations(range(columns), rows)
        for order in permutations(chosen)
    )


def assert_one_to_one(rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> None:
    assert len(rows) == len(columns)
    assert len(set(rows.tolist())) == len(rows)
    assert len(set(columns.tolist())) == len(columns)


@settings(max_examples=200, deadline=None)
@given(st.one_of(tied, smooth), st.sampled_from([0.0, 0.125, 0.3, 0.5]))
def test_assign_is_as_good_as_any_choice(similarity: Weights, gate: float) -> None:
    rows, columns = assign(similarity, gate)
    assert_one_to_one(rows, columns)
    assert (similarity[rows, columns] > gate).all()
    weight = similarity - np.float32(gate)
    assert weight[rows, columns].astype(np.float64).sum() == pytest.approx(enumerated(weight), abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.one_of(tied, smooth))
def test_solve_is_as_good_as_any_choice(weight: Weights) -> None:
    rows, columns = solve(weight)
    assert_one_to_one(rows, columns)
    assert (weight[rows, columns] > 0).all()
    assert (np.diff(rows) > 0).all()
    assert weight[rows, columns].astype(np.float64).sum() == pytest.approx(enumerated(weight), abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30), st.floats(0.02, 1))
def test_assign_agrees_with_an_integer_solver(seed: int, height: int, width: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, 1000, (height, width)) * (rng.random((height, width)) < density)
    rows, columns = assign(levels.astype(np.float32), 0.0)
    assert_one_to_one(rows, columns)
    assert int(levels[rows, columns].sum()) == best_total(levels)


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [
        pytest.param([[0.9, 0.0], [0.0, 0.8]], {(0, 0), (1, 1)}, id="one to one"),
        pytest.param([[0.9, 0.8], [0.8, 0.0]], {(0, 1), (1, 0)}, id="the greedy choice is wrong"),
        pytest.param([[0.9], [0.7], [0.8]], {(0, 0)}, id="three tracks want one detection"),
        pytest.param([[0.6, 0.9, 0.7]], {(0, 1)}, id="one track has three candidates"),
        pytest.param([[0.05, 0.1], [0.1, 0.02]], set(), id="nothing above the gate"),
        pytest.param(
            [[0.6, 0.5, 0.0], [0.5, 0.0, 0.6], [0.0, 0.6, 0.5]],
            {(0, 0), (1, 2), (2, 1)},
            id="a cycle of three",
        ),
        pytest.param(
            [[0.5, 0.4, 0, 0], [0.4, 0.2, 0, 0], [0, 0, 0.5, 0.4], [0, 0, 0.4, 0.2]],
            {(0, 1), (1, 0), (2, 3), (3, 2)},
            id="two contested groups",
        ),
    ],
)
def test_table(similarity: list[list[float]], expected: set[tuple[int, int]]) -> None:
    rows, columns = assign(np.array(similarity, np.float32), 0.1)
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == expected


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing_to_assign(shape: tuple[int, int]) -> None:
    rows, columns = assign(np.zeros(shape, np.float32), 0.1)
    assert len(rows) == len(columns) == 0


def test_a_crowd_where_all_overlap_is_still_exact() -> None:
    levels = np.random.default_rng(7).integers(400, 600, (60, 50))
    rows, columns = assign(levels.astype(np.float32), 0.0)
    assert_one_to_one(rows, columns)
    assert int(levels[rows, columns].sum()) == best_total(levels)


def test_the_same_problem_gets_the_same_answer() -> None:
    similarity = np.full((6, 6), 0.5, np.float32)
    first = assign(similarity, 0.1)
    second = assign(similarity.copy(), 0.1)
    assert_one_to_one(*first)
    assert len(first[0]) == 6
    np.testing.assert_array_equal(first, second)
