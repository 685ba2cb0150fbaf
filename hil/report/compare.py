"""Two runs held against each other, and all of them as a matrix of boards, systems and models, with trends."""

from collections.abc import Sequence
from dataclasses import dataclass

from hil.measurement import Measurement
from hil.report.records import RunReport

SAME_WITHIN = 0.05
"""A value that differs by less than this share is the same: no rig measures better twice."""

_MOST_POINTS = 8
_LEVELS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Difference:
    """One measurement in two runs.

    Attributes:
        name: of the measurement.
        before, after: None where a run has no such measurement.
        word: `same`, `better`, `worse`, `new`, `gone`, or `other` where better has no direction.
    """

    name: str
    before: Measurement | None
    after: Measurement | None
    word: str


def differences(before: RunReport, after: RunReport) -> list[Difference]:
    """Every measurement of either run, in the order of the later one."""
    old = {one.name: one for one in before.measurements}
    new = {one.name: one for one in after.measurements}
    names = [*new, *(name for name in old if name not in new)]
    return [
        Difference(name, old.get(name), new.get(name), _word(old.get(name), new.get(name))) for name in names
    ]


def _word(before: Measurement | None, after: Measurement | None) -> str:
    if before is None or after is None:
        return "new" if before is None else "gone"
    if before.unit != after.unit:
        return "other"
    if before.value is None or after.value is None:
        return "same" if before.value == after.value else ("worse" if after.value is None else "better")
    return _moved(before.value, after.value, after)


def _moved(was: float, now: float, limits: Measurement) -> str:
    if abs(now - was) <= SAME_WITHIN * max(abs(was), abs(now)):
        return "same"
    if (limits.at_most is None) == (limits.at_least is None):
        return "other"  # limits on both sides: neither way is better
    return "worse" if (now > was) == (limits.at_most is not None) else "better"


def compared(reports: Sequence[RunReport]) -> tuple[RunReport, RunReport] | None:
    """The only two; else the newest and the one before it on the same device, None where there is none."""
    if len(reports) == 2:
        return reports[0], reports[1]
    ordered = sorted(reports, key=lambda one: one.started)
    earlier = [one for one in ordered[:-1] if one.cell == ordered[-1].cell]
    return (earlier[-1], ordered[-1]) if earlier else None


def comparison(before: RunReport, after: RunReport) -> list[str]:
    """The table as lines."""
    rows = [("measurement", _head(before), _head(after), "", "limit")]
    rows += [
        (
            one.name,
            "-" if one.before is None else one.before.value_text,
            "-" if one.after is None else one.after.value_text,
            one.word + ("" if one.after is None or one.after.met else ", out of its limit"),
            "" if one.after is None else one.after.text,
        )
        for one in differences(before, after)
    ]
    notes = []
    if before.cell != after.cell:
        notes.append(f"not the same device: {' / '.join(before.cell)} and {' / '.join(after.cell)}")
    return [*_table(rows), *notes]


def _head(report: RunReport) -> str:
    return f"{report.rig} {report.started[:16]}"


def matrix(reports: Sequence[RunReport]) -> list[str]:
    """A line for each board, system and model: how often it was tried, its last verdict, and what has moved.

    Args:
        reports: in any order.
    """
    cells: dict[tuple[str, str, str], list[RunReport]] = {}
    for report in sorted(reports, key=lambda one: one.started):
        cells.setdefault(report.cell, []).append(report)
    rows = [("board", "JetPack", "model", "runs", "last", "measured", "out of limit", "worse than before")]
    for cell, runs in sorted(cells.items()):
        last = runs[-1]
        out = [one.name for one in last.measurements if not one.met]
        moved = [one.name for one in differences(runs[-2], last) if one.word == "worse"] if runs[1:] else []
        rows.append(
            (
                *cell,
                str(len(runs)),
                "passed" if last.passed else "failed",
                str(len(last.measurements)),
                ", ".join(out) or "-",
                ", ".join(moved) or "-",
            )
        )
    return _table(rows)


def trends(reports: Sequence[RunReport]) -> list[str]:
    """For each cell with several runs, each measurement's last values, the oldest first."""
    cells: dict[tuple[str, str, str], list[RunReport]] = {}
    for report in sorted(reports, key=lambda one: one.started):
        cells.setdefault(report.cell, []).append(report)
    lines: list[str] = []
    for cell, runs in sorted(cells.items()):
        if len(runs) < 2:
            continue
        names = dict.fromkeys(one.name for run in runs for one in run.measurements)
        rows = [(" / ".join(cell), "trend", "first", "last", "limit")]
        for name in names:
            points = [one for run in runs for one in run.measurements if one.name == name][-_MOST_POINTS:]
            first, last = points[0], points[-1]
            rows.append((name, _curve(points), first.value_text, last.value_text, last.text))
        lines += [*_table(rows), ""]
    return lines


def _curve(points: Sequence[Measurement]) -> str:
    """Heights between least and largest; `x` is what never happened."""
    values = [one.value for one in points if one.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    flat = high - low <= SAME_WITHIN * max(abs(high), abs(low))
    drawn = ""
    for one in points:
        if one.value is None:
            drawn += "x"
        elif flat:
            drawn += _LEVELS[3]
        else:
            drawn += _LEVELS[round((one.value - low) / (high - low) * (len(_LEVELS) - 1))]
    return drawn


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
