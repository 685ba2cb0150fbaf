"""`fleet`: the operator's command line. Errors are one line on stderr and a documented exit code."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from edge_runtime import __version__
from edge_runtime.errors import EdgeRuntimeError
from fleet_server.cli.commands import EXIT_INTERRUPTED, EXIT_SOFTWARE, EXIT_TERMINATED, EXIT_USAGE
from fleet_server.cli.lazy import LazyGroup

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

app = typer.Typer(
    cls=LazyGroup,
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
            prog_name="fleet",
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
    if code == EXIT_SOFTWARE and os.environ.get("FLEET_DEBUG") == "1":
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
        if module in SERVER_MODULES:
            text = f"this needs the server's parts ({module}): pip install 'edge-fleet-runtime[server]'"
            return text, EXIT_USAGE
    text = f"unexpected {type(error).__name__}: {_one_line(str(error))}"
    return f"{text} (a defect; FLEET_DEBUG=1 shows the details)", EXIT_SOFTWARE


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _say(text: str, code: int) -> int:
    try:
        sys.stderr.write(f"error: {_one_line(text) or 'failed'}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    return code


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(EXIT_TERMINATED)


def main() -> NoReturn:
    """Entry point of the console script `fleet`."""
    # As SIGINT does, SIGTERM unwinds the command, so that half-written files are cleaned up.
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run())


if __name__ == "__main__":
    main()
