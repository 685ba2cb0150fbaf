"""What a device remembers beside its metadata, so that a lost or exchanged cache cannot make it forget.

tuf keeps its protection against older metadata in the metadata itself: a power cut that empties two files, or
somebody who deletes the folder, makes month-old metadata acceptable again. This is a second copy.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tuf.api.metadata import Role, Root

from edge_runtime.protocol.release import (
    ReleaseKind,
    ReleaseTerms,
    Sha256,
    UnixMilliseconds,
    canonical,
    target_path,
)
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust.chain import Chain

_ONLINE = ("timestamp", "snapshot")
_NAMES_PER_SLOT = 64

Version = Annotated[int, Field(ge=0)]


class Line(BaseModel):
    """The release of one name that a slot ran last.

    Attributes:
        revision: of the newest terms that were seen for it.
        rollback_to: SHA-256 of the bundles to which its terms permit to go back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    counter: Version = 0
    revision: Version = 0
    rollback_to: Annotated[tuple[Sha256, ...], Field(max_length=64)] = ()


class Memory(BaseModel):
    """What was trusted last. One that knows nothing admits everything that the signatures admit.

    Attributes:
        bootstrap_sha256: of the bootstrap root under which all this was learnt.
        root_version, root_sha256: of the newest root that was reached; the chain begins there and not at the
            bootstrap root, so that fifty rotations are walked once.
        keys: of timestamp and snapshot, a digest for each role; other keys end what is known of its versions.
        versions: of the roles, root excepted.
        floor_ms: a time that has passed.
        lines: for each slot and name of releases, what the slot ran last of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    bootstrap_sha256: Sha256 | None = None
    root_version: Version = 0
    root_sha256: Sha256 | None = None
    keys: dict[str, Sha256] = Field(default_factory=dict)
    versions: dict[str, Version] = Field(default_factory=dict)
    floor_ms: UnixMilliseconds = 0
    lines: dict[str, dict[str, Line]] = Field(default_factory=dict)

    def under(self, bootstrap_sha256: str) -> "Memory":
        """What is still true under a bootstrap root: all of it under the same, or one that was reached by it.

        Another root is a person's word that another repository is trusted now. Time has passed all the same.
        """
        if self.bootstrap_sha256 == bootstrap_sha256:
            return self
        if self.root_sha256 == bootstrap_sha256:
            return self.model_copy(update={"bootstrap_sha256": bootstrap_sha256})
        return Memory(bootstrap_sha256=bootstrap_sha256, floor_ms=self.floor_ms)

    def refuse_older(self, chain: Chain) -> None:
        """Refuse metadata that is older than what was trusted before.

        As in tuf, new keys end what is known of versions: that is how people heal a version that a thief put far
        ahead. New keys of timestamp end it for timestamp and snapshot, new keys of snapshot for what it lists.

        Raises:
            UpdateRefused: METADATA_ROLLBACK.
        """
        found = chain.versions()
        keys = role_keys(chain.root)
        same = {role for role in self.versions if self.keys.get(_keeper(role)) == keys[_keeper(role)]}
        bounds = {"root": self.root_version, **{role: self.versions[role] for role in same}}
        for role, bound in sorted(bounds.items()):
            if found.get(role, 0) < bound:
                raise UpdateRefused(
                    UpdateCode.METADATA_ROLLBACK,
                    f"{role} metadata has version {found.get(role, 0)}, and this device has trusted {bound}: "
                    "somebody serves what is old",
                    again=True,
                )

    def after(self, chain: Chain) -> "Memory":
        """This, with what a chain says that was not refused as older."""
        versions = {role: version for role, version in chain.versions().items() if role != "root"}
        return self.with_root(chain.root, chain.root_sha256).model_copy(
            update={"versions": versions, "keys": role_keys(chain.root)}
        )

    def with_root(self, root: Root, root_sha256: str) -> "Memory":
        """This, with a root that was reached."""
        return self.model_copy(update={"root_version": root.version, "root_sha256": root_sha256})

    def with_floor(self, floor_ms: int) -> "Memory":
        """This, with a time that has passed, if it is later than the one that is known."""
        return self.model_copy(update={"floor_ms": max(self.floor_ms, floor_ms)})

    def with_line(self, slot: str, terms: ReleaseTerms) -> "Memory":
        """This, with the terms of a release that a slot runs; older terms of the same release change nothing."""
        known, line = self.lines.get(slot, {}), _line(terms)
        there = known.get(terms.name)
        if there is not None and there.counter == line.counter and there.revision >= line.revision:
            return self
        others = [(name, other) for name, other in known.items() if name != terms.name]
        kept = dict(others[-(_NAMES_PER_SLOT - 1) :])
        return self.model_copy(update={"lines": {**self.lines, slot: {**kept, terms.name: line}}})

    def following(self, slot: str, kind: ReleaseKind, now: Callable[[str], ReleaseTerms | None]) -> "Memory":
        """This, with the terms that people have signed anew for what a slot ran.

        Args:
            slot: its name.
            kind: of its releases.
            now: the terms of a target at this time; None where it is no longer signed.
        """
        known = self.lines.get(slot, {})
        found = {name: now(target_path(kind, name, line.counter)) for name, line in known.items()}
        newer = {
            name: _line(terms)
            for name, terms in found.items()
            if terms is not None and terms.revision > known[name].revision
        }
        return self.model_copy(update={"lines": {**self.lines, slot: {**known, **newer}}}) if newer else self

    def to_bytes(self) -> bytes:
        """A file that `from_bytes` reads; a damaged one is noticed by its digest."""
        found = self.model_dump(mode="json", exclude_none=True)
        return canonical({"memory": found, "sha256": hashlib.sha256(canonical(found)).hexdigest()})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Memory | None":
        """What `to_bytes` wrote, or None where it is anything else."""
        try:
            found: Any = json.loads(data)
            inner: Mapping[str, Any] = found["memory"]
            if found["sha256"] != hashlib.sha256(canonical(inner)).hexdigest():
                return None
            return cls.model_validate(inner)
        except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
            return None


def _line(terms: ReleaseTerms) -> Line:
    return Line(counter=terms.counter, revision=terms.revision, rollback_to=terms.rollback_to)


def role_keys(root: Root) -> dict[str, str]:
    """A digest of the keys of each online role."""
    return {role: keys_digest(root.roles[role]) for role in _ONLINE}


def keys_digest(role: Role) -> str:
    """A digest of a role's keys, and of how many of them must sign."""
    return hashlib.sha256(f"{role.threshold}:{','.join(sorted(role.keyids))}".encode()).hexdigest()


def _keeper(role: str) -> str:
    """The online role whose keys vouch that a version is the newest."""
    return "timestamp" if role in _ONLINE else "snapshot"
