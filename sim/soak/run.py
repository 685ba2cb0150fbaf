"""One soak run: watch, figures, verdict, report."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edge_runtime.clock import SystemClock
from sim.soak.budgets import Budgets, read_budgets
from sim.soak.figures import Figure, figures_of
from sim.soak.judge import Line, judge
from sim.soak.report import table, write_report
from sim.soak.watch import Watch


class SoakRun:
    """A run by the name that it has in `budgets.toml`.

    Args:
        name: of the run.
        folder: for the report.
        budgets: the file's where none are given.

    Raises:
        ConfigError: the file cannot be used, or has no budgets for such a run.
    """

    def __init__(self, name: str, folder: Path, budgets: Budgets | None = None) -> None:
        self._name, self._folder = name, folder
        self._budgets = budgets or read_budgets()
        self._of_run = self._budgets.of(name)
        self._figures: list[Figure] = []

    @contextlib.contextmanager
    def watching(
        self, find: Callable[[], Mapping[str, int]], logs: Mapping[str, Path] | None = None
    ) -> Iterator[None]:
        """Watch processes and logs for the length of the block; see `Watch`."""
        watch = Watch(find, logs)
        with watch.looking(self._budgets.look_every):
            yield
        self._figures += figures_of(watch, self._budgets.warm_up)

    def finish(self, further: Sequence[Figure] = (), **facts: Any) -> list[Line]:
        """Judge, write the report, and print its table.

        Args:
            further: what was measured in another way, frame jitter for one.
            facts: for the report.
        """
        lines = judge([*self._figures, *further], self._of_run)
        path = write_report(self._folder, self._name, lines, facts, SystemClock())
        print(f"\n{self._name}: {facts}\n{table(lines)}{path}")
        return lines


def over(lines: Sequence[Line]) -> list[str]:
    """What is not within its budget, a sentence each."""
    return [
        f"{line.figure.subject}, {line.figure.measure}: {line.why}"
        f" ({line.figure.value} of {line.budget} {line.figure.unit})"
        for line in lines
        if not line.met
    ]
