"""One guard for each device: whoever holds the lock of its folder is it."""

import fcntl
import os

from edge_runtime.errors import ConfigError

_NAME = "lock"


class Ownership:
    """Holds a folder for as long as the process lives, or until `close`.

    Args:
        folder: of the latch; exists.

    Raises:
        ConfigError: another guard holds it, or it cannot be locked.
    """

    def __init__(self, folder: str) -> None:
        try:
            self._fd = os.open(os.path.join(folder, _NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"the guard cannot lock {folder}: {error.strerror}") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise ConfigError(f"another guard holds {folder}; a device has one") from None
            raise ConfigError(f"the guard cannot lock {folder}: {error.strerror}") from None

    def close(self) -> None:
        """Let it go."""
        os.close(self._fd)
