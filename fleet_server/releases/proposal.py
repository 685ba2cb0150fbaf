"""A proposal: the next metadata of some roles, which travels from person to person until enough have signed.

It is one file of JSON. What it is made on, the repository of that moment, travels along, so that whoever signs can
see what would change; the server looks at the new metadata alone.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from securesystemslib.signer import Key, Signer
from tuf.api.metadata import Metadata, Root, Targets

from edge_runtime.durable import write_file
from edge_runtime.errors import ConfigError
from fleet_server.releases.people import holder_of
from fleet_server.releases.repository import Document, RepositoryFile, Trusted, as_bytes, keys_of, parse
from fleet_server.releases.roles import OFFLINE_ROLES, ROOT, TARGETS, THRESHOLD

_MAX_FILE_BYTES = 64 << 20


class ProposalKind(str, Enum):
    """What is proposed."""

    KEYS = "keys"
    RELEASE = "release"
    REVOCATION = "revocation"
    TERMS = "terms"


class Submission(BaseModel):
    """What the server is given of a proposal.

    Attributes:
        documents: metadata by role, with the signatures so far.
        bundle: text of `bundle.json`, for a release.
        target: of the release that is published or revoked, or whose terms are signed anew.
        reason: why it is revoked or gets other terms, or what the keys are changed for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ProposalKind
    documents: Annotated[
        dict[Literal["root", "targets", "models", "configurations"], Document],
        Field(min_length=1, max_length=len(OFFLINE_ROLES)),
    ]
    bundle: Annotated[str, Field(max_length=256 * 1024)] | None = None
    target: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    reason: Annotated[str, Field(max_length=500)] = ""


class Proposal(Submission):
    """The file."""

    format: Literal["fleet-proposal.v1"] = "fleet-proposal.v1"
    base: RepositoryFile

    def submission(self) -> Submission:
        """What of it the server is given."""
        return Submission(**{name: getattr(self, name) for name in Submission.model_fields})

    def parsed(self) -> dict[str, Metadata[Any]]:
        """Its metadata, in the order in which one role vouches for the next.

        Raises:
            ReleaseRefused: something in it is no metadata.
        """
        return parsed(self.documents)

    def with_documents(self, documents: Mapping[str, Metadata[Any]]) -> "Proposal":
        """The same proposal with metadata that carries more signatures."""
        return self.model_copy(update={"documents": texts(documents)})


def parsed(documents: Mapping[Any, str]) -> dict[str, Metadata[Any]]:
    """Metadata of texts, in the order of `OFFLINE_ROLES`.

    Raises:
        ReleaseRefused: something in it is no metadata.
    """
    return {role: parse(role, documents[role]) for role in OFFLINE_ROLES if role in documents}


def texts(documents: Mapping[str, Metadata[Any]]) -> dict[str, str]:
    """The reverse of `parsed`."""
    return {role: as_bytes(document).decode() for role, document in documents.items()}


def who_may_sign(role: str, base: Trusted | None, documents: Mapping[str, Metadata[Any]]) -> dict[str, Key]:
    """The keys whose signature counts on a proposal's metadata of a role.

    A new root needs the old root's keys and its own; whatever else changes is vouched for by what comes with it, or
    by what is there.
    """
    root: Metadata[Root] = documents.get(ROOT) or _there(base, ROOT)
    if role == ROOT:
        before = {} if base is None else base.keys(ROOT)
        return before | {keyid: root.signed.keys[keyid] for keyid in root.signed.roles[ROOT].keyids}
    targets: Metadata[Targets] = documents.get(TARGETS) or _there(base, TARGETS)
    return keys_of(root, targets, role)


def sign_with(
    signers: Iterable[Signer], base: Trusted | None, documents: Mapping[str, Metadata[Any]]
) -> dict[str, list[str]]:
    """Add signatures to metadata in place, wherever a key counts and has not signed.

    Returns:
        By role, the holders whose signature was added.
    """
    added: dict[str, list[str]] = {}
    for signer in signers:
        for role, document in documents.items():
            keys = who_may_sign(role, base, documents)
            keyid = signer.public_key.keyid
            if keyid in keys and keyid not in document.signatures:
                document.sign(signer, append=True)
                added.setdefault(role, []).append(holder_of(keys[keyid]))
    return added


def signatures(base: Trusted | None, documents: Mapping[str, Metadata[Any]]) -> dict[str, list[str]]:
    """By role, the holders who have signed so that it counts; verified, not read off."""
    found: dict[str, list[str]] = {}
    for role, document in documents.items():
        keys = who_may_sign(role, base, documents)
        found[role] = [
            holder_of(keys[keyid])
            for keyid, signature in document.signatures.items()
            if keyid in keys and _is_good(keys[keyid], signature, document.signed_bytes)
        ]
    return found


def missing(base: Trusted | None, documents: Mapping[str, Metadata[Any]]) -> dict[str, int]:
    """By role, how many signatures are still needed; a root counts those of the keys before and of its own."""
    lacking: dict[str, int] = {}
    for role, document in documents.items():
        good = {
            keyid
            for keyid, key in who_may_sign(role, base, documents).items()
            if keyid in document.signatures
            and _is_good(key, document.signatures[keyid], document.signed_bytes)
        }
        groups = [frozenset(who_may_sign(role, base, documents))]
        if role == ROOT:
            groups = [frozenset(document.signed.roles[ROOT].keyids)]
            groups += [] if base is None else [base.keyids(ROOT)]
        most = max(THRESHOLD - len(good & group) for group in groups)
        if most > 0:
            lacking[role] = most
    return lacking


def _is_good(key: Key, signature: Any, data: bytes) -> bool:
    from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError  # noqa: PLC0415

    try:
        key.verify_signature(signature, data)
    except (UnverifiedSignatureError, VerificationError):
        return False
    return True


def _there(base: Trusted | None, role: str) -> Metadata[Any]:
    if base is None:
        raise ConfigError(f"the proposal has no {role}, and there was none before")
    return base.document(role)


def read_proposal(path: Path) -> Proposal:
    """Read a proposal.

    Raises:
        ConfigError: it is missing, or not one.
    """
    try:
        with path.open("rb") as stream:
            return Proposal.model_validate_json(stream.read(_MAX_FILE_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValidationError:
        raise ConfigError(f"{path} is no proposal of fleet keys or fleet release") from None


def write_proposal(path: Path, proposal: Proposal) -> None:
    """Write a proposal, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        write_file(path, proposal.model_dump_json(indent=1, exclude_none=True).encode(), 0o644)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
