"""What both command lines share: commands that are imported when invoked, and one last handler of errors."""

from edge_runtime.console.lazy import LazyGroup, Row, load
from edge_runtime.console.program import (
    EXIT_INTERRUPTED,
    EXIT_SOFTWARE,
    EXIT_TERMINATED,
    EXIT_USAGE,
    Program,
)

__all__ = [
    "EXIT_INTERRUPTED",
    "EXIT_SOFTWARE",
    "EXIT_TERMINATED",
    "EXIT_USAGE",
    "LazyGroup",
    "Program",
    "Row",
    "load",
]
