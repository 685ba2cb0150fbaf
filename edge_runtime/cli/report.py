"""How commands print: findings on stderr, one line each; one JSON object on stdout where it is asked for."""

import json
import sys
from collections.abc import Iterable
from typing import Any

from edge_runtime.config import Problem
from edge_runtime.telemetry import redact


def say(line: str) -> None:
    """One line for people, on stderr."""
    sys.stderr.write(redact(line) + "\n")


def write_json(data: Any, indent: int | None = None) -> None:
    """One JSON value for programs, on stdout."""
    sys.stdout.write(json.dumps(data, indent=indent) + "\n")


def problem_records(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Findings as plain data: path, line, text."""
    return [
        {"path": problem.path, "line": problem.line, "text": redact(problem.text)} for problem in problems
    ]


def short_time(milliseconds: int) -> str:
    """A duration in its largest unit."""
    seconds = milliseconds // 1000
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
