"""Files of releases by digest: `partial/<sha256>` while they come, `<2 digits>/<sha256>` once they are whole.

A file is whole only under its final name, where it was put by a rename after its bytes were checked and synced.
"""

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.durable import NO_ROOM, sync_directory
from fleet_server.releases.problems import ReleaseRefused

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20


class BlobFolder:
    """One folder.

    Args:
        directory: made when it is missing, readable by its owner alone.
        keep_free_bytes: nothing is written while the disk has less free.
    """

    def __init__(self, directory: Path, keep_free_bytes: int = 0) -> None:
        self._directory, self._keep_free = directory, keep_free_bytes

    def whole(self, sha256: str) -> Path:
        """Where the whole file with this digest lies, or would.

        Raises:
            ReleaseRefused: it is no digest.
        """
        if _DIGEST.fullmatch(sha256) is None:
            raise ReleaseRefused("digest", "not a SHA-256 in lower-case hexadecimal", 400)
        return self._directory / sha256[:2] / sha256

    def has(self, sha256: str, length: int) -> bool:
        """Whether it is here, whole; its bytes were checked when they came."""
        try:
            return self.whole(sha256).stat().st_size == length
        except FileNotFoundError:
            return False

    def offset(self, sha256: str) -> int:
        """Bytes that are here of one that still comes; the file itself knows, also after a crash."""
        try:
            return self._partial(sha256).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, sha256: str, offset: int, data: bytes, length: int) -> int:
        """Add bytes; the last ones make it whole.

        Args:
            sha256: of the whole file.
            offset: where `data` begins; it must be where the file stands.
            data: any number of bytes.
            length: of the whole file.

        Returns:
            Bytes that are here now.

        Raises:
            ReleaseRefused: it stands elsewhere, would become too long, has another digest (it then begins anew), or
                there is no room.
        """
        if self.has(sha256, length):
            return length
        with self._growing(sha256) as descriptor:
            here = os.fstat(descriptor).st_size
            if offset != here:
                raise ReleaseRefused("offset", f"the upload stands at {here}")
            if here + len(data) > length:
                raise ReleaseRefused("too_long", f"the proposal names {length} bytes", 413)
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, here)
                here, view = here + written, view[written:]
            if here == length:
                self._finish(sha256, descriptor)
        return here

    def forget(self, sha256: str) -> None:
        """Delete it, whole or not."""
        self._partial(sha256).unlink(missing_ok=True)
        self.whole(sha256).unlink(missing_ok=True)

    def _partial(self, sha256: str) -> Path:
        return self._directory / "partial" / self.whole(sha256).name

    @contextlib.contextmanager
    def _growing(self, sha256: str) -> Iterator[int]:
        path = self._partial(sha256)
        with _disk_problems():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            space = os.statvfs(path.parent)
            if space.f_bavail * space.f_frsize < self._keep_free:
                raise ReleaseRefused(
                    "no_space", "the server's disk has too little free space for releases", 507
                )
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ReleaseRefused("busy", "another request uploads this file now", 423) from None
            with _disk_problems():
                yield descriptor
        finally:
            os.close(descriptor)

    def _finish(self, sha256: str, descriptor: int) -> None:
        found = hashlib.sha256()
        place = 0
        while piece := os.pread(descriptor, _PIECE, place):
            found.update(piece)
            place += len(piece)
        if found.hexdigest() != sha256:
            os.ftruncate(descriptor, 0)
            raise ReleaseRefused(
                "digest", "the bytes that came have another digest: upload them from the beginning"
            )
        os.fsync(descriptor)
        target = self.whole(sha256)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._partial(sha256).replace(target)
        sync_directory(target.parent)
        sync_directory(self._directory)


@contextlib.contextmanager
def _disk_problems() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in NO_ROOM
        reason = "the disk is full" if full else (error.strerror or "the disk failed")
        raise ReleaseRefused("no_space", f"files of releases cannot be kept now: {reason}", 507) from None
