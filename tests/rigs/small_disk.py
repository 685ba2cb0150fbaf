"""A small file system of its own, to be filled up or made read-only; mounting needs root, and a laptop skips."""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.local.small_disk import fill_up

__all__ = ["fill_up", "small_disk"]

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
