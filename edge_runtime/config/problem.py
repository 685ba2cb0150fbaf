"""Many findings about a configuration make one error."""

from collections.abc import Iterable

from edge_runtime.document import Problem
from edge_runtime.errors import ConfigError

MAX_SHOWN = 100
"""A hopeless file is not listed to its end."""


class InvalidConfig(ConfigError):
    """A configuration file cannot be used; `problems` lists every reason, in the order of the file."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__(self._text())

    def lines(self) -> list[str]:
        """One line per problem, and one that says how many are not shown."""
        shown = [problem.show(self.file) for problem in self.problems[:MAX_SHOWN]]
        if len(self.problems) > MAX_SHOWN:
            shown.append(f"{self.file}: and {len(self.problems) - MAX_SHOWN} more problems")
        return shown

    def _text(self) -> str:
        lines = self.lines()
        if len(lines) == 1:
            return lines[0]
        return "\n".join([f"{self.file}: {len(self.problems)} problems", *lines])
