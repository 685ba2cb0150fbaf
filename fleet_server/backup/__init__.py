"""Backups of a server: one folder with its database, its keys and its files, all of one moment, and the way back.

`create` copies a server that goes on meanwhile, `verify` believes nothing that it has not read again, and `restore`
makes a new data directory whose devices can go on.
"""

from fleet_server.backup.create import create
from fleet_server.backup.keeping import backups_in
from fleet_server.backup.manifest import Manifest
from fleet_server.backup.problems import BackupDamaged, BackupFailed
from fleet_server.backup.restore import Restored, restore
from fleet_server.backup.verify import verify

__all__ = [
    "BackupDamaged",
    "BackupFailed",
    "Manifest",
    "Restored",
    "backups_in",
    "create",
    "restore",
    "verify",
]
