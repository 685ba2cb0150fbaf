"""Files of releases that may come: those that a proposal with enough signatures names, in a quota, for a week."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.protocol.release import BundleFile
from fleet_server.audit import Audit
from fleet_server.releases.blobs import BlobFolder
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.roles import DAY_MS
from fleet_server.settings import ReleaseSettings
from fleet_server.storage.engine import Store
from fleet_server.storage.release_tables import ReleaseFileRow, ReleaseUploadRow
from fleet_server.storage.writing import RELEASE_LOCK, take_turn

ABANDONED_MS = 7 * DAY_MS
"""What was announced and not published within this is forgotten, with the bytes that came of it."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A file that a proposal names and the server has not, or not whole.

    Attributes:
        offset: bytes that are here.
    """

    sha256: str
    bytes: int
    offset: int


class Uploads:
    """What may come, and what has come of it.

    Args:
        store: the database.
        blobs: the files.
        settings: says how much there may be.
        audit: where it is written down that files were announced.
        clock: says what was abandoned.
    """

    def __init__(
        self, store: Store, blobs: BlobFolder, settings: ReleaseSettings, audit: Audit, clock: Clock
    ) -> None:
        self._store, self._blobs, self._settings = store, blobs, settings
        self._audit, self._clock = audit, clock

    def expect(self, target: str, files: Sequence[BundleFile], by: str) -> list[Awaited]:
        """Let the files of a release come, of which two people signed the proposal.

        Returns:
            Those that are not here, each once.

        Raises:
            ReleaseRefused: they would go beyond the quota.
        """
        awaited = {file.sha256: file for file in files if not self._blobs.has(file.sha256, file.bytes)}
        if not awaited:
            return []
        with self._store.write() as session:
            take_turn(session.connection(), RELEASE_LOCK)
            self._require_quota(session, list(awaited.values()))
            for sha256, file in awaited.items():
                row = session.get(ReleaseUploadRow, sha256)
                if row is None:
                    row = ReleaseUploadRow(sha256=sha256)
                    session.add(row)
                row.bytes, row.announced_by, row.announced_ms = file.bytes, by, self._now_ms()
            self._audit.record(session, by, "release.announce", target, {"files": len(awaited)})
        return [Awaited(sha256, file.bytes, self._blobs.offset(sha256)) for sha256, file in awaited.items()]

    def standing(self, sha256: str) -> Awaited:
        """How far an upload is; `offset` is `bytes` once it is whole.

        Raises:
            ReleaseRefused: no proposal that was announced names it.
        """
        with self._store.read() as session:
            row = session.get(ReleaseUploadRow, sha256)
        if row is None:
            raise ReleaseRefused(
                "not_expected", "no announced proposal names this file: announce it first", 403
            )
        whole = self._blobs.has(sha256, row.bytes)
        return Awaited(sha256, row.bytes, row.bytes if whole else self._blobs.offset(sha256))

    def append(self, sha256: str, offset: int, data: bytes) -> Awaited:
        """Add bytes to an upload.

        Raises:
            ReleaseRefused: see `standing` and `BlobFolder.append`.
        """
        standing = self.standing(sha256)
        return Awaited(sha256, standing.bytes, self._blobs.append(sha256, offset, data, standing.bytes))

    def tidy(self) -> int:
        """Forget announced files that were never published; how many."""
        with self._store.write() as session:
            take_turn(session.connection(), RELEASE_LOCK)
            border = self._now_ms() - ABANDONED_MS
            old = list(
                session.scalars(select(ReleaseUploadRow.sha256).where(ReleaseUploadRow.announced_ms < border))
            )
            for sha256 in old:
                used = session.scalar(
                    select(func.count()).select_from(ReleaseFileRow).where(ReleaseFileRow.sha256 == sha256)
                )
                if not used:
                    self._blobs.forget(sha256)
            session.execute(delete(ReleaseUploadRow).where(ReleaseUploadRow.announced_ms < border))
        return len(old)

    def _require_quota(self, session: Session, awaited: Sequence[BundleFile]) -> None:
        """What is published, what was promised to others, and what is awaited now: each content once."""
        files = select(ReleaseFileRow.sha256, func.max(ReleaseFileRow.bytes).label("bytes")).group_by(
            ReleaseFileRow.sha256
        )
        used = session.scalar(select(func.sum(files.subquery().c.bytes))) or 0
        promised = session.scalar(select(func.sum(ReleaseUploadRow.bytes))) or 0
        for file in awaited:
            row = session.get(ReleaseUploadRow, file.sha256)
            promised += file.bytes - (0 if row is None else row.bytes)
        if used + promised > self._settings.quota_bytes:
            raise ReleaseRefused(
                "quota", "the server's quota of release files is used up: raise releases.quota_bytes", 507
            )

    def _now_ms(self) -> int:
        return self._clock.wall().unix_ns // NS_PER_MS
