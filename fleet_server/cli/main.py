"""`fleet`: the operator's command line. It says what it is and that there is no server yet, and nothing else."""

from typing import Annotated

import typer

from edge_runtime import __version__

EXIT_USAGE = 2
NO_SERVER = "error: this release holds no fleet server yet; edge-runtime is the command of a device"

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.command()
def _root(
    *,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Operate a fleet of edge devices. This release holds no server yet, so there is nothing to operate."""
    if version:
        typer.echo(f"fleet {__version__}")
        return
    typer.echo(NO_SERVER, err=True)
    raise typer.Exit(EXIT_USAGE)


def main() -> None:
    """Entry point of the console script `fleet`."""
    app(prog_name="fleet")
