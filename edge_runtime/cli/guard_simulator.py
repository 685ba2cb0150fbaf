"""`edge-runtime guard simulate`: a page on a terminal, else commands from standard input."""

import contextlib
import os
import re
import select
import sys
import termios
import tty
from collections.abc import Iterable, Iterator

import typer
from rich.console import Console, Group
from rich.live import Live

from edge_runtime.cli.guard_profile import Body
from edge_runtime.cli.guard_simulation import (
    MS,
    BadCommand,
    Simulation,
    begin,
    commanded,
    help_lines,
    passed,
    summary_lines,
)
from edge_runtime.cli.guard_simulation_page import Page, pressed, rendered
from edge_runtime.clock import Clock, SystemClock
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.guard.memory import State

_PICTURE_S = 0.1
_LONGEST_GAP_MS = 500
"""A page that was stopped goes on where it was, and does not run after the time that has passed."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[@-~]|O.)?")
"""What a terminal sends for arrows and the like."""


class NotAsExpected(EdgeRuntimeError):
    """A script expected another state."""


def run(body: Body) -> int:
    """Simulate until the person or the script is done; the exit code.

    Raises:
        BadCommand: a line of the script cannot be understood.
        NotAsExpected: the state is not the one that the script expects.
    """
    if sys.stdin.isatty() and sys.stdout.isatty():
        _show(body, SystemClock())
    else:
        for line in scripted(body, sys.stdin):
            typer.echo(line)
    return 0


def scripted(body: Body, lines: Iterable[str]) -> Iterator[str]:
    """What a script makes the guard say: one line for each change, and what it asks to see.

    Besides the commands of a simulation there are `expect STATE`, `show`, `help` and `quit`; `#` begins a remark.

    Raises:
        BadCommand: naming the line.
        NotAsExpected: naming the line.
    """
    simulation = begin(body)
    yield from _fresh(simulation, 0)
    for number, raw in enumerate(lines, start=1):
        text = raw.partition("#")[0].strip()
        if not text:
            continue
        word, _, rest = text.partition(" ")
        if word == "quit":
            return
        if word == "help":
            yield from help_lines()
            yield f"{'expect STATE':<32}end with 1 unless the state is this one"
            yield f"{'show':<32}the state, and each condition that is not at rest"
        elif word == "show":
            yield from summary_lines(simulation)
        elif word == "expect":
            _expect(simulation, rest.strip(), number)
        else:
            try:
                after = commanded(simulation, text)
            except ConfigError as error:
                raise BadCommand(f"line {number}: {error}") from None
            yield from _fresh(after, simulation.said)
            simulation = after


def _expect(simulation: Simulation, wanted: str, number: int) -> None:
    names = [state.value for state in State]
    if wanted.upper() not in names:
        raise BadCommand(f"line {number}: expect takes one of {', '.join(names)}")
    if simulation.state.value != wanted.upper():
        raise NotAsExpected(f"line {number}: the state is {simulation.state.value}, not {wanted.upper()}")


def _fresh(simulation: Simulation, said: int) -> Iterator[str]:
    """What was told since so many sentences."""
    count = simulation.said - said
    for at_ms, sentence in simulation.told[-count:] if count else ():
        yield f"{at_ms / 1000:9.2f} s  {sentence}"


def _show(body: Body, clock: Clock) -> None:
    """The page, until its reader leaves it."""
    page, looked_ns = Page(begin(body)), clock.monotonic_ns()
    with _keys_at_once(), Live(console=Console(), screen=True, auto_refresh=False) as live:
        while not page.over:
            live.update(Group(*rendered(page)), refresh=True)
            for key in _keys(_PICTURE_S):
                page = pressed(page, key)
            gap_ms = (clock.monotonic_ns() - looked_ns) // MS // 10 * 10
            looked_ns += gap_ms * MS
            if page.runs and gap_ms:
                page = Page(passed(page.simulation, min(gap_ms, _LONGEST_GAP_MS)), page.runs, page.over)


@contextlib.contextmanager
def _keys_at_once() -> Iterator[None]:
    """The terminal hands over each key as it is pressed, and does not show it."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _keys(wait_s: float) -> str:
    """Keys that were pressed within so long; none for arrows and the like."""
    ready, _, _ = select.select([sys.stdin], [], [], wait_s)
    if not ready:
        return ""
    came = os.read(sys.stdin.fileno(), 256)
    if not came:  # the terminal is gone
        return "Q"
    return _ESCAPE.sub("", came.decode(errors="ignore"))
