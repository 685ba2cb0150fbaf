"""What the gate lets through: a table."""

import pytest

from edge_runtime.authoring.accuracy_gate import judge, require_worthy
from edge_runtime.authoring.average_precision import AveragePrecision
from edge_runtime.authoring.evaluate import EvaluationReport
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import AccuracyFloor


def report(mean: float, nonfinite: int = 0) -> EvaluationReport:
    return EvaluationReport(AveragePrecision(mean, mean, {}), 64, (), ("person",), nonfinite)


@pytest.mark.parametrize(
    ("parent", "child", "bound", "passes"),
    [
        (0.34, 0.34, 2.0, True),
        (0.34, 0.36, 0.0, True),
        (0.34, 0.34, 0.0, True),
        (0.34, 0.3399, 0.0, False),
        (0.34, 0.3201, 2.0, True),
        (0.34, 0.3199, 2.0, False),
        (0.34, 0.0, 2.0, False),
    ],
)
def test_the_bound(parent: float, child: float, bound: float, *, passes: bool) -> None:
    verdict = judge(report(parent), report(child), bound, None)
    assert (verdict.refused is None) is passes
    assert verdict.drop == pytest.approx((parent - child) * 100)


def test_a_refusal_names_both_numbers() -> None:
    assert judge(report(0.34), report(0.3), 2.0, None).refused == (
        "mAP falls by 4.00 points, from 0.3400 to 0.3000; 2 may be lost"
    )


def test_the_floor_and_finite_numbers_count_as_well() -> None:
    floor = AccuracyFloor(metric="map", minimum=0.33)
    low = judge(report(0.34), report(0.325), 2.0, floor).refused
    assert low == "map 0.3250 is below the floor of 0.33, which its parent's package declares"
    assert judge(report(0.34), report(0.33), 2.0, floor).refused is None
    for nothing in (
        judge(report(float("nan")), report(0.3), 2.0, None),
        judge(report(0.34), report(float("nan")), 2.0, None),
    ):
        assert nothing.refused is not None, "what is no number is no small loss"
    broken = judge(report(0.34, 1), report(0.34, 5), 2.0, None).refused
    assert broken == "5 candidates hold NaN or infinite numbers, 1 of its parent's do"


def test_nothing_is_made_of_a_ruined_parent() -> None:
    floor = AccuracyFloor(metric="map", minimum=0.1)
    require_worthy("good", report(0.34), floor, 2.0)
    with pytest.raises(PackageError, match=r"^bad is unfit itself: map 0\.0420 is below the floor of 0\.1"):
        require_worthy("bad", report(0.042), floor, 2.0)
    with pytest.raises(PackageError, match="could not be told from ruin"):
        require_worthy("blind", report(0.02), None, 2.0)
