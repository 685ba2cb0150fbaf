"""How a command line ends: every error is said on stderr in a sentence, and leaves with a documented exit code."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import typer

from edge_runtime.errors import EdgeRuntimeError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_SOFTWARE = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_TERMINATED = 143  # 128 + SIGTERM


@dataclass(frozen=True, slots=True)
class Program:
    """One command line.

    Attributes:
        name: as typed.
        app: its commands.
        debug: environment variable; `1` in it shows the traceback of a defect.
        what_to_install: given the name of a module that is missing, the sentence that says what brings it; None
            where no extra does, which is a defect.
        one_line: whether an error is cut to one line. False keeps the lines of an error that lists problems.
    """

    name: str
    app: typer.Typer
    debug: str
    what_to_install: Callable[[str], str | None]
    one_line: bool

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run one command line.

        Args:
            arguments: without the program's name; `sys.argv` when None.

        Returns:
            The exit code: a command's own (what it returned, or `typer.Exit`), or that of its error.
        """
        try:
            outcome = typer.main.get_command(self.app).main(
                args=None if arguments is None else list(arguments),
                prog_name=self.name,
                standalone_mode=False,
            )
            sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 - the last handler: no error may reach the user as a traceback
            return self.report(error)
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        except SystemExit as left:
            return left.code if isinstance(left.code, int) else EXIT_SOFTWARE
        return outcome if isinstance(outcome, int) and not isinstance(outcome, bool) else 0

    def main(self) -> NoReturn:
        """Run the process's command line and leave. As SIGINT does, SIGTERM unwinds the command.

        Half-written files, scratch folders and open files are cleaned up on the way.
        """
        signal.signal(signal.SIGTERM, _terminate)
        _watch_stdout()
        sys.exit(self.run())

    def report(self, error: Exception) -> int:
        """Say an error on stderr; its exit code."""
        if isinstance(error, BrokenPipeError):
            _give_up_stdout()  # its reader left (`… | head`): nothing to say
            return 0
        if isinstance(error, _OutputLost):
            _give_up_stdout()
            return self._say(str(error), EXIT_FAILED)
        if isinstance(error, typer.Abort):
            return EXIT_INTERRUPTED
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return EXIT_USAGE
        text, code = self._describe(error)
        if code == EXIT_SOFTWARE and os.environ.get(self.debug) == "1":
            import traceback  # noqa: PLC0415 - only for a defect

            traceback.print_exception(error)
            return code
        return self._say(text, code)

    def _describe(self, error: Exception) -> tuple[str, int]:
        """What to tell the user about `error`, and the exit code."""
        if isinstance(error, EdgeRuntimeError):
            return str(error), error.exit_code
        if hasattr(error, "format_message"):  # what click raises for a wrong command line
            context: Any = getattr(error, "ctx", None)
            where = f" (see {context.command_path} --help)" if context is not None else ""
            message = (
                error.format_message().rstrip(".").replace(": Value error, ", ": ")
            )  # pydantic's own words
            return message + where, getattr(error, "exit_code", EXIT_USAGE)
        if isinstance(error, ModuleNotFoundError):
            needed = self.what_to_install((error.name or "").split(".")[0])
            if needed is not None:
                return needed, EXIT_USAGE
        text = f"unexpected {type(error).__name__}: {_one_line(str(error))}"
        return f"{text} (a defect; {self.debug}=1 shows the details)", EXIT_SOFTWARE

    def _say(self, text: str, code: int) -> int:
        shown = [_one_line(text)] if self.one_line else text.splitlines()
        lines = [_plain(line) for line in shown if line.strip()] or ["failed"]
        try:
            sys.stderr.write(f"error: {lines[0]}\n" + "".join(f"{line}\n" for line in lines[1:]))
            sys.stderr.flush()
        except OSError:  # nobody can be told
            pass
        return code


class _OutputLost(OSError):
    """Standard output takes nothing more."""


class _Output(io.FileIO):
    """Standard output whose errors can be told from those of any other file."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _OutputLost(
                f"standard output cannot be written: {error.strerror}; what was to be shown is lost"
            ) from error


def _watch_stdout() -> None:
    """Put `_Output` below `sys.stdout`, which stays as it was otherwise; a closed stream goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - kept to the end
    now = sys.stdout
    try:
        raw = _Output(now.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):  # it is no file
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=now.encoding,
        errors=now.errors,
        line_buffering=getattr(now, "line_buffering", False),
        write_through=getattr(now, "write_through", False),
    )


def _give_up_stdout() -> None:
    """Let the rest go nowhere, so that there is no second error when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(text: str) -> str:
    """Control characters made visible: a name out of somebody's file must not drive the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(EXIT_TERMINATED)
