"""`fleet`: help, completion, errors in one line, and what it imports for them."""

import subprocess
import sys

import pytest

from edge_runtime import __version__
from edge_runtime.errors import ConfigError
from fleet_server.cli import main as main_module
from fleet_server.cli.commands import COMMANDS, EVERYWHERE
from fleet_server.cli.main import run

HEAVY = (
    "alembic",
    "anyio.from_thread",
    "cryptography",
    "edge_runtime.protocol",
    "fastapi",
    "fleet_server.rollouts",
    "httpx",
    "prometheus_client",
    "pydantic",
    "pygments",
    "rich",
    "sqlalchemy",
    "tuf",
    "uvicorn",
    "yaml",
)


@pytest.mark.parametrize(
    ("words", "exits"),
    [([row.name, name], codes) for row in COMMANDS for name, codes in row.exits.items()],
    ids=str,
)
def test_help_shows_the_exit_codes_of_the_table(
    words: list[str], exits: dict[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*(word for word in words if word), "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for code, meaning in exits.items():
        assert f"{code} {meaning}" in shown
    assert run(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for code, meaning in EVERYWHERE.items():
        assert f"{code} {meaning}" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"fleet {__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([option]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {row.name} " in shown for row in COMMANDS)
    assert "--install-completion" in shown


def test_alone_it_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    shown = capsys.readouterr()
    assert "Usage: fleet" in shown.out + shown.err


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_row_leads_somewhere(row: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([row.name, "--help"]) == 0  # type: ignore[attr-defined]
    assert "Usage: fleet" in capsys.readouterr().out


def test_a_misspelt_command_is_a_usage_error_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devise"]) == 2
    assert "did you mean device?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["events", "list"],
        ["events", "list", "--data", "/nowhere/at/all"],
        ["events", "list", "--server", "http://localhost:1", "--token-file", "x"],
        ["events", "list", "--severity", "loud", "--data", "x"],
        ["events", "list", "--server", "https://localhost:1"],
        ["device", "label", "d", "nonsense", "--data", "x"],
        ["device", "invite", "--expires", "soon", "--data", "x"],
        ["serve"],
        ["serve", "--data", "/nowhere/at/all"],
        ["review", "release", "zz", "--reason", "r", "--data", "/nowhere/at/all"],
    ],
)
def test_what_cannot_be_used_is_one_line_and_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FLEET_SERVER", "FLEET_TOKEN", "FLEET_CA", "FLEET_DATA"):
        monkeypatch.delenv(name, raising=False)
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["device", "invite", "--expires", "1s"], "--expires: an invitation can be used for 1m to 30d"),
        (["device", "invite", "--expires", "31d"], "--expires: an invitation can be used for 1m to 30d"),
        (["events", "show", "abc"], "EVENT is a number or a key of 32 hexadecimal digits"),
    ],
)
def test_a_value_that_the_server_would_refuse_is_told_in_the_words_of_the_command_line(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--data", "x"]) == 2
    assert capsys.readouterr().err == f"error: {sentence}\n"


def test_a_command_imports_what_it_needs_and_nothing_else() -> None:
    """One process, from what needs least on: each line may add what stands behind it.

    Typer itself brings pydantic where a command has options. httpx's own command line would bring rich and click.
    """
    lines = (
        (["--help"], ()),
        (["devise"], ("pydantic",)),
        (["rollout", "--help"], ("pydantic",)),
        (["rollout", "status", "--help"], ("pydantic",)),
        (["rollout", "status", "r1"], ("pydantic",)),  # no server is named
        (["rollout", "status", "r1", "--server", "https://localhost:1"], ("pydantic", "httpx")),
    )
    code = f"""
import os, sys
os.environ["FLEET_TOKEN"] = "eft1.nobody"
from fleet_server.cli.main import run
for words, allowed in {lines!r}:
    run(words)
    found = [name for name in {HEAVY!r} if name in sys.modules and name not in allowed]
    assert not found, (words, found)
"""
    # as many commands as there are, each imported anew, on a machine that may be busy
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "does not answer" in done.stderr.splitlines()[-1]


def test_without_the_servers_parts_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("fastapi", "sqlalchemy", "uvicorn"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in [
        name for name in sys.modules if name.startswith(("fleet_server.serve", "fleet_server.http"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "fleet_server.cli.in_process", raising=False)
    assert run(["device", "list", "--data", "/nowhere"]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "pip install 'edge-fleet-runtime[server]'" in shown


def test_a_defect_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_module.PROGRAM.report(RuntimeError("first\nsecond")) == 70
    assert capsys.readouterr().err == (
        "error: unexpected RuntimeError: first second (a defect; FLEET_DEBUG=1 shows the details)\n"
    )
    assert main_module.PROGRAM.report(ConfigError("wrong")) == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_complete_commands(shell: str) -> None:
    words = {"bash": ("_FLEET_COMPLETE", "complete_bash"), "zsh": ("_FLEET_COMPLETE", "complete_zsh")}
    name, value = words.get(shell, ("_FLEET_COMPLETE", "complete_fish"))
    environment = {
        "PATH": "/usr/bin:/bin",
        name: value,
        "COMP_WORDS": "fleet dev",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "fleet dev",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-c", "from fleet_server.cli.main import main; main()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert "device" in done.stdout, done.stderr
