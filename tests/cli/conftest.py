"""Command lines run in this process, as the console script runs them."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import structlog

from edge_runtime.cli import main
from edge_runtime.telemetry.redaction import SECRETS


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """`cli("config", "check", path)` → exit code and what was printed."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    yield run
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
    SECRETS.clear()
