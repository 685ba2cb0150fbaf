"""Signed metadata and rows of releases, read and written in the caller's transaction; verified elsewhere."""

from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session
from tuf.api.metadata import Metadata

from edge_runtime.protocol.release import Bundle, ReleaseKind, ReleaseTerms, canonical
from fleet_server.releases import catalog
from fleet_server.releases.online_keys import OnlinePublic
from fleet_server.releases.repository import RepositoryFile, Trusted, as_bytes, parse
from fleet_server.releases.roles import (
    OFFLINE_ROLES,
    RELEASE_ROLES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    milliseconds,
)
from fleet_server.storage.release_tables import MetadataRow, ReleaseFileRow, ReleaseRow, ReleaseUploadRow

_KEPT_ONLINE = 64
"""Snapshots behind the newest that are kept: a device may be in the middle of a refresh."""


def repository_file(session: Session, online: OnlinePublic) -> RepositoryFile:
    """What people carry away."""
    roots = select(MetadataRow.body).where(MetadataRow.role == ROOT).order_by(MetadataRow.version)
    highest = select(ReleaseRow.kind, ReleaseRow.name, func.max(ReleaseRow.counter)).group_by(
        ReleaseRow.kind, ReleaseRow.name
    )
    newest = {role: catalog.metadata(session, role) for role in (TARGETS, *RELEASE_ROLES)}
    return RepositoryFile(
        online=online,
        roots=tuple(bytes(body).decode() for body in session.scalars(roots)),
        counters={
            f"{ReleaseKind(kind).role}/{name}": count for kind, name, count in session.execute(highest)
        },
        **{role: None if body is None else body.decode() for role, body in newest.items()},
    )


def published(session: Session) -> Trusted | None:
    """What is published, as it was verified when it came; None before the ceremony."""
    bodies = {role: catalog.metadata(session, role) for role in OFFLINE_ROLES}
    root = bodies[ROOT]
    if root is None:
        return None
    parsed: dict[str, Metadata[Any]] = {
        role: parse(role, body) for role, body in bodies.items() if body is not None
    }
    return Trusted(parsed[ROOT], parsed[TARGETS], {role: parsed[role] for role in RELEASE_ROLES})


def documents_of(session: Session, trusted: Trusted) -> dict[str, bytes]:
    """The bytes of the metadata that a snapshot names, by role."""
    found: dict[str, bytes] = {}
    for role in (TARGETS, *RELEASE_ROLES):
        body = catalog.metadata(session, role, trusted.version(role))
        found[role] = as_bytes(trusted.document(role)) if body is None else body
    return found


def put_metadata(session: Session, role: str, body: bytes, now_ms: int) -> None:
    """Keep one version of a role's metadata, and forget the server's own that nobody asks for any more."""
    signed = Metadata.from_bytes(body).signed
    session.add(
        MetadataRow(
            role=role,
            version=signed.version,
            body=body,
            published_ms=now_ms,
            expires_ms=milliseconds(signed.expires),
        )
    )
    session.flush()
    kept = {SNAPSHOT: _KEPT_ONLINE, TIMESTAMP: 1}.get(role)
    if kept is None:
        return
    border = (
        select(MetadataRow.version)
        .where(MetadataRow.role == role)
        .order_by(MetadataRow.version.desc())
        .offset(kept)
        .limit(1)
    )
    oldest = session.scalar(border)
    if oldest is not None:
        session.execute(delete(MetadataRow).where(MetadataRow.role == role, MetadataRow.version <= oldest))


def put_release(
    session: Session, terms: ReleaseTerms, bundle: Bundle, evaluation: list[Any], *, by: str, now_ms: int
) -> None:
    """Keep a release with its files; what was awaited of them is awaited no more."""
    data = bundle.canonical_bytes()
    session.add(
        ReleaseRow(
            target=terms.target,
            kind=terms.kind.value,
            name=terms.name,
            counter=terms.counter,
            length=len(data),
            sha256=bundle.sha256,
            bundle=data,
            terms=terms.canonical_bytes().decode(),
            evaluation=canonical(evaluation).decode(),
            published_ms=now_ms,
            published_by=by,
        )
    )
    session.flush()
    for file in bundle.files:
        session.add(ReleaseFileRow(target=terms.target, path=file.path, sha256=file.sha256, bytes=file.bytes))
    session.execute(
        delete(ReleaseUploadRow).where(ReleaseUploadRow.sha256.in_([file.sha256 for file in bundle.files]))
    )


def evaluation_of(session: Session, target: str) -> str:
    """Canonical JSON of what a release's package says of its accuracy."""
    return session.scalar(select(ReleaseRow.evaluation).where(ReleaseRow.target == target)) or "[]"


def highest_counter(session: Session, terms: ReleaseTerms) -> int:
    """The highest counter ever published in a line, revoked ones included."""
    query = select(func.max(ReleaseRow.counter)).where(
        ReleaseRow.kind == terms.kind.value, ReleaseRow.name == terms.name
    )
    return int(session.scalar(query) or 0)


def counted(session: Session) -> dict[str, int]:
    """How many releases stand and how many were revoked."""
    revoked = ReleaseRow.revoked_ms.is_not(None)
    rows = session.execute(select(revoked, func.count()).group_by(revoked))
    found = {bool(is_revoked): count for is_revoked, count in rows}
    return {"published": found.get(False, 0), "revoked": found.get(True, 0)}


def ends(session: Session) -> dict[str, int]:
    """When the newest metadata of each role runs out, milliseconds since 1970."""
    newest = select(MetadataRow.role, func.max(MetadataRow.version)).group_by(MetadataRow.role)
    found = {role: version for role, version in session.execute(newest)}  # noqa: C416 - a row is no pair
    return {
        role: int(
            session.scalar(
                select(MetadataRow.expires_ms).where(MetadataRow.role == role, MetadataRow.version == version)
            )
            or 0
        )
        for role, version in sorted(found.items())
    }
