"""The GPU script as a person starts it, on a machine that has no GPU, and checks that die or hang."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hil.gpu import check
from hil.gpu.plan import CHECKS
from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "hil" / "gpu" / "check.sh"


@pytest.fixture
def without_a_gpu(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing that speaks to a GPU can be imported, whatever this machine has."""
    blocked = tmp_path / "blocked"
    for name in ("cuda", "pycuda", "tensorrt"):
        package = blocked / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            f"raise ModuleNotFoundError('{name} is not installed', name='{name}')\n", encoding="ascii"
        )
    return {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(blocked)}


def start(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(SCRIPT), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_without_a_gpu_it_runs_to_its_end_and_says_so(without_a_gpu: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "results"
    done = start({**without_a_gpu, "OUT": str(out)})
    assert done.returncode == 3, done.stderr
    assert done.stdout.splitlines()[-1] == "nothing ran on a GPU: this run says nothing about one"
    report = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    assert [result["check"] for result in report["checks"]] == list(CHECKS)
    for result in report["checks"]:
        assert (result["status"], result["on_gpu"]) == ("not possible", False), result
        assert result["text"]
    reasons = {result["check"]: result["text"] for result in report["checks"]}
    assert "install cuda-bindings or pycuda" in reasons["kernel"]
    assert "built without CUDA" in reasons["onnxruntime"]
    assert "TensorRT is not installed" in reasons["engine"]
    assert (report["verdict"], report["exit_code"]) == (done.stdout.splitlines()[-1], 3)
    assert (out / "gpu.txt").read_text(encoding="utf-8") == done.stdout


def test_one_check_alone_into_another_folder(without_a_gpu: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "elsewhere"
    done = start({**without_a_gpu, "OUT": str(tmp_path / "unused")}, "--out", str(out), "--only", "device")
    assert done.returncode == 3
    assert [line.split()[0] for line in done.stdout.splitlines() if line][:1] == ["device"]
    assert len(json.loads((out / "gpu.json").read_text(encoding="utf-8"))["checks"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [("--only", "nothing"), ("--swaps", "3"), ("--frames", "2"), ("--fast",), ("--package", "/nowhere")],
)
def test_a_wrong_command_line_is_usage(
    without_a_gpu: dict[str, str], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = start({**without_a_gpu, "OUT": str(tmp_path)}, *arguments)
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert not (tmp_path / "gpu.json").exists()


def interpreter(folder: Path, script: str) -> str:
    """Something in the place of Python that does what a check in trouble does."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo driver trouble; kill -SEGV $$", "its process ended with signal 11: driver trouble"),
        ("exit 7", "its process ended with code 7: without a word"),
        ("sleep 600", "it did not end within 1 s"),
    ],
)
def test_a_check_that_dies_or_hangs_has_failed_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    wanted = check._parse(["--out", str(tmp_path)])
    results = [check._run(name, wanted, 1.0) for name in ("device", "kernel")]
    assert [result.status for result in results] == ["failed", "failed"]
    assert all(words in result.text for result in results)


def test_when_the_time_is_over_the_rest_is_not_possible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "TOTAL_S", 1.0)
    assert check.main(["--out", str(tmp_path), "--only", "kernel", "--only", "swaps"]) == 3
    report = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert {result["text"] for result in report["checks"]} == {"the 1 s of the whole run are over"}
    assert "nothing ran on a GPU" in capsys.readouterr().out


def test_a_result_of_an_earlier_run_is_not_taken_for_this_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = {"check": "kernel", "status": "passed", "text": "of yesterday", "on_gpu": True}
    (tmp_path / "kernel.result.json").write_text(json.dumps(old), encoding="utf-8")
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "exit 9"))
    assert check.main(["--out", str(tmp_path), "--only", "kernel"]) == 1
