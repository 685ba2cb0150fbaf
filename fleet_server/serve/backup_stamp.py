"""What a server knows of its backups: the moment of the newest, left in its data directory by whoever made it."""

import contextlib

from edge_runtime.durable import write_file
from fleet_server.paths import ServerPaths

_MAX_BYTES = 32


def leave_stamp(paths: ServerPaths, point_ms: int) -> None:
    """Say that a backup of this moment is whole. One that cannot be said costs an alert and no backup."""
    with contextlib.suppress(OSError):
        paths.run.mkdir(mode=0o700, exist_ok=True)
        write_file(paths.run / "backup", f"{point_ms}\n".encode(), 0o600)


def newest_point_ms(paths: ServerPaths) -> int:
    """Of the newest backup, milliseconds since 1970; 0 where there was none since the directory was made."""
    try:
        with (paths.run / "backup").open("rb") as stream:
            return max(0, int(stream.read(_MAX_BYTES)))
    except (OSError, ValueError):
        return 0
