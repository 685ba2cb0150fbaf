"""Scratch folders go away: their own at once, forgotten ones with the next."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edge_runtime.packages.scratch import scratch_directory

_WORKS = """
import sys
from edge_runtime.packages.scratch import scratch_directory
with scratch_directory("probe") as scratch:
    (scratch / "model.onnx").write_bytes(b"x")
    print(scratch, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def _make_old(path: Path) -> None:
    os.utime(path, (0, 0), follow_symlinks=False)


def test_own_and_forgotten_folders_go(tmp_path: Path) -> None:
    forgotten, fresh, other = (
        tmp_path / name for name in ("edge-runtime-probe-a", "edge-runtime-probe-b", "mine")
    )
    link = tmp_path / "edge-runtime-probe-link"
    for folder in (forgotten, fresh, other):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"x")
    link.symlink_to(other)
    for path in (forgotten, other, link):
        _make_old(path)
    with scratch_directory("probe") as scratch:
        assert scratch.parent == tmp_path
        assert scratch.is_dir()
    assert sorted(tmp_path.iterdir()) == sorted([fresh, link, other])
    assert (other / "model.onnx").exists()


def test_a_killed_process_leaves_its_folder_to_the_next_and_a_slow_one_keeps_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        place = Path(worker.stdout.readline().strip())
        _make_old(place)
        with scratch_directory("probe"):
            assert (place / "model.onnx").exists()  # it is in use, however long already
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert place.parent == tmp_path
    with scratch_directory("probe"):
        assert not place.exists()
