"""How far a build is: what its process says line by line, and what a person is shown of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edge_runtime.perception.backends.tensorrt.log import one_line

_LONGEST = 120


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """One sign of progress.

    Attributes:
        phase: as TensorRT calls it, or `wait` (for another's build), `start`, `parse`, `save`.
        step: of the phase, from 0.
        steps: of the phase; 0 where nobody knows.
        parent: the phase that it is part of; empty for the outermost.
    """

    phase: str
    step: int
    steps: int
    parent: str = ""

    @property
    def text(self) -> str:
        """For people."""
        return (
            self.phase if self.steps <= 0 else f"{self.phase}: {min(self.step, self.steps)} of {self.steps}"
        )

    def line(self) -> str:
        """As the process of a build writes it."""
        return json.dumps(
            {"phase": self.phase, "step": self.step, "steps": self.steps, "parent": self.parent}
        )


OnProgress = Callable[[BuildProgress], None]
"""Told each sign of progress, from the thread that waits for the build."""


def show_nothing(_progress: BuildProgress) -> None:
    """Shows nothing."""


def read_progress(record: Mapping[str, Any]) -> BuildProgress | None:
    """A line's progress; None where the line is about something else."""
    phase, step, steps = record.get("phase"), record.get("step"), record.get("steps")
    if not isinstance(phase, str) or not isinstance(step, int) or not isinstance(steps, int):
        return None
    parent = record.get("parent")
    return BuildProgress(_shown(phase), step, steps, _shown(parent) if isinstance(parent, str) else "")


def _shown(phase: str) -> str:
    """A phase may be named after a layer of the model: nothing in it may drive a terminal."""
    return one_line(phase)[:_LONGEST]
