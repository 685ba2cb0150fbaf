"""Which names and signatures of a library some modules use, held against every release that they must run on."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.rigs.tensorrt_double.api import REPOSITORY
from tests.rigs.tensorrt_double.catalogue import Catalogue
from tests.rigs.tensorrt_double.flow import Flow


@dataclass(frozen=True, order=True, slots=True)
class Finding:
    """Something that a release has not, or has otherwise."""

    file: str
    line: int
    release: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.release}: {self.text}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; `seen` are the names of the library that were met, by release."""

    findings: tuple[Finding, ...]
    seen: Mapping[str, frozenset[str]]


def trees_of(paths: Iterable[Path], root: Path = REPOSITORY) -> dict[str, ast.Module]:
    """Syntax trees by dotted name."""
    found = {}
    for path in sorted(paths):
        dotted = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found[dotted] = ast.parse(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    return found


def file_of(module: str, root: Path = REPOSITORY) -> str:
    """Where a module lies."""
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (root / path).is_dir() else f"{path}.py"


def examine(modules: Mapping[str, ast.Module], catalogues: Iterable[Catalogue]) -> Report:
    """Hold some modules against every release; a name may be missing in one only behind `hasattr`."""
    findings: set[Finding] = set()
    seen = {}
    for catalogue in catalogues:

        def told(module: str, node: ast.AST, text: str, label: str = catalogue.label) -> None:
            findings.add(Finding(file_of(module), getattr(node, "lineno", 0), label, text))

        flow = Flow(catalogue, modules, told)
        flow.run()
        seen[catalogue.label] = frozenset(flow.seen)
    return Report(tuple(sorted(findings)), seen)
