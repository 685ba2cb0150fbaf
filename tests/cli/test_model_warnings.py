"""What `model` says on stderr besides errors, and how a terminated command leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edge_runtime.cli.main import run


def test_an_import_of_damaged_weights_says_so_last(
    onnx_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = onnx_models / "deimv2_atto_coco_int8_320_damaged.onnx"
    assert run(["model", "import", str(damaged), "--out", str(tmp_path / "p"), "--yes"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        f"warning: {tmp_path / 'p'} is written, but `edge-runtime model check` will call it"
    )


@pytest.mark.parametrize("command", [("inspect",), ("import", "--yes", "--out", "nowhere"), ("check",)])
def test_folders_and_pipes_are_called_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert run(["model", *command, str(tmp_path / "pipe")]) == 1
    said = capsys.readouterr()
    assert "regular file" in said.err + said.out


def test_importing_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "import", str(tmp_path), "--out", str(tmp_path / "p")]) == 1
    assert f"{tmp_path} is a folder" in capsys.readouterr().err


def test_sigterm_cleans_up(tmp_path: Path) -> None:
    program = (
        "import time, typer\n"
        "from edge_runtime.console import Program\n"
        "from edge_runtime.packages.scratch import scratch_directory\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def work() -> None:\n"
        "    with scratch_directory('probe'):\n"
        "        time.sleep(60)\n"
        "Program('edge-runtime', app, 'EDGE_RUNTIME_DEBUG', lambda module: None, one_line=False).main()\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    deadline = time.monotonic() + 30
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert list(tmp_path.iterdir()) == []
