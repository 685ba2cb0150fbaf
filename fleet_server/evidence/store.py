"""Uploads of evidence: what the table says may come, and what the folder says has come.

The file is the truth about how much is here, the table about what is expected. They are changed in an order that a
crash between them only makes the next request look again: first the bytes, then the row.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from fleet_server.evidence.folder import EvidenceFolder
from fleet_server.evidence.problems import EvidenceTooLong, NotExpected, QuotaFull, WrongDigest, WrongOffset
from fleet_server.settings import EvidenceSettings
from fleet_server.storage.engine import Store
from fleet_server.storage.event_tables import EvidenceRow


@dataclass(frozen=True, slots=True)
class Upload:
    """How far an upload is.

    Attributes:
        offset: bytes that are here.
        length: bytes that the decision states.
        complete: whether they are whole and verified.
    """

    offset: int
    length: int
    complete: bool


class EvidenceStore:
    """Takes uploads and gives evidence out.

    Args:
        directory: of the files.
        store: the database.
        settings: quota and limits.
        clock: stamps rows.
    """

    def __init__(self, directory: Path, store: Store, settings: EvidenceSettings, clock: Clock) -> None:
        self._folder = EvidenceFolder(directory, settings.keep_free_bytes)
        self._store, self._settings, self._clock = store, settings, clock

    def status(self, device: str, sha256: str) -> Upload:
        """How far a device's upload is. Its offset is its length only when the whole file has its name for good.

        Raises:
            NotExpected: no committed decision of this device names this digest.
            EvidenceBusy: all bytes are here, and another request is about to name them.
            StorageFull: all bytes are here, and the disk refuses to keep them for good.
        """
        self._folder.partial(device, sha256)
        with self._store.read() as session:
            row = _expected(session, device, sha256)
        if not self._folder.whole(sha256).is_file():
            here = self._folder.offset(device, sha256)
            if here < row.bytes:
                return Upload(here, row.bytes, complete=False)
            if not self._finished(device, sha256, row.bytes):
                return Upload(0, row.bytes, complete=False)
        if row.state != "complete":
            self._note(device, sha256, "complete", row.bytes)
        return Upload(row.bytes, row.bytes, complete=True)

    def append(self, device: str, sha256: str, offset: int, data: bytes) -> Upload:
        """Add bytes to an upload. The last ones complete it: they are verified, synced and named.

        Args:
            device: whose certificate came with the request.
            sha256: digest of the whole evidence.
            offset: where `data` begins; it must be where the upload stands.
            data: at least one byte, unless the upload is complete.

        Raises:
            NotExpected: no committed decision of this device names this digest.
            WrongOffset: the upload stands elsewhere.
            EvidenceTooLong: more than the decision states.
            WrongDigest: all bytes are here, and they are others; the upload begins anew.
            EvidenceBusy: another request writes it.
            QuotaFull, StorageFull: there is no room; the device may try later.
        """
        standing = self.status(device, sha256)
        if standing.complete:
            return standing
        if offset == 0 and standing.offset == 0:
            self._require_quota(standing.length)
        with self._folder.growing(device, sha256) as descriptor:
            self._write(descriptor, offset, data, standing.length)
            here = offset + len(data)
            if here == standing.length:
                try:
                    self._folder.finish(device, sha256, descriptor)
                except WrongDigest:
                    self._note(device, sha256, "expected", 0)
                    raise
        complete = here == standing.length
        if complete or offset == 0:  # the file knows the rest
            self._note(device, sha256, "complete" if complete else "partial", here)
        return Upload(here, standing.length, complete)

    def path(self, device: str, sha256: str) -> Path:
        """The whole file of evidence.

        Raises:
            NotExpected: no decision of this device names it, or it is not complete.
        """
        if not self.status(device, sha256).complete:
            raise NotExpected("the evidence is not here, or not whole yet")
        return self._folder.whole(sha256)

    @contextmanager
    def reading(self, device: str, sha256: str) -> Iterator[int]:
        """A descriptor of the whole file, which a retention run cannot take away meanwhile.

        Raises:
            NotExpected: see `path`.
        """
        try:
            descriptor = os.open(self.path(device, sha256), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise NotExpected("the evidence is no longer kept") from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def used_bytes(self) -> int:
        """Bytes that are here or promised to an upload that began."""
        with self._store.read() as session:
            return _used(session)

    def forget(self, session: Session, device: str, sha256: str) -> None:
        """Give up a piece of evidence, with its row, in the caller's transaction."""
        row = session.get(EvidenceRow, (device, sha256))
        if row is None:
            return
        session.delete(row)
        session.flush()
        others = session.scalar(select(func.count()).select_from(EvidenceRow).filter_by(sha256=sha256))
        self._folder.forget(device, sha256, also_whole=not others)

    def _finished(self, device: str, sha256: str, length: int) -> bool:
        """Finish what was cut off between its last byte and its name; False when the upload begins anew.

        A device deletes its crop once it hears that all of it is here: that is said of no file without a name.
        """
        with self._folder.growing(device, sha256) as descriptor:
            if self._folder.whole(sha256).is_file():  # another request was faster
                return True
            if os.fstat(descriptor).st_size >= length:
                with suppress(WrongDigest):
                    self._folder.finish(device, sha256, descriptor)
                    return True
        self._note(device, sha256, "expected", 0)
        return False

    def _write(self, descriptor: int, offset: int, data: bytes, length: int) -> None:
        here = os.fstat(descriptor).st_size
        if offset != here:
            raise WrongOffset(here)
        if offset + len(data) > length:
            raise EvidenceTooLong(f"the decision lets {length} bytes go")
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, here)
            here, view = here + written, view[written:]

    def _require_quota(self, length: int) -> None:
        if length > self._settings.max_bytes:
            raise EvidenceTooLong(f"this server takes at most {self._settings.max_bytes} bytes")
        if self.used_bytes() + length > self._settings.quota_bytes:
            raise QuotaFull("the server's quota of evidence is used up: try later")

    def _note(self, device: str, sha256: str, state: str, received: int) -> None:
        with self._store.write() as session:
            row = session.get(EvidenceRow, (device, sha256), with_for_update=True)
            if row is not None and row.state != "complete":
                row.state, row.received = state, received
                row.changed_ms = self._clock.wall().unix_ns // NS_PER_MS


def _expected(session: Session, device: str, sha256: str) -> EvidenceRow:
    row = session.get(EvidenceRow, (device, sha256))
    if row is None:
        raise NotExpected("no decision of this device lets this evidence go")
    return row


def _used(session: Session) -> int:
    query = select(func.sum(EvidenceRow.bytes)).where(EvidenceRow.state != "expected")
    return int(session.scalar(query) or 0)
