"""`edge-runtime`: the device's command line. Errors are one line on stderr and a documented exit code."""

from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from edge_runtime import __version__
from edge_runtime.cli.commands import COMMANDS, EVERYWHERE
from edge_runtime.console import LazyGroup, Program

EXTRA_OF_MODULE = {
    "av": "device",
    "cv2": "device",
    "numpy": "device",
    "onnx": "models",
    "onnxruntime": "device",
    "prometheus_client": "device",
    "pycocotools": "models",
}
"""Which extra brings an optional module."""


class Commands(LazyGroup):
    """The commands of the table."""

    rows = COMMANDS
    everywhere = EVERYWHERE


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"edge-runtime {__version__}")
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
    """See with a camera, follow what is seen, and turn it into bounded events, on the device."""


def _what_to_install(module: str) -> str | None:
    extra = EXTRA_OF_MODULE.get(module)
    return None if extra is None else f"needs {module}: pip install 'edge-fleet-runtime[{extra}]'"


PROGRAM = Program("edge-runtime", app, "EDGE_RUNTIME_DEBUG", _what_to_install, one_line=False)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; see `Program.run`."""
    return PROGRAM.run(arguments)


def main() -> NoReturn:
    """Entry point of the console script `edge-runtime`."""
    PROGRAM.main()


if __name__ == "__main__":
    main()
