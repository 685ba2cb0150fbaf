"""What a check found, and what it amounts to."""

from dataclasses import dataclass
from typing import Literal

from edge_runtime.errors import PackageError
from edge_runtime.packages import FileDiffers, ManifestInvalid, WeightsAbsent

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a package, or worth knowing.

    Attributes:
        code: stable, for programs; docs/model-packages.md lists them.
        text: one sentence for people.
        severity: an `error` makes the package unfit, a `warning` does not.
    """

    code: str
    text: str
    severity: Severity = "error"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that a check found.

    Attributes:
        name: of the package.
        digest: of its manifest.
        problems: errors first.
    """

    name: str
    digest: str
    problems: tuple[Problem, ...]

    @property
    def fit(self) -> bool:
        """Whether the package may be put to work: it has no error."""
        return all(problem.severity != "error" for problem in self.problems)


def unopened(name: str, error: PackageError) -> CheckReport:
    """The report on a package that could not even be opened.

    Args:
        name: what the user called it.
        error: why not.
    """
    codes = {
        FileDiffers: "file-differs",
        ManifestInvalid: "manifest-invalid",
        WeightsAbsent: "weights-absent",
    }
    return CheckReport(name, "", (Problem(codes.get(type(error), "not-a-package"), str(error)),))
