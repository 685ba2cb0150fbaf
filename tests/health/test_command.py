"""`edge-runtime health` and `edge-runtime health parse` as a person or a program calls them."""

import io
import json
import sys
from pathlib import Path

import pytest

from edge_runtime.cli.main import run
from tests.health.test_tegrastats import LINES
from tests.rigs.boards import orin_nano


@pytest.mark.parametrize("name", LINES)
def test_each_log_becomes_one_json_line_a_line(
    shared_data: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_data / "jetson" / name
    assert run(["health", "parse", str(path)]) == 0
    out, err = capsys.readouterr()
    records = [json.loads(line) for line in out.splitlines()]
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(records) == len(lines)
    assert sum(record.get("kind") == "tegrastats" for record in records) == LINES[name]
    refused = sum("refused" in record for record in records)
    assert refused == len(lines) - LINES[name]
    assert bool(err) == bool(refused)


def test_text_comes_from_stdin_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = b"RAM 1/2MB CPU [5%@729] tj@40C\n\n\xff\xfe garbage\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert run(["health", "parse", "-"]) == 0
    out, err = capsys.readouterr()
    first, second = (json.loads(line) for line in out.splitlines())
    assert (first["line"], first["temperatures"]["tj"]["celsius"]) == (1, 40.0)
    assert (second["line"], list(second)) == (3, ["line", "refused"])
    assert err.startswith("1 refused: ")


def test_a_file_without_any_line_of_it_fails_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\nhello\n", encoding="utf-8")
    assert run(["health", "parse", str(path)]) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("2 refused: ")
    assert err[1] == f"error: {path}: no line of tegrastats or jtop"


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["health", "parse", str(tmp_path / "gone")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert run(["health", "parse", str(tmp_path)]) == 1
    assert "directory" in capsys.readouterr().err


def test_a_board_as_json_and_as_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orin_nano(tmp_path)
    assert run(["health", "--json", "--root", str(tmp_path), "--disk", str(tmp_path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["temperatures"]["tj-thermal"]["celsius"] == 53.968
    assert record["temperatures"]["cv1-thermal"]["celsius"] is None
    assert "powered off" in record["unknown"]["temperatures.cv1-thermal.celsius"]
    assert set(record["disks"]) == {"/", str(tmp_path)}
    assert run(["health", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "MAXN_SUPER" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["health", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["total_bytes"] > 0
