"""`edge-runtime status`: whether the device may move, why not, and how everything about it is."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runtime.cli.state_option import Json, State, existing_state, repeated

if TYPE_CHECKING:
    from rich.console import Console

    from edge_runtime.cli.status_sources import DeviceStatus
    from edge_runtime.clock import Clock
    from edge_runtime.state import StateDirectory

PERIOD_S = 1.0


def status(
    state: State = None,
    as_json: Json = False,
    once: Annotated[bool, typer.Option("--once", help="Print it once, also on a terminal.")] = False,
) -> int:
    """Say on one screen whether the device may move, why not, what to type, and how everything is.

    On a terminal it stays and is renewed each second, until Ctrl-C. The exit code is that of the last look.
    """
    from rich.console import Console

    from edge_runtime.cli.guard_look import WIDTH
    from edge_runtime.cli.report import write_json
    from edge_runtime.cli.status_sources import gather
    from edge_runtime.clock import SystemClock

    where, clock = existing_state(state), SystemClock()
    if as_json:
        found = gather(where, clock)
        write_json(found.to_json())
        return found.exit_code
    console = Console(highlight=False)
    if console.is_terminal and not once:
        return _watch(console, where, clock, state)
    found = gather(where, clock)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    _print(console, found, state)
    return found.exit_code


def _watch(console: "Console", where: "StateDirectory", clock: "Clock", option: Path | None) -> int:
    """The screen, renewed until Ctrl-C; what it last showed stays on the terminal."""
    from rich.console import Group
    from rich.live import Live

    from edge_runtime.cli.status_screen import fitted, status_lines
    from edge_runtime.cli.status_sources import gather

    found = gather(where, clock)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                lines = fitted(status_lines(found, repeated(option)), console.height)
                live.update(Group(*lines), refresh=True)
                time.sleep(PERIOD_S)
                found = gather(where, clock)
    except KeyboardInterrupt:
        _print(console, found, option)
    return found.exit_code


def _print(console: "Console", found: "DeviceStatus", option: Path | None) -> None:
    from edge_runtime.cli.status_screen import status_lines

    for line in status_lines(found, repeated(option)):
        console.print(line, soft_wrap=True)
