"""`fleet`: the operator's command line. Errors are one line on stderr and a documented exit code."""

from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from edge_runtime import __version__
from edge_runtime.console import LazyGroup, Program
from fleet_server.cli.commands import COMMANDS, EVERYWHERE

SERVER_MODULES = (
    "alembic",
    "fastapi",
    "paho",
    "prometheus_client",
    "psycopg",
    "sqlalchemy",
    "starlette",
    "uvicorn",
)
"""Modules of the extra `server`: needed on the server's machine, not for operating one from elsewhere."""


class Commands(LazyGroup):
    """The commands of the table."""

    rows = COMMANDS
    everywhere = EVERYWHERE


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"fleet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda value: _print_version(wanted=value),
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Operate a fleet of edge devices: run its server, enrol devices, follow events, review what is held.

    Commands that speak to a server take --server URL --token-file F --ca F from anywhere, or --data DIR on its own
    machine (environment: FLEET_SERVER, FLEET_TOKEN, FLEET_CA, FLEET_DATA).
    """


def _what_to_install(module: str) -> str | None:
    if module not in SERVER_MODULES:
        return None
    return f"this needs the server's parts ({module}): pip install 'edge-fleet-runtime[server]'"


PROGRAM = Program("fleet", app, "FLEET_DEBUG", _what_to_install, one_line=True)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; see `Program.run`."""
    return PROGRAM.run(arguments)


def main() -> NoReturn:
    """Entry point of the console script `fleet`."""
    PROGRAM.main()


if __name__ == "__main__":
    main()
