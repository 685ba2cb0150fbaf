"""Small files of /sys and /proc below a root that tests choose, read within a budget.

A read of sysfs may ask a sensor over I2C; one that hangs must not hang whoever asks for the health of a device.
Nothing here can interrupt a read inside the kernel, but after it the budget is used up and the rest of a snapshot
is unknown, with that reason, instead of late.
"""

import os
import re
import stat
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.health.reading import Reading, unknown

MAX_BYTES = 16384
"""Most that is read of one file by itself; /etc/nvpmodel.conf of an Orin has 12 kB, everything else a line."""

MAX_ENTRIES = 64
"""Most entries of one folder that are looked at; a board has about 12 zones, 25 cooling devices, 12 hwmon."""

MAX_FILES = 1500
MAX_MS = 250.0

_DIGITS = re.compile(r"(\d+)")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_ABSENT = "not there"


class SysFiles:
    """Reads of one snapshot.

    Args:
        root: `/`, or the top of a tree that looks like it.
        clock: measures the time that is used up.
        max_files: most files and folders that are opened.
        max_ms: after so many milliseconds nothing further is opened.
    """

    def __init__(
        self, root: Path, clock: Clock, *, max_files: int = MAX_FILES, max_ms: float = MAX_MS
    ) -> None:
        self._root = Path(root)
        self._clock = clock
        self._left = max_files
        self._late = False
        self._until_ns = clock.monotonic_ns() + int(max_ms * NS_PER_MS)

    def text(self, path: str, most: int = MAX_BYTES) -> Reading[str]:
        """The text of a file without surrounding blanks and NUL.

        Never raises: absent, unreadable, empty, not text, not a regular file or out of budget is unknown.

        Args:
            path: from the root.
            most: bytes; what a longer file has after them is left out.
        """
        if spent := self._spent():
            return unknown(spent)
        try:
            # O_NONBLOCK: a pipe in a file's place must not wait for a writer
            handle = os.open(self._root / path.lstrip("/"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return unknown(_ABSENT)
        except OSError as error:
            return unknown(f"cannot be opened: {error.strerror}")
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return unknown("not a regular file")
            raw = os.read(handle, most)
        except OSError as error:  # a powered-off sensor answers EAGAIN, EINVAL or EIO
            return unknown(f"cannot be read: {error.strerror}")
        finally:
            os.close(handle)
        words = raw.decode("utf-8", errors="replace").replace("\0", " ").strip()
        return Reading(words) if words else unknown("empty")

    def integer(self, path: str) -> Reading[int]:
        """A file that holds one whole number."""
        found = self.text(path)
        if found.value is None:
            return unknown(found.reason)
        if _INTEGER.fullmatch(found.value) is None:
            return unknown(f"{found.value[:20]!r} is not a number")
        return Reading(int(found.value))

    def natural(self, path: str) -> Reading[int]:
        """The same, and not negative."""
        found = self.integer(path)
        if found.value is not None and found.value < 0:
            return unknown(f"{found.value} is negative")
        return found

    def names(self, folder: str, pattern: str) -> list[str]:
        """Names in a folder that match a whole regular expression, numbers in order of value; none if absent."""
        if self._spent():
            return []
        wanted = re.compile(pattern)
        try:
            with os.scandir(self._root / folder.lstrip("/")) as entries:
                found = [entry.name for entry in entries if wanted.fullmatch(entry.name)]
        except OSError:
            return []
        return sorted(found, key=_by_number)[:MAX_ENTRIES]

    def _spent(self) -> str:
        if self._left <= 0:
            return "not read: too many files"
        self._left -= 1
        self._late = self._late or self._clock.monotonic_ns() > self._until_ns
        if self._late:
            return "not read: the time for one snapshot was used up"
        return ""


def _by_number(name: str) -> list[tuple[bool, int, str]]:
    parts = _DIGITS.split(name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
