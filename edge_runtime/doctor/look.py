"""How the doctor looks: files below a root, commands with a time limit, and the reasons of what is not found."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from edge_runtime.clock import Clock
from edge_runtime.health import Reading
from edge_runtime.health.reading import unknown
from edge_runtime.health.sysfiles import SysFiles

T = TypeVar("T")

Run = Callable[[Sequence[str], float], Reading[str]]
"""Runs a command for at most so many seconds; what it printed, or why there is nothing."""

LONGEST_TEXT = 120
_MOST_OUTPUT = 1 << 20
_BUDGET_MS = 10_000.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python that is looked at.

    Attributes:
        version: like `3.10.12`.
        search_path: folders that it imports from.
        virtual: whether it is a virtual environment's.
        system_site_packages: whether that environment sees the system's modules.
    """

    version: str
    search_path: tuple[str, ...]
    virtual: bool
    system_site_packages: bool | None

    @classmethod
    def this(cls) -> "Interpreter":
        """The one that runs this."""
        virtual = sys.prefix != sys.base_prefix
        version = ".".join(str(part) for part in sys.version_info[:3])
        return cls(version, tuple(sys.path), virtual, sees_the_system(Path(sys.prefix)) if virtual else None)


def sees_the_system(environment: Path) -> bool:
    """Whether a virtual environment was made with `--system-site-packages`, by its own file."""
    try:
        text = (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(r"^include-system-site-packages\s*=\s*true\s*$", text, re.MULTILINE | re.I) is not None


@dataclass(slots=True)
class Look:
    """One look at a machine.

    Attributes:
        root: `/`, or the top of a tree that looks like it.
        files: small files below it, within a budget.
        run: for the few facts that no file tells.
        interpreter: whose modules are looked at.
        reasons: why a value is null, by its path; `keep` fills it.
    """

    root: Path
    files: SysFiles
    run: Run
    interpreter: Interpreter
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(
        cls, clock: Clock, root: Path = Path("/"), run: Run | None = None, python: Interpreter | None = None
    ) -> "Look":
        """A look at the tree below `root`, through this machine's commands and Python where none are given."""
        return cls(
            root,
            SysFiles(root, clock, max_ms=_BUDGET_MS),
            run or run_command,
            python or Interpreter.this(),
        )

    def keep(self, path: str, reading: Reading[T]) -> T | None:
        """The value of a reading; where it has none, the reason is noted for `path`."""
        if reading.value is None:
            self.reasons[path] = clean(reading.reason)
        return reading.value


def clean(text: str) -> str:
    """One line of at most `LONGEST_TEXT` characters that a terminal may show: no control characters."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())[:LONGEST_TEXT]


def cleaned(reading: Reading[str]) -> Reading[str]:
    """A reading of text, fit to be shown; unknown where nothing is left of it."""
    if reading.value is None:
        return reading
    text = clean(reading.value)
    return Reading(text) if text else unknown("empty")


def run_command(command: Sequence[str], timeout_s: float) -> Reading[str]:
    """What a command printed on stdout, which may be nothing. Never raises."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell
            list(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        return unknown(f"{command[0]} is not installed")
    except subprocess.TimeoutExpired:
        return unknown(f"{command[0]} did not answer within {timeout_s:g} s")
    except OSError as error:
        return unknown(f"{command[0]} does not start: {error.strerror}")
    said = done.stdout[:_MOST_OUTPUT].decode("utf-8", errors="replace")
    if done.returncode != 0:
        words = clean(said) or clean(done.stderr[:_MOST_OUTPUT].decode("utf-8", errors="replace"))
        return unknown(f"{command[0]} failed with {done.returncode}{': ' if words else ''}{words}")
    return Reading(said)
