"""Snapshot and timestamp: what the server signs by itself, so that devices can tell old from new. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from securesystemslib.signer import Signer
from tuf.api.metadata import Metadata, MetaFile, Snapshot, Timestamp

from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.repository import Trusted
from fleet_server.releases.roles import RELEASE_ROLES, SNAPSHOT, TARGETS, milliseconds, moment


@dataclass(frozen=True, slots=True)
class Lives:
    """For how long the server's own metadata is good, milliseconds. It is made anew after half of it."""

    snapshot_ms: int
    timestamp_ms: int

    def of(self, role: str) -> int:
        """That of a role."""
        return self.snapshot_ms if role == SNAPSHOT else self.timestamp_ms


def snapshot_of(
    trusted: Trusted, documents: Mapping[str, bytes], version: int, signer: Signer, end_ms: int
) -> bytes:
    """A snapshot of the metadata of targets and releases.

    Args:
        trusted: names the versions.
        documents: their bytes as published, by role.
        version: of the snapshot.
        signer: the key that the root names.
        end_ms: until when it is good.
    """
    meta = {
        f"{role}.json": _file(trusted.version(role), documents[role]) for role in (TARGETS, *RELEASE_ROLES)
    }
    made = Metadata(Snapshot(version=version, expires=moment(end_ms), meta=meta))
    made.sign(signer)
    return made.to_bytes()


def timestamp_of(snapshot: bytes, snapshot_version: int, version: int, signer: Signer, end_ms: int) -> bytes:
    """A timestamp that names a snapshot."""
    made = Metadata(
        Timestamp(version=version, expires=moment(end_ms), snapshot_meta=_file(snapshot_version, snapshot))
    )
    made.sign(signer)
    return made.to_bytes()


def is_due(trusted: Trusted, role: str, body: bytes | None, now_ms: int, life_ms: int) -> bool:
    """Whether a new one is to be made: there is none, half of its life is over, or another key signs now.

    Args:
        trusted: its root names the key.
        role: snapshot or timestamp.
        body: what is published.
        now_ms: the time.
        life_ms: for which it is good.
    """
    if body is None:
        return True
    found = Metadata.from_bytes(body)
    if milliseconds(found.signed.expires) - now_ms <= life_ms // 2:
        return True
    return not any(keyid in trusted.keyids(role) for keyid in found.signatures)


def version_after(body: bytes | None, at_least: int = 0) -> int:
    """The version that follows what is published, and not below another one that devices may have seen."""
    there = 0 if body is None else int(Metadata.from_bytes(body).signed.version)
    found = max(there + 1, at_least)
    if found >= 1 << 31:
        raise ReleaseRefused(
            "version", "a version this high leaves no room: rotate the key instead (docs/releases.md)"
        )
    return found


def _file(version: int, body: bytes) -> MetaFile:
    return MetaFile(version, len(body), {"sha256": hashlib.sha256(body).hexdigest()})
