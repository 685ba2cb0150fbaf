"""What is published: releases as rollouts, devices and people ask for them, and the newest signed metadata."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from edge_runtime.protocol.release import Bundle, ReleaseKind, ReleaseTerms
from edge_runtime.protocol.release_values import Declared
from fleet_server.storage.release_tables import MetadataRow, ReleaseFileRow, ReleaseRow

Reader = Connection | Session
"""Either of the two; nothing is written."""


@dataclass(frozen=True, slots=True)
class PublishedRelease:
    """One release.

    Attributes:
        target: path in the repository; with `length` and `sha256` what an assignment names.
        length, sha256: of its bundle.json.
        bundle: the list of its files.
        terms: as its builder and approver signed them.
        revoked: it is no longer in the signed metadata: no device takes it any more.
        reason: why it was revoked.
    """

    target: str
    length: int
    sha256: str
    bundle: Bundle
    terms: ReleaseTerms
    published_ms: int
    published_by: str
    revoked_ms: int | None = None
    revoked_by: str | None = None
    reason: str | None = None

    @property
    def kind(self) -> ReleaseKind:
        """Whether it is of a model or of a configuration."""
        return self.terms.kind

    @property
    def name(self) -> str:
        """Of its line of releases."""
        return self.terms.name

    @property
    def counter(self) -> int:
        """Its place in the line."""
        return self.terms.counter

    @property
    def revoked(self) -> bool:
        """Whether it was taken out of the signed metadata."""
        return self.revoked_ms is not None


def releases(
    reader: Reader,
    *,
    kind: ReleaseKind | None = None,
    name: str | None = None,
    with_revoked: bool = True,
    after: tuple[ReleaseKind, str, int] | None = None,
    limit: int,
) -> list[PublishedRelease]:
    """Releases by kind and name, models before configurations and the newest of each name first.

    Args:
        reader: of any transaction.
        kind: only releases of this kind.
        name: only releases of this line.
        with_revoked: also those that were revoked.
        after: only those behind the one of this kind, name and counter, whether or not there is one.
        limit: at most so many.
    """
    query = select(ReleaseRow.__table__).order_by(
        ReleaseRow.kind.desc(), ReleaseRow.name, ReleaseRow.counter.desc()
    )
    if kind is not None:
        query = query.where(ReleaseRow.kind == kind.value)
    if name is not None:
        query = query.where(ReleaseRow.name == name)
    if not with_revoked:
        query = query.where(ReleaseRow.revoked_ms.is_(None))
    if after is not None:
        query = query.where(_behind(*after))
    return [_release(row) for row in reader.execute(query.limit(limit))]


def release(
    reader: Reader, name: str, counter: int, kind: ReleaseKind = ReleaseKind.MODEL
) -> PublishedRelease | None:
    """One release, or None where there is none of that name and counter."""
    query = select(ReleaseRow.__table__).where(
        ReleaseRow.kind == kind.value, ReleaseRow.name == name, ReleaseRow.counter == counter
    )
    row = reader.execute(query).one_or_none()
    return None if row is None else _release(row)


def declared_values(reader: Reader, targets: Collection[str]) -> dict[str, Declared]:
    """What each of some releases of configurations lets a server set for single devices, by target."""
    query = select(ReleaseRow.target, ReleaseRow.terms).where(
        ReleaseRow.target.in_(targets), ReleaseRow.kind == ReleaseKind.CONFIGURATION.value
    )
    return {target: ReleaseTerms.model_validate_json(terms).values for target, terms in reader.execute(query)}


def release_of_bundle(reader: Reader, sha256: str) -> PublishedRelease | None:
    """The newest release with this bundle, or None: what a device says that it runs is named so."""
    query = (
        select(ReleaseRow.__table__)
        .where(ReleaseRow.sha256 == sha256)
        .order_by(ReleaseRow.revoked_ms.is_not(None), ReleaseRow.counter.desc())
        .limit(1)
    )
    row = reader.execute(query).one_or_none()
    return None if row is None else _release(row)


def bundle_bytes(reader: Reader, target: str, sha256: str) -> bytes | None:
    """A target's bytes for a device, or None where there is no such release or it was revoked."""
    query = select(ReleaseRow.bundle).where(
        ReleaseRow.target == target, ReleaseRow.sha256 == sha256, ReleaseRow.revoked_ms.is_(None)
    )
    found = reader.execute(query).scalar_one_or_none()
    return None if found is None else bytes(found)


def bundle_by_digest(reader: Reader, sha256: str) -> bytes | None:
    """The bytes of a bundle by their digest alone, or None where no release that is not revoked has it."""
    query = select(ReleaseRow.bundle).where(ReleaseRow.sha256 == sha256, ReleaseRow.revoked_ms.is_(None))
    found = reader.execute(query.limit(1)).scalar_one_or_none()
    return None if found is None else bytes(found)


def is_served(reader: Reader, sha256: str) -> bool:
    """Whether some release that is not revoked has a file with this content."""
    query = select(
        exists().where(
            ReleaseFileRow.sha256 == sha256,
            ReleaseFileRow.target == ReleaseRow.target,
            ReleaseRow.revoked_ms.is_(None),
        )
    )
    return bool(reader.execute(query).scalar_one())


def metadata(reader: Reader, role: str, version: int | None = None) -> bytes | None:
    """Signed metadata of a role, byte for byte; the newest where no version is given, None where there is none."""
    query = select(MetadataRow.body).where(MetadataRow.role == role)
    if version is None:
        query = query.order_by(MetadataRow.version.desc()).limit(1)
    else:
        query = query.where(MetadataRow.version == version)
    found = reader.execute(query).scalar_one_or_none()
    return None if found is None else bytes(found)


def newest_root(reader: Reader) -> bytes | None:
    """The root that a new device is given to begin with, or None before the ceremony of the keys."""
    return metadata(reader, "root")


def newest_version(reader: Reader, role: str) -> int:
    """The version of a role's newest metadata; 0 where there is none."""
    query = select(func.max(MetadataRow.version)).where(MetadataRow.role == role)
    return int(reader.execute(query).scalar_one() or 0)


def _behind(kind: ReleaseKind, name: str, counter: int) -> ColumnElement[bool]:
    """What follows a place in the order of `releases`."""
    same_line = and_(ReleaseRow.name == name, ReleaseRow.counter < counter)
    same_kind = and_(ReleaseRow.kind == kind.value, or_(ReleaseRow.name > name, same_line))
    return or_(ReleaseRow.kind < kind.value, same_kind)


def _release(row: object) -> PublishedRelease:
    found: ReleaseRow = row  # type: ignore[assignment]
    return PublishedRelease(
        target=found.target,
        length=found.length,
        sha256=found.sha256,
        bundle=Bundle.model_validate_json(bytes(found.bundle)),
        terms=ReleaseTerms.model_validate_json(found.terms),
        published_ms=found.published_ms,
        published_by=found.published_by,
        revoked_ms=found.revoked_ms,
        revoked_by=found.revoked_by,
        reason=found.reason,
    )
