"""Where events go now: one JSON object a line, whole lines only. The outbox comes with its own issue."""

import contextlib
import errno
import fcntl
import os
import select
import stat
from pathlib import Path

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.errors import ConfigError
from edge_runtime.protocol import EventRecord, encode_event

WRITE_TIMEOUT_S = 1.0
"""How long a reader of a pipe may keep a line waiting; a stopped one must not stop the camera."""

_PIECE = select.PIPE_BUF
"""A pipe or terminal that can be written takes this much at once, without waiting."""

_STDOUT = 1

_CHUNK = 65_536

_LONGEST = 131_072
"""No event is longer than half of this: a longer last line is something else."""


class NdjsonSink:
    """Appends events to a file, or to standard output for `-`, each in one write.

    A full disk never stops the loop: the event is counted as failed, what was written of its line is taken
    back, and the next one is tried as usual. A reader of a pipe, socket or terminal that stops reading costs
    `WRITE_TIMEOUT_S` once; until it reads again, events are counted as failed without waiting. The half line
    that a power cut left is moved to `<path>.partial` when the file is opened.

    Args:
        path: file to append to; its folder is made when missing.

    Attributes:
        written: events written.
        failed: events that could not be written.
        healed: half lines of an earlier run that were moved aside.
        trouble: what went wrong first, in words; None while nothing has.

    Raises:
        ConfigError: the file cannot be opened, is no event log, or another process writes it.
    """

    def __init__(self, path: str | Path) -> None:
        self.written = self.failed = self.healed = 0
        self.trouble: str | None = None
        self._path = None if str(path) == "-" else Path(path)
        self._torn = False
        self._broken = False
        self._regular = False
        self._stalled = False
        self._clock = SystemClock()
        self._fd = _own_output() if self._path is None else self._open(self._path)

    def write(self, event: EventRecord) -> bool:
        """Append one event; False when it could not be written, which is counted and explained in `trouble`."""
        line = encode_event(event, _LONGEST) + b"\n"
        if self._broken:
            self.failed += 1
            return False
        try:
            self._reopen_if_deleted()
            self._append(line)
        except OSError as error:
            self.failed += 1
            self._broken = isinstance(error, BrokenPipeError)
            if self.trouble is None:
                self.trouble = (
                    f"events cannot be written to {self._path or 'standard output'}: {error.strerror}"
                )
            return False
        self.written += 1
        return True

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._path is None:
            if self._fd != _STDOUT:
                os.close(self._fd)
                self._fd = _STDOUT
        elif self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, line: bytes) -> None:
        before = os.fstat(self._fd).st_size if self._regular else 0
        data = memoryview(b"\n" + line if self._torn else line)
        done = 0
        try:
            deadline_ns = self._clock.monotonic_ns() + int(WRITE_TIMEOUT_S * NS_PER_S)
            while done < len(data):
                if self._regular:
                    done += os.write(self._fd, data[done:])
                    continue
                self._wait_for_reader(deadline_ns)
                try:
                    done += os.write(self._fd, data[done : done + _PIECE])
                    self._stalled = False
                except BlockingIOError:  # another writer was faster
                    if self._stalled or self._clock.monotonic_ns() > deadline_ns:
                        raise
        except OSError:
            if done:
                self._torn = not self._regular
                if self._regular:
                    self._take_back(before)
            raise
        self._torn = False

    def _wait_for_reader(self, deadline_ns: int) -> None:
        """Return when a piece can be written; after one time-out only look, until somebody reads again."""
        left_ns = 0 if self._stalled else deadline_ns - self._clock.monotonic_ns()
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        if not poll.poll(max(left_ns, 0) / 1e6):
            self._stalled = True
            raise BlockingIOError(errno.EAGAIN, "its reader has stopped reading")

    def _take_back(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            self._torn = True  # end the half line before the next one

    def _reopen_if_deleted(self) -> None:
        """A file that was deleted while we write it is made anew, instead of filling the disk unseen."""
        if self._path is None:
            return
        if self._fd >= 0 and self._regular and os.fstat(self._fd).st_nlink == 0:
            self.close()
        if self._fd < 0:
            try:
                self._fd = self._open(self._path)
            except ConfigError as error:
                raise OSError(0, str(error)) from error

    def _open(self, path: Path) -> int:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise ConfigError(f"events file {path} cannot be opened: {error.strerror}") from error
        try:
            self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
            if self._regular:
                self._own(fd, path)
                self._heal(fd, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _own(self, fd: int, path: Path) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"events file {path} is being written by another process") from None
        except OSError:
            return  # a file system without locks

    def _heal(self, fd: int, path: Path) -> None:
        size = os.fstat(fd).st_size
        if size == 0:
            return
        if os.pread(fd, 1, 0) != b"{":
            raise ConfigError(f"{path} is no event log: its first line is not JSON; choose another file")
        whole = _end_of_last_line(fd, size)
        if whole == size:
            return
        if size - whole > _LONGEST:
            raise ConfigError(f"{path} is no event log: its last line is too long; choose another file")
        self.healed += 1
        aside = path.with_name(path.name + ".partial")
        # On a full disk the half line is given up: it is no event.
        with contextlib.suppress(OSError), aside.open("ab") as file:
            file.write(os.pread(fd, size - whole, whole) + b"\n")
        os.ftruncate(fd, whole)


def _own_output() -> int:
    """Standard output as a descriptor whose writes never wait, where the system can give one; else 1.

    Made anew rather than switched: descriptor 1 is often shared with a terminal and with other programs, which
    would suddenly find it non-blocking. A socket and a file cannot be opened so, or need not.
    """
    try:
        if stat.S_ISREG(os.fstat(_STDOUT).st_mode):
            return _STDOUT  # a second description would have a position of its own
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(f"/proc/self/fd/{_STDOUT}", flags)
    except OSError:
        return _STDOUT


def _end_of_last_line(fd: int, size: int) -> int:
    """Offset just behind the last line break, 0 when there is none."""
    end = size
    while end > 0:
        start = max(0, end - _CHUNK)
        position = os.pread(fd, end - start, start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0
