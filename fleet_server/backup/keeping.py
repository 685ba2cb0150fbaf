"""A folder of backups: their names, the newest, and how many stay.

The folder may hold more than ours: what does not bear a backup's very name is left alone, and of what does, only
backups of the same authority are ever deleted.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from edge_runtime.errors import EdgeRuntimeError
from fleet_server.backup.manifest import NAME, Manifest, read_manifest
from fleet_server.backup.problems import BackupFailed
from fleet_server.backup.staging import clear_staged, staged_name

LOCK = ".lock"
_OLD = ".old-"
_STAMP = "fleet-%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(fleet-[0-9]{8}T[0-9]{6}Z)(-[0-9]{3})?")


def name_for(folder: Path, now_ms: int) -> str:
    """A name that follows those of all backups there, also of those that a clock which was ahead had named.

    Raises:
        BackupFailed: one of them has the last name that there is.
    """
    moments = [datetime.fromtimestamp(now_ms / 1000, tz=timezone.utc)]
    try:
        moments += [moment + timedelta(seconds=1) for path in _entries(folder) for moment in _moments(path)]
    except OverflowError:
        raise BackupFailed(f"{folder} has a backup of the end of the year 9999: take it away") from None
    return f"{max(moments):{_STAMP}}"


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
    """Delete what killed processes left behind. Hold the folder's turn.

    A folder that somebody fills now, a restore for instance, is locked and stays.
    """
    for path in _entries(folder, _OLD):
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(staged_name("*")):
        if _NAME.fullmatch(path.name.removeprefix(".").removesuffix(".part")):
            clear_staged(path)


def prune(folder: Path, keep: int, made: Path, authority: str) -> list[Path]:
    """Delete all but the newest backups of an authority; those that were. Hold the folder's turn.

    A backup first loses its name: one that is half deleted never looks whole. One whose manifest cannot be read is
    nobody's: it stays.

    Args:
        folder: of backups.
        keep: how many stay, `made` included.
        made: the backup that was made just now; it always stays.
        authority: fingerprint of its authority.

    Raises:
        OSError: one of them cannot be renamed.
    """
    ours = [
        path
        for path, manifest in backups_in(folder)
        if manifest is not None and manifest.authority == authority and path != made
    ]
    gone = ours[: max(0, len(ours) - (keep - 1))]
    for path in gone:
        old = path.with_name(f"{_OLD}{path.name}")
        path.rename(old)
        shutil.rmtree(old, ignore_errors=True)
    return gone


def _places(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if (path / NAME).is_file()]


def _entries(folder: Path, before: str = "") -> list[Path]:
    """Folders with a backup's name, behind `before`."""
    return sorted(
        path
        for path in folder.glob(f"{before}fleet-*")
        if _NAME.fullmatch(path.name.removeprefix(before)) and path.is_dir() and not path.is_symlink()
    )


def _moments(path: Path) -> Iterator[datetime]:
    """What a name says; nothing where it is no moment."""
    matched = _NAME.fullmatch(path.name)
    if matched is not None:
        with contextlib.suppress(ValueError):
            yield datetime.strptime(matched[1], _STAMP).replace(tzinfo=timezone.utc)
