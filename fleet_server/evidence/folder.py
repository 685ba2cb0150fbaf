"""Files of evidence: `partial/<device>.<sha256>` while they grow, `<2 digits>/<sha256>` when they are whole.

A name is made of a device id and a digest that were checked character by character: nothing from outside becomes a
path. A file is whole only under its final name, where it was put by a rename after its bytes were synced.
"""

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.durable import NO_ROOM
from edge_runtime.protocol.topics import DEVICE_PATTERN
from fleet_server.evidence.problems import EvidenceBusy, NotExpected, StorageFull, WrongDigest

_DIGEST = re.compile(r"[0-9a-f]{64}")
_DEVICE = re.compile(DEVICE_PATTERN.removeprefix("^").removesuffix("$"))
_READ_BYTES = 1 << 20


class EvidenceFolder:
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
            NotExpected: it is no digest.
        """
        if _DIGEST.fullmatch(sha256) is None:
            raise NotExpected("not a SHA-256 in lower-case hexadecimal")
        return self._directory / sha256[:2] / sha256

    def partial(self, device: str, sha256: str) -> Path:
        """Where a device's upload grows.

        Raises:
            NotExpected: it is no device id or no digest.
        """
        if _DEVICE.fullmatch(device) is None:
            raise NotExpected("not a device id")
        self.whole(sha256)
        return self._directory / "partial" / f"{device}.{sha256}"

    def offset(self, device: str, sha256: str) -> int:
        """Bytes of an upload that are here; the file itself knows, also after a crash."""
        try:
            return self.partial(device, sha256).stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    @contextlib.contextmanager
    def growing(self, device: str, sha256: str) -> Iterator[int]:
        """A descriptor of a device's upload, held against every other writer.

        Raises:
            EvidenceBusy: another request has it.
            StorageFull: the disk is full or refuses.
        """
        path = self.partial(device, sha256)
        with _disk_problems():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._require_space()
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EvidenceBusy("another request uploads this evidence now") from None
            with _disk_problems():
                yield descriptor
        finally:
            os.close(descriptor)

    def finish(self, device: str, sha256: str, descriptor: int) -> None:
        """Check all bytes of an upload and give it its final name, for good.

        Raises:
            WrongDigest: they are others; the upload is empty again.
        """
        found = hashlib.sha256()
        place = 0
        while piece := os.pread(descriptor, _READ_BYTES, place):
            found.update(piece)
            place += len(piece)
        if found.hexdigest() != sha256:
            os.ftruncate(descriptor, 0)
            raise WrongDigest("the bytes that came have another digest: upload it from the beginning")
        os.fsync(descriptor)
        target = self.whole(sha256)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.partial(device, sha256).replace(target)
        _sync(target.parent)
        _sync(self._directory)

    def forget(self, device: str, sha256: str, *, also_whole: bool) -> None:
        """Delete what a device uploaded; the whole file only when nobody else's decision names it."""
        self.partial(device, sha256).unlink(missing_ok=True)
        if also_whole:
            self.whole(sha256).unlink(missing_ok=True)

    def _require_space(self) -> None:
        space = os.statvfs(self._directory)
        if space.f_bavail * space.f_frsize < self._keep_free:
            raise StorageFull("the disk has too little free space for evidence: try later")


@contextlib.contextmanager
def _disk_problems() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in NO_ROOM else (error.strerror or "the disk failed")
        raise StorageFull(f"evidence cannot be kept now: {reason}") from None


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
