"""The ring of crops on disk: bounded in bytes, oldest out first, and it touches no file that it did not write.

Crops stay on the device until a decision lets them go. A file is `<counter>-<sha256 prefix>.jpg`: the counter
goes on after a restart, so the order needs no clock. It is written under another name and renamed, so a
killed process leaves no torn crop. There is no fsync: it takes tens of milliseconds on an SD card and this is
the frame's path; what a power cut tore is found and dropped when the ring is opened, and the event's sha256
tells whoever reads a crop later.
"""

import contextlib
import fcntl
import hashlib
import os
import re
from collections import deque
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.events.crop import cut, encode_bounded
from edge_runtime.geometry import Float64Array
from edge_runtime.protocol import EvidenceRef
from edge_runtime.sources.frame import Image

MARKER = ".edge-runtime-evidence"
_CROP = re.compile(r"^(\d{12})-[0-9a-f]{16}\.jpg$")
_PART = re.compile(r"^\.\d{12}-[0-9a-f]{16}\.jpg\.part$")
_NOT_CONTENT = {MARKER, "lost+found"}

RETRY_NS = NS_PER_S
"""After a failure the disk is left alone for this long, so that a dead one costs the frames nothing."""


class EvidenceUnavailable(EdgeRuntimeError):
    """A crop could not be kept; the event goes out without it, and says why."""


class EvidenceRing:
    """Keeps crops in a directory of its own.

    Args:
        directory: made when it is missing. It must be empty or the ring's own from an earlier run.
        quota_bytes: all crops together never take more.
        max_bytes: one crop never takes more.
        margin: added around a box, as a fraction of its size.
        clock: measures how long to leave a failing disk alone.

    Attributes:
        deleted: crops deleted to stay within the quota.
        torn: unfinished or damaged crops of an earlier run that were removed.

    Raises:
        ConfigError: the directory holds files that are not the ring's, or another process uses it.
    """

    def __init__(
        self, directory: Path, *, quota_bytes: int, max_bytes: int, margin: float, clock: Clock
    ) -> None:
        self._directory = Path(directory)
        self._quota, self._max_bytes = quota_bytes, min(max_bytes, quota_bytes)
        self._margin, self._clock = margin, clock
        self._crops: deque[tuple[str, int]] = deque()
        self._used = 0
        self._next = 1
        self._lock: int | None = None
        self._failed_ns: int | None = None
        self._trouble = ""
        self.deleted = 0
        self.torn = 0
        try:
            self._attach()
        except OSError as error:  # a full or read-only disk must not keep the camera from running
            self._fail(error)

    @property
    def used_bytes(self) -> int:
        """Bytes of all crops in the ring."""
        return self._used

    def names(self) -> list[str]:
        """Names of the crops, oldest first."""
        return [name for name, _ in self._crops]

    def path(self, name: str) -> Path:
        """Where a crop lies; it may have been deleted by now."""
        return self._directory / name

    def keep(self, image: Image, xyxy: Float64Array) -> EvidenceRef:
        """Write a crop.

        Args:
            image: (H, W, 3) uint8, BGR, privacy masks already in it.
            xyxy: (4,) px; what to show.

        Raises:
            EvidenceUnavailable: the disk is full or cannot be written, or the crop cannot be made small enough.
        """
        if self._failed_ns is not None and self._clock.monotonic_ns() - self._failed_ns < RETRY_NS:
            raise EvidenceUnavailable(self._trouble)
        data = encode_bounded(cut(image, xyxy, self._margin), self._max_bytes)
        if data is None:
            raise EvidenceUnavailable(f"the crop cannot be made smaller than {self._max_bytes} bytes")
        digest = hashlib.sha256(data).hexdigest()
        try:
            self._attach()
            self._make_room(len(data))
            name = f"{self._next:012d}-{digest[:16]}.jpg"
            self._write(name, data)
        except (OSError, ConfigError) as error:
            self._fail(error)
            raise EvidenceUnavailable(self._trouble) from error
        self._next += 1
        self._crops.append((name, len(data)))
        self._used += len(data)
        return EvidenceRef(name=name, sha256=digest, bytes=len(data))

    def close(self) -> None:
        """Let another process have the directory; the crops stay."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _fail(self, error: Exception) -> None:
        self._failed_ns = self._clock.monotonic_ns()
        # strerror alone: the path is nobody's business who gets the event
        self._trouble = (error.strerror or "the disk failed") if isinstance(error, OSError) else str(error)
        self.close()

    def _attach(self) -> None:
        """Own the directory and learn what is in it."""
        if self._lock is not None:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in os.scandir(self._directory))
        if MARKER not in found and set(found) - _NOT_CONTENT:
            raise ConfigError(
                f"evidence.directory: {self._directory} holds other files; the ring deletes old crops, "
                "so give it an empty directory of its own"
            )
        lock = os.open(self._directory / MARKER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ConfigError(
                f"evidence.directory: {self._directory} is in use by another process; give each its own"
            ) from None
        except OSError:
            pass  # a file system without locks: the user must keep the directory to one process
        try:
            self._index(found)
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        self._failed_ns = None

    def _index(self, found: list[str]) -> None:
        self._crops.clear()
        self._used = 0
        for name in found:  # sorted, and the counter has a fixed width: oldest first
            path = self._directory / name
            if _PART.match(name):
                path.unlink(missing_ok=True)
                self.torn += 1
            elif (crop := _CROP.match(name)) and path.is_file() and not path.is_symlink():
                self._next = max(self._next, int(crop[1]) + 1)
                if _is_whole(path):
                    size = path.stat().st_size
                    self._crops.append((name, size))
                    self._used += size
                else:
                    path.unlink(missing_ok=True)
                    self.torn += 1
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        while self._crops and self._used + size > self._quota:
            name, length = self._crops[0]
            (self._directory / name).unlink(missing_ok=True)
            self._crops.popleft()
            self._used -= length
            self.deleted += 1

    def _write(self, name: str, data: bytes) -> None:
        part = self._directory / f".{name}.part"
        try:
            with part.open("xb") as file:
                file.write(data)
            part.replace(self._directory / name)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise


def _is_whole(path: Path) -> bool:
    """Whether a file begins and ends like a JPEG: a power cut leaves it empty, short or full of zeros."""
    with path.open("rb") as file:
        head = file.read(2)
        file.seek(0, os.SEEK_END)
        if file.tell() < 4:
            return False
        file.seek(-2, os.SEEK_END)
        return head == b"\xff\xd8" and file.read(2) == b"\xff\xd9"
