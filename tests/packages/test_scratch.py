"""Scratch folders go away: their own at once, forgotten ones after a day."""

import os
import tempfile
from pathlib import Path

import pytest

from edge_runtime.packages.scratch import scratch_directory


def test_own_and_stale_folders_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stale, fresh, other = (
        tmp_path / name for name in ("edge-runtime-probe-a", "edge-runtime-probe-b", "mine")
    )
    link = tmp_path / "edge-runtime-probe-link"
    for folder in (stale, fresh, other):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"x")
    link.symlink_to(other)
    for folder in (stale, other):
        os.utime(folder, (0, 0))
    os.utime(link, (0, 0), follow_symlinks=False)
    with scratch_directory("probe") as scratch:
        assert scratch.parent == tmp_path
        assert scratch.is_dir()
    assert sorted(tmp_path.iterdir()) == sorted([fresh, link, other])
    assert (other / "model.onnx").exists()
