"""A small file system of its own, to be filled up or made read-only; mounting needs root, and a laptop skips."""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_DETACH = 2


@contextlib.contextmanager
def small_disk(place: Path, mebibytes: int = 8) -> Iterator[Path]:
    """An empty file system at a folder, which is made."""
    place.mkdir(parents=True)
    options = f"size={mebibytes}m,mode=0700"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"needs root to mount a small file system: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(place), _DETACH)  # also when a failed test left files open


def fill_up(place: Path) -> Path:
    """Take all that is left of a disk; the file that took it."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for block in (64 * 1024, 512):
            with contextlib.suppress(OSError):
                while file.write(bytes(block)):
                    pass
    return filler
