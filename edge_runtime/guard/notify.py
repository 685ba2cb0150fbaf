"""Those who watch the guard: the service manager by its socket, the hardware by its device.

Both are fed only by `feed`, which the loop calls after an evaluation that found its own work in order; nothing here
feeds by itself. A feed that cannot be delivered is counted: whoever waits for it acts, which is what it is for.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Mapping

_NS_PER_US = 1_000
_IOC_READ_WRITE, _IOC_READ = 3 << 30, 2 << 30
_INT = struct.Struct("i")
# linux/watchdog.h: type 'W', an int each
_GET_BOOT_STATUS = _IOC_READ | _INT.size << 16 | ord("W") << 8 | 2
_SET_TIMEOUT = _IOC_READ_WRITE | _INT.size << 16 | ord("W") << 8 | 6
_MAGIC_CLOSE = b"V"
_RESET_BY_WATCHDOG = 0x20


class ServiceManager:
    """sd_notify(3) without a library.

    Args:
        environment: of the process; `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` are read from it.

    Attributes:
        period_ns: how often the manager wants to be fed: half of what it waits; None where it does not watch.
        lost: messages that could not be delivered.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.period_ns = _watchdog_period_ns(environment)
        self.lost = 0
        self._socket: socket.socket | None = None
        address = environment.get("NOTIFY_SOCKET", "")
        if address[:1] not in ("/", "@"):
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.settimeout(0)
        try:
            self._socket.connect("\0" + address[1:] if address[0] == "@" else address)
        except OSError:
            self.close()
            self.lost += 1

    @property
    def listens(self) -> bool:
        """Whether there is somebody to tell."""
        return self._socket is not None

    def ready(self, status: str) -> None:
        """The guard evaluates, and this is how things stand."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def status(self, status: str) -> None:
        """How things stand, one sentence."""
        self._send(f"STATUS={_line(status)}")

    def feed(self) -> None:
        """The guard evaluated, in time."""
        if self.period_ns is not None:
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The guard was asked to end."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Nothing more is told."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, text: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(text.encode())
        except OSError:
            self.lost += 1


class HardwareWatchdog:
    """`/dev/watchdog`: once open, the machine is reset unless it is fed.

    Args:
        path: of the device.
        timeout_s: until it resets, 1 to 3600; the driver may round it.

    Attributes:
        timeout_s: that the driver took; None where it cannot be told.
        reset_us: whether the last boot was its doing; None where the driver does not say.
        lost: feeds that could not be written.

    Raises:
        OSError: it cannot be opened, because it is not there or another process has it.
    """

    def __init__(self, path: str, timeout_s: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        self.lost = 0
        self.timeout_s = self._ask(_SET_TIMEOUT, max(1, min(timeout_s, 3600)))
        status = self._ask(_GET_BOOT_STATUS, 0)
        self.reset_us = None if status is None else bool(status & _RESET_BY_WATCHDOG)

    def feed(self) -> None:
        """The guard evaluated, in time."""
        try:
            os.write(self._file, b"\0")
        except OSError:
            self.lost += 1

    def close(self, *, disarm: bool) -> None:
        """Let go of it.

        Args:
            disarm: whether it should stop counting; a driver built with NOWAYOUT does not.
        """
        with contextlib.suppress(OSError):
            if disarm:
                os.write(self._file, _MAGIC_CLOSE)
        with contextlib.suppress(OSError):
            os.close(self._file)
        self._file = -1  # the number will be another file's

    def _ask(self, request: int, value: int) -> int | None:
        try:
            answer: bytes = fcntl.ioctl(self._file, request, _INT.pack(value))
        except OSError:
            return None
        return int(_INT.unpack(answer)[0])


def _watchdog_period_ns(environment: Mapping[str, str]) -> int | None:
    """Half of the manager's patience; None where it watches nobody, or somebody else."""
    wanted, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not wanted.isdecimal() or int(wanted) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(wanted) * _NS_PER_US // 2


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
