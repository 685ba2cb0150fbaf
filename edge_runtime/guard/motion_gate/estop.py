"""Emergency stop inputs: a file, an inherited descriptor, or a socket that has to keep saying "released".

Each is read so that silence, an error and anything unknown mean pressed. A press counts at once; a release counts
when the input has said so, without a break, for its debounce time.
"""

import contextlib
import os
import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.guard.motion_gate.judge import Stop

DEBOUNCE_NS = 10_000_000
"""How long a released input has to say so."""

_RELEASED = b"0"
_MOST_BYTES = 64
_MOST_READS = 8  # of one input in one look; what is left waits for the next


class Input(ABC):
    """One channel.

    Attributes:
        heard: it has said something, whatever that was, since the start.
    """

    heard = False

    @abstractmethod
    def released(self, now_ns: int) -> bool:
        """Whether it says, now, that it is not pressed."""

    @abstractmethod
    def fileno(self) -> int | None:
        """A descriptor that becomes readable when it changes; None where it has to be looked at now and then."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


class FileInput(Input):
    """A file such as a GPIO's `value`: `0` is released; anything else, or none, is pressed.

    Args:
        path: of the file; opened anew when it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def released(self, now_ns: int) -> bool:  # noqa: ARG002 - a file says what holds now
        """Reads it from its start."""
        try:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            elif not self._is_current():
                self.close()
                return False  # replaced: the next look opens the new one
            said = os.pread(self._fd, _MOST_BYTES, 0).strip()
        except OSError:
            self.close()
            return False
        self.heard = self.heard or bool(said)
        return said == _RELEASED

    def fileno(self) -> int | None:
        """None: it is looked at now and then."""
        return None

    def close(self) -> None:
        """Closes the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _is_current(self) -> bool:
        assert self._fd is not None
        mine, named = os.fstat(self._fd), self._path.stat()
        return (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino)


class DescriptorInput(Input):
    """The reading end of a pipe: the last byte counts, `0` is released; its end, an error or none yet is pressed.

    It is as alive as whoever holds the other end: one that hangs there goes on saying what it said last.

    Args:
        fd: inherited; becomes non-blocking.
    """

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._last = b""
        with contextlib.suppress(OSError):  # reading says what is wrong with it
            os.set_blocking(fd, False)

    def released(self, now_ns: int) -> bool:  # noqa: ARG002 - the last byte holds until the next
        """Reads what came."""
        for _ in range(_MOST_READS):
            if self._fd is None:
                return False
            try:
                came = os.read(self._fd, _MOST_BYTES)
            except BlockingIOError:
                return self._last == _RELEASED
            except OSError:
                came = b""
            if not came:  # whoever held the other end is gone, and nothing can be said for the stop any more
                self.close()
                return False
            self.heard = True
            self._last = came.strip()[-1:] or self._last
        return False  # it talks faster than it can be listened to

    def fileno(self) -> int | None:
        """The pipe."""
        return self._fd

    def close(self) -> None:
        """Closes the pipe; from then on it is pressed."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class DatagramInput(Input):
    """A Unix datagram socket: `0` is released, and only for as long as it is said again in time.

    Args:
        path: of the socket; a stale one is replaced.
        fresh_ns: how long a datagram counts, greater than 0.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(self, path: Path, fresh_ns: int) -> None:
        self._path, self._fresh_ns = path, fresh_ns
        path.unlink(missing_ok=True)
        self._socket: socket.socket | None = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
        )
        self._socket.setblocking(False)  # noqa: FBT003 - the call takes no keyword
        self._socket.bind(str(path))
        self._inode = path.stat().st_ino
        self._said_ns: int | None = None

    def released(self, now_ns: int) -> bool:
        """Takes what came; one that says pressed counts over those around it."""
        assert self._socket is not None
        for _ in range(_MOST_READS):
            try:
                said = self._socket.recv(_MOST_BYTES)
            except BlockingIOError:
                return self._said_ns is not None and now_ns - self._said_ns <= self._fresh_ns
            self.heard = True
            if said.strip() != _RELEASED:
                self._said_ns = None
                return False
            self._said_ns = now_ns
        return False  # it talks faster than it can be listened to

    def fileno(self) -> int | None:
        """The socket."""
        return None if self._socket is None else self._socket.fileno()

    def close(self) -> None:
        """Closes the socket, and takes its name away if it still is its own."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            with contextlib.suppress(OSError):
                if self._path.stat().st_ino == self._inode:  # a successor may listen there by now
                    self._path.unlink()


class EmergencyStop:
    """All channels together: pressed if any is; without channels there is no emergency stop.

    Args:
        inputs: the channels.
        debounce_ns: how long a released one has to say so.

    Attributes:
        known: each channel has said whether it is pressed, and a released one for long enough. Until then nobody
            can say that somebody pressed it: nothing may move, nothing latches. From then on silence is a press.
    """

    def __init__(self, inputs: Sequence[Input], debounce_ns: int = DEBOUNCE_NS) -> None:
        self._inputs, self._debounce_ns = tuple(inputs), debounce_ns
        self.known = not self._inputs
        self._since: list[int | None] = [None] * len(self._inputs)

    def look(self, now_ns: int) -> Stop:
        """What they say now."""
        said = [channel.released(now_ns) for channel in self._inputs]
        for at, released in enumerate(said):
            if not released:
                self._since[at] = None
            elif self._since[at] is None:
                self._since[at] = now_ns
        settled = [since is not None and now_ns - since >= self._debounce_ns for since in self._since]
        self.known = self.known or all(
            channel.heard and (sure or not released)
            for channel, sure, released in zip(self._inputs, settled, said, strict=True)
        )
        return Stop(pressed=not all(settled), disagree=any(said) and not all(said))

    def filenos(self) -> list[int]:
        """Descriptors to wait for."""
        return [fd for channel in self._inputs if (fd := channel.fileno()) is not None]

    def close(self) -> None:
        """Lets go of all channels."""
        for channel in self._inputs:
            channel.close()


def readable(filenos: Sequence[int], wait_s: float) -> list[int]:
    """Which of these can be read, waiting for the first at most this long.

    select(2), not poll(2): it takes microseconds, and poll rounds up to milliseconds.
    """
    ready, _, _ = select.select(filenos, [], [], max(0.0, wait_s))
    return ready
