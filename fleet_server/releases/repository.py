"""The repository as people carry it away from the server, and as it is once it is verified.

`fleet keys export` writes a `RepositoryFile`: every root, the newest metadata of the other roles of people, and the
public halves of the server's own keys. It holds no secret, and nothing of it is believed before `verified` has
followed the roots from one that the reader trusts.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from securesystemslib.signer import Key
from tuf.api.exceptions import RepositoryError, UnsignedMetadataError
from tuf.api.metadata import Metadata, Root, TargetFile, Targets
from tuf.api.serialization import DeserializationError

from edge_runtime.errors import ConfigError
from edge_runtime.protocol.release import ReleaseTerms, canonical
from fleet_server.releases.online_keys import OnlinePublic
from fleet_server.releases.people import holder_of
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.roles import MAX_BYTES, MOST_ROOTS, RELEASE_ROLES, ROOT, TARGETS

CUSTOM: Final = "custom"
_MAX_FILE_BYTES = 64 << 20

Document = Annotated[str, Field(max_length=8 << 20)]


class RepositoryFile(BaseModel):
    """What the server gives to people.

    Attributes:
        online: the server's newest keys, which a ceremony or a rotation takes in.
        roots: from the first version on, without a gap.
        targets, models, configurations: the newest of each; None before the ceremony.
        counters: the highest ever published of each line of releases, as "models/<name>"; revoked ones count.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["fleet-repository.v1"] = "fleet-repository.v1"
    online: OnlinePublic
    roots: Annotated[tuple[Document, ...], Field(max_length=MOST_ROOTS + 1)] = ()
    targets: Document | None = None
    models: Document | None = None
    configurations: Document | None = None
    counters: Annotated[dict[str, int], Field(max_length=100_000)] = {}


@dataclass(frozen=True, slots=True)
class Trusted:
    """Verified metadata of all roles of people; each vouched for by the one before.

    Attributes:
        roles: `models` and `configurations`.
    """

    root: Metadata[Root]
    targets: Metadata[Targets]
    roles: Mapping[str, Metadata[Targets]]

    def version(self, role: str) -> int:
        """The version of a role of people."""
        return int(self.document(role).signed.version)

    def document(self, role: str) -> Metadata[Any]:
        """The metadata of a role of people."""
        if role == ROOT:
            return self.root
        return self.targets if role == TARGETS else self.roles[role]

    def keys(self, role: str) -> dict[str, Key]:
        """The keys of any role, by id: of people, of the server, or of the director."""
        return keys_of(self.root, self.targets, role)

    def keyids(self, role: str) -> frozenset[str]:
        """Their ids."""
        return frozenset(self.keys(role))

    def holders(self, role: str) -> list[str]:
        """Whose keys they are, each person once."""
        return sorted({holder_of(key) for key in self.keys(role).values()})

    def releases(self) -> dict[str, TargetFile]:
        """All targets, by path."""
        return {
            path: target for role in RELEASE_ROLES for path, target in self.roles[role].signed.targets.items()
        }


def keys_of(root: Metadata[Root], targets: Metadata[Targets], role: str) -> dict[str, Key]:
    """The keys of a role by id: the root names those of the top-level roles, the targets those of the others."""
    if role in root.signed.roles:
        found: list[str] = root.signed.roles[role].keyids
        return {keyid: root.signed.keys[keyid] for keyid in found}
    delegations = targets.signed.delegations
    if delegations is None or delegations.roles is None or role not in delegations.roles:
        return {}
    return {keyid: delegations.keys[keyid] for keyid in delegations.roles[role].keyids}


def terms_of(target: TargetFile) -> ReleaseTerms:
    """The signed terms of a release.

    Raises:
        ReleaseRefused: its custom metadata is none, or is of another release.
    """
    try:
        terms = ReleaseTerms.from_custom(target.unrecognized_fields.get(CUSTOM))
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_url=False, include_input=False)[0]["loc"])
        raise ReleaseRefused(
            "terms", f"the terms of {target.path} cannot be used: {where or 'there are none'}"
        ) from None
    if terms.target != target.path:
        raise ReleaseRefused("terms", f"{target.path} has the terms of {terms.target}")
    return terms


def parse(role: str, data: bytes | str) -> Metadata[Any]:
    """Metadata of a role of people; only its form is looked at.

    Raises:
        ReleaseRefused: it is none, of another role, or too large for devices.
    """
    raw = data.encode() if isinstance(data, str) else data
    if len(raw) > MAX_BYTES[role]:
        raise ReleaseRefused(
            "too_large",
            f"the metadata of {role} has {len(raw)} bytes, and devices read {MAX_BYTES[role]}",
        )
    try:
        found: Metadata[Any] = Metadata.from_bytes(raw)
    # a library on JSON from outside: what lacks a key or an attribute, or nests too deep, is no metadata either
    except (
        DeserializationError,
        RepositoryError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ):
        raise ReleaseRefused("malformed", f"the metadata of {role} cannot be read") from None
    if not isinstance(found.signed, Root if role == ROOT else Targets):
        raise ReleaseRefused("malformed", f"what stands for {role} is metadata of {found.signed.type}")
    return found


def as_bytes(document: Metadata[Any]) -> bytes:
    """Metadata as it is published: canonical JSON, so that the very bytes that were signed stand in the file.

    Raises:
        ReleaseRefused: it holds what JSON cannot say.
    """
    try:
        return canonical(document.to_dict())
    except (ValueError, TypeError, RecursionError):
        raise ReleaseRefused("malformed", "the metadata cannot be written") from None


def vouch(by: Metadata[Root] | Metadata[Targets], role: str, document: Metadata[Any]) -> None:
    """Check that enough keys of a role signed its metadata.

    Raises:
        ReleaseRefused: too few; the text says who did, and how many are needed.
    """
    try:
        by.signed.verify_delegate(role, document.signed_bytes, document.signatures)
    except (UnsignedMetadataError, ValueError):
        found = by.signed.get_verification_result(role, document.signed_bytes, document.signatures)
        names = ", ".join(sorted(holder_of(key) for key in found.signed.values())) or "nobody"
        raise ReleaseRefused(
            "signatures",
            f"version {document.signed.version} of {role} needs {found.threshold} signatures and has "
            f"{len(found.signed)} ({names})",
        ) from None


def verified(file: RepositoryFile, trusted_root: bytes | None) -> Trusted | None:
    """The repository of a file, once everything in it is vouched for.

    Args:
        file: from the server.
        trusted_root: the root from which to follow; None takes the file's first on its word.

    Returns:
        None for a repository whose ceremony was not yet held.

    Raises:
        ReleaseRefused: something in it is not signed by those who may.
    """
    if not file.roots:
        return None
    root = _follow([parse(ROOT, text) for text in file.roots], trusted_root)
    if file.targets is None or file.models is None or file.configurations is None:
        raise ReleaseRefused("incomplete", "the file has a root and not all of the rest: export it again")
    targets = parse(TARGETS, file.targets)
    vouch(root, TARGETS, targets)
    roles: dict[str, Metadata[Targets]] = {}
    for role, text in (("models", file.models), ("configurations", file.configurations)):
        roles[role] = parse(role, text)
        vouch(targets, role, roles[role])
    return Trusted(root, targets, roles)


def _follow(roots: list[Metadata[Root]], trusted_root: bytes | None) -> Metadata[Root]:
    if [root.signed.version for root in roots] != list(range(1, len(roots) + 1)):
        raise ReleaseRefused("incomplete", "the repository file has not every root from the first on")
    start = 0
    if trusted_root is not None:
        pinned = parse(ROOT, trusted_root)
        start = pinned.signed.version - 1
        if start >= len(roots):
            seen = pinned.signed.version
            raise ReleaseRefused(
                "older", f"this repository ends with root {len(roots)}, and you have seen root {seen}"
            )
        if roots[start].signed_bytes != pinned.signed_bytes:
            raise ReleaseRefused(
                "other_repository",
                f"root {pinned.signed.version} of this repository is not the one that you trust: it is of another "
                "fleet, or somebody made it up",
            )
    vouch(roots[start], ROOT, roots[start])
    for before, after in zip(roots[start:], roots[start + 1 :], strict=False):
        vouch(before, ROOT, after)
        vouch(after, ROOT, after)
    return roots[-1]


def read_repository(path: Path) -> RepositoryFile:
    """Read what `fleet keys export` wrote.

    Raises:
        ConfigError: it is missing, or not one.
    """
    try:
        with path.open("rb") as stream:
            return RepositoryFile.model_validate_json(stream.read(_MAX_FILE_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValidationError:
        raise ConfigError(f"{path} is no repository file: fleet keys export writes one") from None


def fingerprint(root: Metadata[Root]) -> str:
    """SHA-256 of what a root says, whoever has signed it so far: what people read to each other."""
    return hashlib.sha256(root.signed_bytes).hexdigest()
