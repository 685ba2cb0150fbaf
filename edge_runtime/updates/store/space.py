"""Room on the disk, and what a failing disk means for an update."""

import contextlib
import os
import shutil
from pathlib import Path

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused, disk_refusal
from edge_runtime.updates.store.places import Places


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write on the folder's disk.

    Raises:
        OSError: it cannot be asked.
    """
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def megabytes(count: int) -> str:
    """Bytes for people, rounded up, in the unit of the settings: a million."""
    return f"{-(-count // 1_000_000)} MB"


def store_refusal(error: OSError) -> UpdateRefused:
    """What a failure of the disk means."""
    return disk_refusal(error, UpdateCode.DEFECT, "the folder of releases cannot be used")


def sweep(places: Places) -> None:
    """Clear away what a killed process left half done: hidden names, and copies that never became parts."""
    for folder in (places.root, places.blobs, places.releases):
        with contextlib.suppress(FileNotFoundError):
            for path in folder.iterdir():
                if path.name.startswith(".") and (
                    folder != places.root or path.name.startswith((".slots", ".links"))
                ):
                    _remove(path)
    for path in places.parts.glob("*.local"):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
