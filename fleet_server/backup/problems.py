"""Why a backup is not made, not believed, or not restored."""

from edge_runtime.errors import EdgeRuntimeError


class BackupFailed(EdgeRuntimeError):
    """It could not be made or restored, and nothing that looks like a backup or a data directory is left behind.

    Or it was made and older ones could not be deleted, which its words say.
    """


class BackupDamaged(EdgeRuntimeError):
    """It is not what it was when it was made: it is not restored."""
