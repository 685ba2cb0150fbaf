"""Opening each configured model in a process of its own, which may hang or crash without taking the doctor along.

A list of providers says what a library was built with, not what runs (microsoft/onnxruntime #23372, #23612): the
only proof is a model that was opened and has answered.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from edge_runtime.doctor.facts import ModelFacts
from edge_runtime.doctor.look import clean
from edge_runtime.lifeline import signal_name, told_parent

OpenModel = Callable[[str, tuple[str, ...], float], ModelFacts]
"""Opens the model of this name, which asks for these providers, within so many seconds."""

_LONGEST = 500
_MODULE = "edge_runtime.doctor.opening"


def children_of(config: Path, state: Path | None) -> OpenModel:
    """Opens models of a configuration file, each in a child process.

    Args:
        config: the file.
        state: of a `--state` option: where engines are kept.
    """

    def opened(name: str, providers: tuple[str, ...], timeout_s: float) -> ModelFacts:
        command = [
            sys.executable,
            "-m",
            _MODULE,
            str(config),
            name,
            *(() if state is None else (str(state),)),
        ]
        return watch(command, providers, timeout_s)

    return opened


def watch(command: Sequence[str], providers: tuple[str, ...], timeout_s: float) -> ModelFacts:
    """Run a command that opens a model and prints what became of it as its last line."""
    began = time.monotonic()

    def facts(**told: Any) -> ModelFacts:
        return ModelFacts(requested=providers, seconds=round(time.monotonic() - began, 3), **told)

    try:
        child = subprocess.Popen(  # noqa: S603 - this interpreter, no shell
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=told_parent(os.environ),
            start_new_session=True,  # so that what it starts is ended with it
        )
    except OSError as error:
        return facts(error=f"its process does not start: {error.strerror}")
    with child:
        try:
            said, complaint = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(child)
            return facts(
                error=f"it was not open within {timeout_s:g} s and was given up: give more with --timeout, or look "
                "with `edge-runtime run` at what it waits for"
            )
        except BaseException:
            _end(child)
            raise
    if child.returncode < 0:
        return facts(error=f"its process was ended by {signal_name(-child.returncode)} while it opened")
    lines = said.decode("utf-8", errors="replace").splitlines()
    try:
        told = json.loads(lines[-1]) if lines else None
        return facts(**{key: str(value)[:_LONGEST] for key, value in dict(told or {})["model"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
        words = clean(complaint.decode("utf-8", errors="replace")[-_LONGEST:])
        return facts(
            error=f"its process ended with {child.returncode} and no answer: {words or 'it is silent'}"
        )


def _end(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
