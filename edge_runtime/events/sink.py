"""Where events go now: one JSON object a line, whole lines only. The outbox comes with its own issue."""

import contextlib
import fcntl
import os
import select
import stat
from pathlib import Path

from edge_runtime.errors import ConfigError
from edge_runtime.protocol import EventRecord, encode_event

WRITE_TIMEOUT_S = 1.0
"""How long a reader of a pipe may keep a line waiting; a stopped one must not stop the camera."""

_CHUNK = 65_536

_LONGEST = 131_072
"""No event is longer than half of this: a longer last line is something else."""


class NdjsonSink:
    """Appends events to a file, or to standard output for `-`, each in one write.

    A full disk never stops the loop: the event is counted as failed, what was written of its line is taken
    back, and the next one is tried as usual. The half line that a power cut left is moved to `<path>.partial`
    when the file is opened.

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
        self._fd = 1 if self._path is None else self._open(self._path)

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
        if self._path is not None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, line: bytes) -> None:
        before = os.fstat(self._fd).st_size if self._regular else 0
        data = memoryview(b"\n" + line if self._torn else line)
        done = 0
        try:
            while done < len(data):
                done += self._write_some(data[done:])
        except OSError:
            if done:
                self._torn = not self._regular
                if self._regular:
                    self._take_back(before)
            raise
        self._torn = False

    def _write_some(self, data: memoryview) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            if not select.select([], [self._fd], [], WRITE_TIMEOUT_S)[1]:
                raise
            return os.write(self._fd, data)

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
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
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
