"""Figures against budgets: one line each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.soak.budgets import Budget
from sim.soak.figures import MEASURES, Figure, Measure


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table.

    Attributes:
        budget: the most that is allowed; None where nothing is limited.
        met: whether the figure stays within it.
        why: a sentence where it does not.
    """

    figure: Figure
    budget: float | None
    met: bool
    why: str = ""


def judge(figures: Sequence[Figure], budgets: Mapping[str, Budget]) -> list[Line]:
    """Hold figures against budgets.

    A slope breaks its budget only by more than its own uncertainty. A budget whose process was never seen is not
    met, and neither is a process that has no budget: a name that changed must not end the watching in silence.

    Args:
        figures: of one run.
        budgets: by process.
    """
    lines = [_line(one, budgets) for one in figures]
    seen = {(one.subject, one.measure) for one in figures}
    for subject, budget in budgets.items():
        for measure, most in budget.items():
            if (subject, measure) not in seen:
                lines.append(Line(Figure(subject, measure, None), most, met=False, why="it was never seen"))
    order = list(dict.fromkeys(one.subject for one in figures)) + list(budgets)
    return sorted(lines, key=lambda line: _place(line.figure, order))


def _line(figure: Figure, budgets: Mapping[str, Budget]) -> Line:
    if figure.subject not in budgets:
        return Line(figure, None, met=False, why="it has no budget")
    most = budgets[figure.subject].get(figure.measure)
    if most is None:
        return Line(figure, None, met=True)
    if figure.least is None:
        return Line(figure, most, met=False, why="the run was too short to say")
    if figure.least > most:
        return Line(figure, most, met=False, why="it is over its budget")
    return Line(figure, most, met=True)


def _place(figure: Figure, order: Sequence[str]) -> tuple[int, int]:
    measures: Sequence[Measure] = MEASURES
    return order.index(figure.subject), measures.index(figure.measure)
