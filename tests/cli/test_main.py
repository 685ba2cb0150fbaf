import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import edge_runtime
from edge_runtime import __version__, console
from edge_runtime.cli import main
from edge_runtime.cli.commands import COMMANDS, EVERYWHERE, CommandRow
from edge_runtime.errors import ConfigError, EdgeRuntimeError, MissingDependency

DEFECT = "(a defect; EDGE_RUNTIME_DEBUG=1 shows the details)"
NAMES = ", ".join(row.name for row in COMMANDS)


def _raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        """A command that fails."""
        raise error

    return command


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Make one object the only command, named `it`."""

    def _install(target: Any) -> None:
        monkeypatch.setattr(sys.modules[__name__], "_installed", target, raising=False)
        monkeypatch.setattr(main.Commands, "rows", (CommandRow("it", __name__, "_installed", "Does it."),))

    return _install


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (EdgeRuntimeError("cannot go on"), 1, "error: cannot go on"),
        (ConfigError("is wrong"), 2, "error: is wrong"),
        (MissingDependency("needs x"), 2, "error: needs x"),
        (ConfigError("two:\n  a\n\n  b"), 2, "error: two:\n  a\n  b"),
        (EdgeRuntimeError(""), 1, "error: failed"),
        (
            ValueError("odd\nthing"),
            70,
            f"error: unexpected ValueError: odd thing {DEFECT}",
        ),
        (
            ModuleNotFoundError("No module named 'cv2'", name="cv2"),
            2,
            "error: needs cv2: pip install 'edge-fleet-runtime[device]'",
        ),
        (
            ModuleNotFoundError("No module named 'onnx'", name="onnx.helper"),
            2,
            "error: needs onnx: pip install 'edge-fleet-runtime[models]'",
        ),
        (
            ModuleNotFoundError("No module named 'x'", name="x"),
            70,
            f"error: unexpected ModuleNotFoundError: No module named 'x' {DEFECT}",
        ),
        (KeyboardInterrupt(), 130, ""),
        (typer.Exit(7), 7, ""),
        (typer.Abort(), 130, ""),
        (SystemExit(5), 5, ""),
        (typer.BadParameter("no good"), 2, "error: Invalid value: no good"),
    ],
)
def test_every_failure_is_an_exit_code_and_at_most_a_sentence(
    error: BaseException, code: int, line: str, install: Callable[[Any], None], cli: Callable[..., Any]
) -> None:
    install(_raising(error))
    outcome = cli("it")
    assert outcome.code == code
    assert outcome.err.split(" (see ")[0].rstrip("\n") == line
    assert outcome.out == ""


def test_a_name_in_an_error_does_not_drive_the_terminal(
    install: Callable[[Any], None], cli: Callable[..., Any]
) -> None:
    install(_raising(EdgeRuntimeError("the input \x1b]0;evil\x07\x1b[2J is not there")))
    assert cli("it").err == "error: the input \\x1b]0;evil\\x07\\x1b[2J is not there\n"


def test_a_defect_shows_its_traceback_on_request(
    install: Callable[[Any], None], cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGE_RUNTIME_DEBUG", "1")
    install(_raising(ValueError("odd")))
    outcome = cli("it")
    assert outcome.code == 70
    assert "Traceback" in outcome.err
    install(_raising(ConfigError("wrong")))
    assert cli("it").err == "error: wrong\n"


@pytest.mark.parametrize(("value", "code"), [(None, 0), (0, 0), (1, 1), (True, 0), ("x", 0)])
def test_what_a_command_returns_is_its_exit_code(
    value: object, code: int, install: Callable[[Any], None], cli: Callable[..., Any]
) -> None:
    install(lambda: value)
    assert cli("it").code == code


def test_a_group_keeps_its_own_commands(install: Callable[[Any], None], cli: Callable[..., Any]) -> None:
    group = typer.Typer(help="A group.")

    @group.command()
    def inner(number: int) -> int:
        """Takes a number."""
        return number

    @group.command()
    def other() -> None:
        """Does nothing."""

    install(group)
    assert cli("it", "inner", "3").code == 3
    outcome = cli("it", "inner", "three")
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert outcome.err.endswith("(see edge-runtime it inner --help)\n")
    assert outcome.err.count("\n") == 1
    assert cli("it", "--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["runn"], "error: there is no command runn; did you mean run? (see edge-runtime --help)"),
        (
            ["zzz"],
            f"error: there is no command zzz; commands are {NAMES} (see edge-runtime --help)",
        ),
        (["--nonsense"], "error: No such option: --nonsense (see edge-runtime --help)"),
        (["config", "check"], "error: Missing argument 'FILE' (see edge-runtime config check --help)"),
        (
            ["config", "check", "a", "--jsn"],
            "error: No such option: --jsn Did you mean --json? (see edge-runtime config check --help)",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], line: str, cli: Callable[..., Any]) -> None:
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.replace(" (Possible options: --json)", " Did you mean --json?").rstrip("\n") == line


def test_without_arguments_the_help_is_shown_and_the_code_says_so(cli: Callable[..., Any]) -> None:
    outcome = cli()
    assert outcome.code == 2
    assert "Usage: edge-runtime" in outcome.out + outcome.err


def test_the_version(cli: Callable[..., Any]) -> None:
    outcome = cli("--version")
    assert (outcome.code, outcome.out) == (0, f"edge-runtime {__version__}\n")


def test_help_lists_every_command_with_its_line(cli: Callable[..., Any]) -> None:
    outcome = cli("--help")
    assert outcome.code == 0
    words = " ".join(outcome.out.split())
    for row in COMMANDS:
        assert f"{row.name} {row.help}" in words


def leaves(command: Any, before: str = "") -> set[str]:
    """Paths of all commands below one, and its own where it does something by itself."""
    members = getattr(command, "commands", None)
    if members is None:
        return {before}
    found = {before} if getattr(command, "invoke_without_command", False) else set()
    return found.union(*(leaves(one, f"{before} {name}".strip()) for name, one in members.items()))


def test_every_row_of_the_table_leads_to_a_command() -> None:
    for row in COMMANDS:
        command = console.load(row)
        assert set(row.exits) == leaves(command), f"exit codes of {row.name} in cli/commands.py"
        for exits in row.exits.values():
            assert 0 in exits
            assert not set(exits) & {70, 130}


def test_codes_that_mean_the_same_everywhere() -> None:
    assert set(EVERYWHERE) == {
        0,
        EdgeRuntimeError.exit_code,
        console.EXIT_USAGE,
        console.EXIT_SOFTWARE,
        console.EXIT_INTERRUPTED,
        console.EXIT_TERMINATED,
    }


_HEAVY = ("numpy", "cv2", "av", "onnxruntime", "pydantic", "yaml", "rich", "structlog", "prometheus_client")


def test_help_imports_nothing_that_a_command_needs() -> None:
    code = textwrap.dedent(f"""\
        import sys
        from edge_runtime.cli.main import run
        assert run(["--help"]) == 0
        heavy = [name for name in {_HEAVY!r} if name in sys.modules]
        assert not heavy, heavy
        """)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)


def _console_script(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "edge_runtime.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_reader_that_leaves_is_no_error() -> None:
    process = _console_script("config", "schema")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) in (0, 1)
    process.stderr.close()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["config", "schema"]])
def test_an_output_that_takes_nothing_is_said_and_leaves_with_one(
    arguments: list[str], unbuffered: str
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "edge_runtime.cli.main", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error: standard output cannot be written: No space left on device; what was to be shown is lost\n"
    )


def test_an_interrupt_from_the_keyboard_is_silent() -> None:
    process = _console_script("config", "init", stdin=subprocess.PIPE)
    assert process.stderr is not None
    seen = ""
    while "Camera" not in seen:
        char = process.stderr.read(1)
        assert char, seen
        seen += char
    os.kill(process.pid, signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Traceback" not in seen + rest
    assert "error" not in rest


def test_an_unknown_choice_is_told_without_the_words_of_the_library(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["gate", "starter", "nope"]) == 2
    shown = capsys.readouterr().err
    assert "'nope' is not one of 'offline_first', 'site_standard'" in shown
    assert "Value error" not in shown


def members(row: CommandRow) -> list[tuple[list[str], dict[int, str]]]:
    """Words and own exit codes of every command of a row."""
    return [([row.name, *name.split()], dict(exits)) for name, exits in row.exits.items()]


@pytest.mark.parametrize(("words", "exits"), [one for row in COMMANDS for one in members(row)], ids=str)
def test_help_shows_the_exit_codes_of_the_table(
    words: list[str], exits: dict[int, str], cli: Callable[..., Any]
) -> None:
    shown = " ".join(cli(*words, "--help").out.split())
    for code, meaning in exits.items():
        assert f"{code} {meaning}" in shown
    assert "Others: edge-runtime --help." in shown


def test_the_programs_help_shows_the_codes_that_mean_the_same_everywhere(cli: Callable[..., Any]) -> None:
    shown = " ".join(cli("--help").out.split())
    for code, meaning in EVERYWHERE.items():
        assert f"{code} {meaning}" in shown


def test_one_fault_has_one_code(cli: Callable[..., Any]) -> None:
    key = "0" * 32
    commands = [
        ("outbox", "status"),
        ("outbox", "list"),
        ("outbox", "export"),
        ("outbox", "quarantine"),
        ("gate", "list"),
        ("gate", "show", key),
        ("gate", "receipts"),
        ("gate", "release", key, "--by", "Ada", "--reason", "x"),
        ("gate", "drop", key, "--by", "Ada", "--reason", "x"),
    ]
    said = {(done.code, done.err) for words in commands for done in [cli(*words, "--state", "/nowhere")]}
    assert said == {(2, "error: there is no state directory /nowhere; name it with --state\n")}


def test_every_error_of_the_project_has_a_code_of_the_table() -> None:
    for room in ("cli", "gate", "identity", "node", "outbox", "policy", "uplink"):
        for found in pkgutil.walk_packages([f"{edge_runtime.__path__[0]}/{room}"], f"edge_runtime.{room}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    waiting = [EdgeRuntimeError]
    while waiting:
        error = waiting.pop()
        assert error.exit_code in EVERYWHERE or error.__module__.startswith("fleet_server"), error
        waiting += error.__subclasses__()
