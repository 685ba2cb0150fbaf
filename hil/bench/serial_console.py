"""A serial device of this machine as `Console`, by termios alone."""

import os
import termios

from hil.bench.records import SerialDevice
from hil.problems import RigError

_MOST_BYTES = 1 << 20


class SerialConsole:
    """Opened when it is first read: a rig's file binds without hardware.

    Args:
        at: of the rig's file.
    """

    def __init__(self, at: SerialDevice) -> None:
        self._at = at
        self._fd: int | None = None

    def read(self) -> str:
        """What came since the last time.

        Raises:
            RigError: the device is not there, or went away.
        """
        try:
            if self._fd is None:
                self._fd = self._open()
            pieces: list[bytes] = []
            while sum(map(len, pieces)) < _MOST_BYTES:
                try:
                    piece = os.read(self._fd, 4096)
                except BlockingIOError:
                    break
                if not piece:
                    break
                pieces.append(piece)
        except (OSError, termios.error) as error:
            self.close()
            raise RigError(f"console {self._at.device}: {error.args[-1]}") from None
        return b"".join(pieces).decode("utf-8", "replace")

    def close(self) -> None:
        """Let it go."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def lacks(self) -> list[str]:
        """Nothing: whether the adapter is plugged in shows when it is opened."""
        return []

    @property
    def told(self) -> str:
        """Device and speed."""
        return f"{self._at.device} at {self._at.baud}"

    def _open(self) -> int:
        fd = os.open(self._at.device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            speed = getattr(termios, f"B{self._at.baud}")
            flags = termios.CREAD | termios.CLOCAL | termios.CS8
            control = termios.tcgetattr(fd)[6]
            termios.tcsetattr(fd, termios.TCSANOW, [0, 0, flags, 0, speed, speed, control])
            termios.tcflush(fd, termios.TCIFLUSH)
        except BaseException:
            os.close(fd)
            raise
        return fd
