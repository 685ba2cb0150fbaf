"""`edge-runtime doctor` as a person or a program calls it."""

import json
import os
from pathlib import Path

import pytest

from edge_runtime.cli.main import run
from edge_runtime.doctor import judge, screen_lines
from tests.doctor.recorded import FOLDER, facts_of, text_of
from tests.doctor.test_models import site


def test_this_machine_on_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--state", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert {"machine", "gpu", "tensorrt", "onnxruntime", "video", "device", "models"} <= set(lines)
    assert lines[-1].startswith("all that is needed is there")


def test_json_can_be_judged_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json", "--state", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    record = json.loads(printed)
    assert record["well"] is True
    assert set(record["findings"][0]) == {"severity", "part", "text"}
    (tmp_path / "facts.json").write_text(printed)
    assert run(["doctor", "--json", "--facts", str(tmp_path / "facts.json")]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["facts"], again["findings"]) == (record["facts"], record["findings"])


def test_another_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--facts", str(FOLDER / "agx_orin_jetpack_7_2.json")]) == 1
    shown = capsys.readouterr().out
    assert shown == (FOLDER / "agx_orin_jetpack_7_2.txt").read_text(encoding="utf-8")


def test_a_configuration_that_runs_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(site(tmp_path)), "--json", "--state", str(tmp_path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["facts"]["models"]["faces"]["effective"] == "cpu"
    assert record["facts"]["configuration"]["providers"] == {"faces": ["cpu"]}


def test_tensorrt_asked_for_and_the_cpu_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R000-42, on a machine whose TensorRT cannot be imported."""
    (tmp_path / "tensorrt.py").write_text(
        "raise ImportError('libnvinfer.so.10: cannot open shared object file')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = site(tmp_path, "[tensorrt, cpu]")
    assert run(["doctor", str(config), "--state", str(tmp_path)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "error faces asks for TensorRT and is run by the CPU: tensorrt: TensorRT is installed but cannot be "
        "imported: libnvinfer.so.10: cannot open shared object file"
    ) in shown
    assert shown.endswith("something that is needed is missing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{tmp}/absent.yaml"], "absent.yaml"),
        (["--facts", "{tmp}/absent.json"], "absent.json: there is no such file; name a file"),
        (["--facts", "{tmp}"], "is a folder; name a file"),
        (["--facts", "{tmp}/pipe"], "pipe: is a pipe; name a file"),
        (["--facts", "/dev/zero"], "/dev/zero: is a character device; name a file"),
        (["--facts", "/proc/self/mem"], "cannot be read"),
        (["--facts", "{tmp}/huge"], "huge: is larger than 4 MiB; name a file"),
        (["--root", "{tmp}/absent"], "absent: there is no such folder; --root names one"),
        (["--root", "{tmp}/huge"], "huge: there is no such folder"),
        (["--state", "{tmp}/huge"], "huge is no folder; name the state directory with --state"),
        (["{tmp}/site.yaml", "--facts", "{tmp}/x"], "leave out CONFIG"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_what_cannot_be_used_as_named(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 36)
    assert run(["doctor", *(part.format(tmp=tmp_path) for part in arguments)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words in said
    assert said.count("\n") == 1


def test_a_file_of_facts_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_bytes(b"\xff\xfe{}")
    assert run(["doctor", "--facts", str(tmp_path / "odd.json")]) == 2
    assert "these are not facts" in capsys.readouterr().err


def test_facts_from_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with (FOLDER / "agx_orin_jetpack_7_2.json").open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert run(["doctor", "--facts", "-"]) == 1
    shown = capsys.readouterr().out
    assert shown == (FOLDER / "agx_orin_jetpack_7_2.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [10**30, -1])
def test_facts_with_a_size_that_no_machine_has(
    size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads(text_of("orin_nano_jetpack_6_2"))
    record["facts"]["memory"]["total_bytes"] = size
    (tmp_path / "facts.json").write_text(json.dumps(record))
    assert run(["doctor", "--facts", str(tmp_path / "facts.json")]) == 2
    assert "facts.memory.total_bytes" in capsys.readouterr().err


def test_facts_do_not_steer_the_terminal() -> None:
    facts = facts_of("orin_nano_jetpack_6_2", {"machine/model": "Board \x1b[2J\x07"})
    assert all(line.isprintable() for line in screen_lines(facts, judge(facts)))


def test_another_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_text("Some Board\0")
    assert run(["doctor", "--json", "--root", str(tmp_path), "--state", str(tmp_path)]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["facts"]["machine"]["model"] == "Some Board"
