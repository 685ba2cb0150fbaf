"""What the kernel's NVIDIA driver says of itself."""

from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.health.nvidia import read_driver
from edge_runtime.health.sysfiles import SysFiles


@pytest.mark.parametrize(
    ("said", "version", "reason"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release\nGCC version: 12\n",
            "570.124.06",
            "",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  Tue Jun 6\n", "535.54", ""),
        ("GCC version: 12.3.0\n", None, "/proc/driver/nvidia/version names no version"),
        (None, None, "not there"),
    ],
)
def test_its_version_or_why_not(tmp_path: Path, said: str | None, version: str | None, reason: str) -> None:
    folder = tmp_path / "proc" / "driver" / "nvidia"
    folder.mkdir(parents=True)
    if said is not None:
        (folder / "version").write_text(said, encoding="utf-8")
    found = read_driver(SysFiles(tmp_path, SystemClock()))
    assert (found.value, found.reason) == (version, reason)
