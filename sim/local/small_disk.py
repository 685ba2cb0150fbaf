"""A small file system for one folder of one program, to be filled up from outside.

It is mounted in a namespace of the program's own, so that it ends with it, and needs no root where users may have
namespaces.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

_MOUNTS = 'mount -t tmpfs -o "size=$0m,mode=0700" tmpfs "$1" && shift && exec "$@"'


def with_small_disk(place: Path, mebibytes: int, arguments: Sequence[str]) -> list[str]:
    """A command line that runs a program with an empty file system at a folder.

    Args:
        place: the folder, which is there.
        mebibytes: that fit.
        arguments: of the program.
    """
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    return [*alone, "sh", "-c", _MOUNTS, str(mebibytes), str(place), *arguments]


def seen_from_outside(pid: int, place: Path) -> Path:
    """A folder as a program sees it."""
    return Path(f"/proc/{pid}/root") / place.absolute().relative_to("/")


def fill_up(place: Path) -> Path:
    """Take all that is left of a disk; the file that took it."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for block in (64 * 1024, 512):
            with contextlib.suppress(OSError):
                while file.write(bytes(block)):
                    pass
    return filler
