"""Numbers of the machine that an operator needs beside those of the fleet: room on the disk, age of the backups."""

import os

from fleet_server.http.metrics import Gauges
from fleet_server.paths import ServerPaths
from fleet_server.serve.backup_stamp import newest_point_ms


def machine_gauges(paths: ServerPaths) -> Gauges:
    """What is asked at each scrape.

    Args:
        paths: of the data directory.
    """
    space = os.statvfs(paths.root)
    return {
        "fleet_disk_bytes": (
            "Size of the disk with the data directory",
            {(): float(space.f_blocks * space.f_frsize)},
        ),
        "fleet_disk_free_bytes": (
            "What the server may still write there",
            {(): float(space.f_bavail * space.f_frsize)},
        ),
        "fleet_backup_point_seconds": (
            "Of which moment the newest backup is, unix time; 0 where there was none",
            {(): newest_point_ms(paths) / 1000},
        ),
    }
