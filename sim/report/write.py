"""Writes the reports of some runs into a folder."""

import json
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.errors import EdgeRuntimeError
from sim.report.junit import junit
from sim.report.page import page
from sim.report.run import Run, as_json

JUNIT, JSON, PAGE = "junit.xml", "report.json", "report.html"


def write_reports(folder: Path, runs: Sequence[Run]) -> None:
    """JUnit, JSON and the page.

    Raises:
        EdgeRuntimeError: the folder cannot be written to.
    """
    texts = {JUNIT: junit(runs), JSON: json.dumps(as_json(runs), indent=2) + "\n", PAGE: page(runs)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise EdgeRuntimeError(f"{folder}: the reports cannot be written: {error.strerror}") from None
