"""`edge-runtime`: the device's command line. Errors are one line on stderr and a documented exit code."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from edge_runtime import __version__
from edge_runtime.cli.lazy import LazyGroup
from edge_runtime.errors import EdgeRuntimeError

EXIT_USAGE = 2
EXIT_SOFTWARE = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_TERMINATED = 143  # 128 + SIGTERM

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

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
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


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        arguments: without the program's name; `sys.argv` when None.

    Returns:
        The exit code: a command's own (what it returned, or `typer.Exit`), or that of its error.
    """
    try:
        outcome = typer.main.get_command(app).main(
            args=None if arguments is None else list(arguments),
            prog_name="edge-runtime",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the last handler: no error may reach the user as a traceback
        return _report(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else EXIT_SOFTWARE
    return outcome if isinstance(outcome, int) and not isinstance(outcome, bool) else 0


def _report(error: Exception) -> int:
    """One line on stderr for `error`; its exit code."""
    if isinstance(error, BrokenPipeError):
        # The reader of our output left (`… | head`): nothing to say, and no second error at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, typer.Abort):
        return EXIT_INTERRUPTED
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]
        return EXIT_USAGE
    text, code = _describe(error)
    if code == EXIT_SOFTWARE and os.environ.get("EDGE_RUNTIME_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
        return code
    return _say(text, code)


def _describe(error: Exception) -> tuple[str, int]:
    """What to tell the user about `error`, and the exit code."""
    if isinstance(error, EdgeRuntimeError):
        return str(error), error.exit_code
    if hasattr(error, "format_message"):  # what click raises for a wrong command line
        context: Any = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context is not None else ""
        return error.format_message().rstrip(".") + where, getattr(error, "exit_code", EXIT_USAGE)
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").split(".")[0]
        if module in EXTRA_OF_MODULE:
            return f"needs {module}: pip install 'edge-fleet-runtime[{EXTRA_OF_MODULE[module]}]'", EXIT_USAGE
    text = f"unexpected {type(error).__name__}: {_one_line(str(error))}"
    return f"{text} (a defect; EDGE_RUNTIME_DEBUG=1 shows the details)", EXIT_SOFTWARE


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _say(text: str, code: int) -> int:
    # An error that lists several problems has one per line; all other errors are one line.
    lines = [line for line in text.splitlines() if line.strip()] or ["failed"]
    try:
        sys.stderr.write(f"error: {lines[0]}\n" + "".join(f"{line}\n" for line in lines[1:]))
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    return code


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(EXIT_TERMINATED)


def main() -> NoReturn:
    """Entry point of the console script `edge-runtime`."""
    # As SIGINT does, SIGTERM unwinds the command, so that scratch folders and open files are cleaned up.
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run())


if __name__ == "__main__":
    main()
