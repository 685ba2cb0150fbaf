"""`edge-runtime recorder`: what the flight recorder of this device holds, also of one that no longer runs."""

import sys
from typing import Annotated

import typer

from edge_runtime.cli.state_option import State, existing_state

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Read the flight recorder.",
)


@app.callback()
def _group() -> None:
    """Read the flight recorder: the guard's states, why, and what was measured around them."""


@app.command()
def dump(
    state: State = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each record as one line of JSON.")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="Only from then on: 15m or 2h before the newest record, or 2026-11-29T23:00."
        ),
    ] = None,
    every: Annotated[
        float, typer.Option(min=0, max=86_400, metavar="SECONDS", help="Show measurements so often.")
    ] = 10.0,
) -> None:
    """Print the guard's states, their causes, and what was measured, oldest first.

    Nothing has to run, and nothing has to have ended in order: what is torn or damaged is skipped, and counted on
    stderr. With --json every measurement is printed. A recording that is not there or that this user may not read
    is exit code 1, and one sentence on stderr says which.
    """
    from edge_runtime.cli.recorder_screen import table_lines
    from edge_runtime.cli.recorder_since import wanted
    from edge_runtime.cli.report import write_json
    from edge_runtime.errors import EdgeRuntimeError
    from edge_runtime.monitor.flight import FLIGHT, Damage, segments

    folder = existing_state(state).guard / FLIGHT
    try:
        found = segments(folder)
    except OSError as error:
        raise EdgeRuntimeError(f"{folder} cannot be read: {error.strerror}") from None
    if not found:
        raise EdgeRuntimeError(
            f"there is no flight recording in {folder}; the device has never run under a guard"
        )
    damage = Damage()
    records = wanted(folder, since, damage)
    if as_json:
        for record in records:
            write_json(record.to_json())
    else:
        for line in table_lines(records, every):
            typer.echo(line)
    if damage.lines:
        sys.stderr.write(f"{damage.lines} torn or damaged lines skipped\n")
    for file in damage.files:
        sys.stderr.write(f"not read: {file}\n")
