"""A folder of backups: their names, the newest, and how many stay."""

import contextlib
import shutil
from datetime import datetime, timezone
from pathlib import Path

from edge_runtime.errors import EdgeRuntimeError
from fleet_server.backup.manifest import NAME, Manifest, read_manifest

LOCK = ".lock"
_PREFIX = "fleet-"
_OLD = ".old-"


def name_for(folder: Path, now_ms: int) -> str:
    """A name that no backup there has, and that follows those of before."""
    stamp = f"{_PREFIX}{datetime.fromtimestamp(now_ms / 1000, tz=timezone.utc):%Y%m%dT%H%M%SZ}"
    number, name = 1, stamp
    while (folder / name).exists():
        number += 1
        name = f"{stamp}-{number:03d}"
    return name


def backups_in(folder: Path) -> list[tuple[Path, Manifest | None]]:
    """Whole backups by name, the oldest first; None for one whose manifest cannot be read."""
    found: list[tuple[Path, Manifest | None]] = []
    for path in _places(folder):
        manifest = None
        with contextlib.suppress(EdgeRuntimeError):
            manifest = read_manifest(path)
        found.append((path, manifest))
    return found


def newest(folder: Path) -> Path | None:
    """The newest backup in a folder, or None."""
    found = _places(folder)
    return found[-1] if found else None


def clear(folder: Path) -> None:
    """Delete what killed processes left behind. Hold the folder's turn."""
    for pattern in (f"{_OLD}*", f".{_PREFIX}*.part"):
        for left in folder.glob(pattern):
            shutil.rmtree(left, ignore_errors=True)


def prune(folder: Path, keep: int) -> list[Path]:
    """Delete all but the newest; those that were. Hold the folder's turn.

    A backup first loses its name: one that is half deleted never looks whole.
    """
    gone = _places(folder)[: -max(1, keep)]
    for path in gone:
        old = path.with_name(f"{_OLD}{path.name}")
        path.rename(old)
        shutil.rmtree(old, ignore_errors=True)
    return gone


def _places(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"{_PREFIX}*/{NAME}"))
