"""Room on the disk, and what a failing disk means for an update."""

import contextlib
import errno
import hashlib
import os
import shutil
from pathlib import Path

from edge_runtime.protocol.release import Bundle
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.store.places import Places

_FULL = (errno.ENOSPC, errno.EDQUOT)


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write on the folder's disk.

    Raises:
        OSError: it cannot be asked.
    """
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def digest_of(bundle: Bundle) -> str:
    """SHA-256 of a bundle's canonical bytes, which names the release."""
    return hashlib.sha256(bundle.canonical_bytes()).hexdigest()


def mib(count: int) -> str:
    """Bytes for people, rounded up."""
    return f"{-(-count // (1 << 20))} MiB"


def store_refusal(error: OSError) -> UpdateRefused:
    """What a failure of the disk means."""
    why = error.strerror or type(error).__name__
    if error.errno in _FULL:
        return UpdateRefused(UpdateCode.NO_SPACE, f"the disk of the releases is full ({why})", again=True)
    return UpdateRefused(UpdateCode.DEFECT, f"the folder of releases cannot be used: {why}", again=True)


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
