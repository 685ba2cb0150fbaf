"""A part file: what has come of a blob so far, named by its digest: every process knows what it belongs to."""

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from edge_runtime.durable import NO_ROOM
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused, disk_refusal
from edge_runtime.updates.wants import Want

SYNC_BYTES = 8 << 20
"""So much a power cut costs at most, over what a killed process costs, which is nothing."""

_SUFFIX = ".part"
_ETAG = ".etag"


class Part:
    """The part of one blob, open and locked.

    Args:
        folder: of parts; on the file system of the store.
        want: what it becomes.

    Attributes:
        size: bytes that are here.
        path: of the file.

    Raises:
        UpdateRefused: it cannot be opened, or another process has it.
    """

    def __init__(self, folder: Path, want: Want) -> None:
        self.path = folder / f"{want.sha256}{_SUFFIX}"
        self._etag = folder / f"{want.sha256}{_ETAG}"
        self._usual = f'"{want.sha256}"'
        try:
            self._open(folder)
            self.size = os.fstat(self._fd).st_size
            if self.size > want.length:
                self._empty()
        except OSError as error:
            raise refusal(error) from None
        self._unsynced = 0

    def append(self, piece: bytes) -> bool:
        """Write what follows.

        Returns:
            Whether `SYNC_BYTES` were flushed to the disk by it: a moment to look how full that is.

        Raises:
            UpdateRefused: the disk is full, and the part is given up to make room; or it cannot be written.
        """
        try:
            view = memoryview(piece)
            while view:
                written = os.write(self._fd, view)
                self.size += written
                view = view[written:]
            self._unsynced += len(piece)
            if self._unsynced < SYNC_BYTES:
                return False
            os.fdatasync(self._fd)
            self._unsynced = 0
        except OSError as error:
            if error.errno in NO_ROOM:
                # the queue of events lives on this disk too, and needs the room more than a download does
                self.drop()
            raise refusal(error) from None
        return True

    @property
    def etag(self) -> str | None:
        """What the server called the content when it sent the beginning; None where it had no name to ask by."""
        try:
            return self._etag.read_text(encoding="ascii") or None
        except FileNotFoundError:
            return self._usual
        except (OSError, UnicodeDecodeError):
            return None

    def remember(self, etag: str | None) -> None:
        """Keep the name for the next process; the usual one, the digest, needs no file.

        Raises:
            UpdateRefused: the disk fails.
        """
        try:
            if etag == self._usual:
                self._etag.unlink(missing_ok=True)
            elif etag != self.etag:
                self._etag.write_text(etag or "", encoding="ascii")
        except OSError as error:
            raise refusal(error) from None

    def restart(self) -> None:
        """Begin anew: what is here is of no use.

        Raises:
            UpdateRefused: the disk fails.
        """
        try:
            self._empty()
        except OSError as error:
            raise refusal(error) from None

    def drop(self) -> None:
        """Remove it, and what is remembered of it; it is of no further use then."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
            self._empty()

    def forget(self) -> None:
        """Remove what is remembered of it, once it became a blob."""
        with contextlib.suppress(OSError):
            self._etag.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def _empty(self) -> None:
        os.ftruncate(self._fd, 0)
        self.size = 0
        self._etag.unlink(missing_ok=True)

    def _open(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UpdateRefused(
                UpdateCode.DOWNLOAD_FAILED, "another process is downloading the same content", again=True
            ) from None


def parts_in(folder: Path) -> dict[str, int]:
    """Bytes that are here, by digest."""
    try:
        return {path.stem: path.stat().st_size for path in folder.glob(f"*{_SUFFIX}")}
    except OSError:
        return {}


def refusal(error: OSError) -> UpdateRefused:
    """What a failure of the disk means for an update."""
    return disk_refusal(error, UpdateCode.DOWNLOAD_FAILED, "the download cannot be written")
