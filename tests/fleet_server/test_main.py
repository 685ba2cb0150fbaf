"""`fleet` says what it is, and that there is no server yet."""

import sys

import pytest

from edge_runtime import __version__
from fleet_server.cli.main import main


def fleet(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fleet", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    assert isinstance(left.value.code, int)
    return left.value.code


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"fleet {__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_no_command_that_is_not_there(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet(monkeypatch, option) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: fleet [OPTIONS]\n")
    assert "no server yet" in shown


def test_alone_it_says_in_one_line_that_there_is_no_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet(monkeypatch) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert (
        shown.err
        == "error: this release holds no fleet server yet; edge-runtime is the command of a device\n"
    )


def test_an_unknown_command_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet(monkeypatch, "rollout") == 2
    assert "rollout" in capsys.readouterr().err
