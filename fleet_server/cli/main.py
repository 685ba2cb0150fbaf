"""`fleet`: the operator's command line."""

import typer

from edge_runtime.protocol import DataClass

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Operate a fleet of edge devices.")


@app.callback()
def _root() -> None:
    """Operate a fleet of edge devices."""


@app.command()
def classes() -> None:
    """List the classes of data that policies and labels may name, least careful first."""
    for data_class in DataClass:
        typer.echo(data_class.value)


def main() -> None:
    """Entry point of the console script `fleet`."""
    app()
