"""The gate: a quantised model is let through only with an accuracy close to its parent's on the same set."""

from dataclasses import dataclass

from edge_runtime.authoring.evaluate import EvaluationReport, shortfall
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import AccuracyFloor


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate decided.

    Attributes:
        parent, child: mAP in 0..1 on the same pictures.
        max_drop: mAP points, hundredths, that the child may lose.
        refused: why it is refused, in one sentence, or None.
    """

    parent: float
    child: float
    max_drop: float
    refused: str | None

    @property
    def drop(self) -> float:
        """MAP points lost; negative where the child is better."""
        return (self.parent - self.child) * 100


def require_worthy(name: str, report: EvaluationReport, floor: AccuracyFloor | None, max_drop: float) -> None:
    """Refuse a parent that is ruined itself: near nothing, a small drop says nothing.

    Raises:
        PackageError: it is below its own floor, or not clearly above the allowed drop.
    """
    low = shortfall(report, floor)
    if low:
        raise PackageError(f"{name} is unfit itself: {low} on these pictures, so nothing is made of it")
    if report.precision.mean * 100 <= max_drop:
        raise PackageError(
            f"{name} reaches mAP {report.precision.mean:.4f} on these pictures: a drop of {max_drop:g} points "
            "could not be told from ruin; evaluate on pictures of what it was trained for"
        )


def judge(
    parent: EvaluationReport, child: EvaluationReport, max_drop: float, floor: AccuracyFloor | None
) -> Verdict:
    """Compare two measurements of one set.

    Args:
        parent: of the 32-bit package.
        child: of what was made from it.
        max_drop: mAP points that may be lost.
        floor: the least accuracy that the package declares.
    """
    before, after = parent.precision.mean, child.precision.mean
    lost = (before - after) * 100
    reason = None
    if child.nonfinite > parent.nonfinite:
        reason = f"{child.nonfinite} candidates hold NaN or infinite numbers, {parent.nonfinite} of its parent's do"
    elif not lost <= max_drop:  # also where it is no number
        reason = f"mAP falls by {lost:.2f} points, from {before:.4f} to {after:.4f}; {max_drop:g} may be lost"
    elif low := shortfall(child, floor):
        reason = f"{low}, which its parent's package declares"
    return Verdict(before, after, max_drop, reason)
