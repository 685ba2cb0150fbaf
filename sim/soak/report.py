"""A run on paper: JSON for programs, and one table of all runs of a folder for people."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edge_runtime import __version__
from edge_runtime.clock import Clock
from edge_runtime.durable import write_file
from sim.soak.judge import Line

TABLE = "soak.md"
_HEAD = "| process | measure | unit | measured | budget | |\n| --- | --- | --- | --- | --- | --- |\n"
_MODE = 0o644


def write_report(
    folder: Path, run: str, lines: Sequence[Line], facts: Mapping[str, Any], clock: Clock
) -> Path:
    """Write `<run>.json`, and the table of all runs that the folder holds anew.

    Args:
        folder: made if there is none.
        run: its name.
        lines: figures and budgets.
        facts: what else is worth keeping: minutes, counts.
        clock: for the label of when.

    Returns:
        The table's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "run": run,
        "met": all(line.met for line in lines),
        "at": clock.wall().isoformat(),
        "machine": {
            "system": platform.platform(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
            "runtime": __version__,
        },
        "facts": dict(facts),
        "lines": [_row(line) for line in lines],
    }
    write_file(folder / f"{run}.json", json.dumps(record, indent=1).encode() + b"\n", _MODE)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    write_file(folder / TABLE, "\n".join(_section(one) for one in found).encode(), _MODE)
    return folder / TABLE


def table(lines: Sequence[Line]) -> str:
    """The table of one run."""
    return _HEAD + "".join(_printed(_row(line)) for line in lines)


def _row(line: Line) -> dict[str, Any]:
    figure = line.figure
    return {
        "process": figure.subject,
        "measure": figure.measure,
        "unit": figure.unit,
        "measured": figure.value,
        "low": figure.low,
        "high": figure.high,
        "budget": line.budget,
        "met": line.met,
        "why": line.why,
    }


def _printed(row: Mapping[str, Any]) -> str:
    measured = "-" if row["measured"] is None else f"{row['measured']:.4g}"
    if row["low"] is not None:
        measured += f" ({row['low']:.4g} to {row['high']:.4g})"
    budget = "-" if row["budget"] is None else f"{row['budget']:g}"
    verdict = row["why"] or ("ok" if row["budget"] is not None else "")
    return f"| {row['process']} | {row['measure']} | {row['unit']} | {measured} | {budget} | {verdict} |\n"


def _section(record: Mapping[str, Any]) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in record["facts"].items())
    machine = record["machine"]
    head = f"## {record['run']}: {'within its budgets' if record['met'] else 'NOT within its budgets'}\n\n"
    where = f"{record['at']}, {machine['processors']} processors, load {machine['load']}. {facts}\n\n"
    return head + where + _HEAD + "".join(_printed(row) for row in record["lines"])
