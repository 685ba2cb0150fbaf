"""Writes the reports of some runs into a folder."""

import json
from collections.abc import Sequence
from pathlib import Path

from sim.report.junit import junit
from sim.report.page import page
from sim.report.run import Run, as_json

JUNIT, JSON, PAGE = "junit.xml", "report.json", "report.html"


def write_reports(folder: Path, runs: Sequence[Run]) -> None:
    """JUnit, JSON and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JUNIT).write_text(junit(runs), encoding="utf-8")
    (folder / JSON).write_text(json.dumps(as_json(runs), indent=2) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(page(runs), encoding="utf-8")
