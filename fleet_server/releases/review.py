"""What somebody who is asked to sign has to know first: is this their fleet, and what would change?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuf.api.metadata import Metadata

from edge_runtime.errors import ConfigError
from fleet_server.releases.judgement import Changes, changes, unsigned
from fleet_server.releases.key_directory import KeyDirectory
from fleet_server.releases.people import holder_of
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.proposal import Proposal, sign_with, who_may_sign
from fleet_server.releases.repository import RepositoryFile, Trusted, as_bytes, fingerprint, parse, verified
from fleet_server.releases.roles import ROOT

LEAST_COMPARED = 16
"""Digits of a fingerprint: nobody finds another root with the same 64 bits in front."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A proposal that may be signed.

    Attributes:
        base: what it is made on, verified; None for the first.
        documents: its metadata by role, to add signatures to.
        after: the repository as it would be.
        changes: what it does to the releases.
    """

    base: Trusted | None
    documents: Mapping[str, Metadata[Any]]
    after: Trusted
    changes: Changes


def known(file: RepositoryFile, directory: KeyDirectory, root: str | None) -> Trusted | None:
    """The repository of a file as one person may believe it, whose newest root they have then seen.

    Args:
        file: from the server, or from a proposal.
        directory: of the person; it says which root they trust.
        root: fingerprint, or its beginning, that a person has compared; for somebody who trusts none yet.

    Raises:
        ReleaseRefused: it does not follow from the root that they trust.
        ConfigError: they trust none yet, and have not compared.
    """
    if not file.roots:
        return None
    pinned = directory.trusted_root()
    found = verified(file, pinned or _compared(file, directory, root))
    if found is None:
        return None
    newest = as_bytes(found.root)
    if pinned != newest:
        directory.trust(newest)
    return found


def _compared(file: RepositoryFile, directory: KeyDirectory, root: str | None) -> bytes:
    """The root of a file that a person has compared with somebody."""
    wanted = (root or "").lower()
    for text in file.roots if len(wanted) >= LEAST_COMPARED else ():
        if fingerprint(parse(ROOT, text)).startswith(wanted):
            return text.encode()
    why = "no root here has that fingerprint" if root else "you have not seen this fleet's keys before"
    raise ConfigError(
        f"{why}: have {directory.person.holder} ask somebody who has for the fingerprint that fleet keys inspect "
        f"shows them, and give at least {LEAST_COMPARED} digits of it with --root"
    )


def review(proposal: Proposal, directory: KeyDirectory, root: str | None, now_ms: int) -> Reviewed:
    """Look at a proposal as the person who shall sign it.

    Raises:
        ReleaseRefused: it may not follow what is published, or says it is something else than it is.
        ConfigError: see `known`.
    """
    base = known(proposal.base, directory, root)
    documents = proposal.parsed()
    if base is None:
        _require_first(directory, documents)
    after = unsigned(base, proposal.kind, documents, now_ms)
    found = changes(base, after)
    named = {*found.added, *found.removed, *found.revised}
    if named and named != {proposal.target}:
        raise ReleaseRefused("target", "the proposal says that it is about another release than it is")
    return Reviewed(base, documents, after, found)


def _require_first(directory: KeyDirectory, documents: Mapping[str, Metadata[Any]]) -> None:
    """Nobody who trusts a fleet is talked into the keys of another one, which would then be the one they trust."""
    pinned = directory.trusted_root()
    if pinned is None or ROOT not in documents:
        return
    if fingerprint(parse(ROOT, pinned)) != fingerprint(documents[ROOT]):
        raise ConfigError(
            f"{directory.person.holder} trusts a fleet already, and this would begin another one: keys for it lie "
            f"in a directory of their own (or the ceremony begins anew: then remove {directory.root_file})"
        )


def sign_everything(
    proposal: Proposal, reviewed: Reviewed, directory: KeyDirectory, passphrase: str
) -> tuple[Proposal, dict[str, list[str]]]:
    """Sign all metadata of a proposal for which the person's keys count.

    Returns:
        The proposal with their signatures, and the roles that they signed.

    Raises:
        ReleaseRefused: their keys count for nothing in it, or have signed already.
    """
    wanted = {
        keyid
        for role, document in reviewed.documents.items()
        for keyid in who_may_sign(role, reviewed.base, reviewed.documents)
        if keyid not in document.signatures
    }
    added = sign_with(directory.signers(passphrase, wanted), reviewed.base, reviewed.documents)
    if not added:
        raise ReleaseRefused(
            "nothing_to_sign", f"no key of {directory.person.holder} is needed here, or it has signed already"
        )
    if reviewed.base is None:
        directory.trust(as_bytes(reviewed.after.root))
    return proposal.with_documents(reviewed.documents), added


def sign_once(
    proposal: Proposal, reviewed: Reviewed, directory: KeyDirectory, passphrase: str
) -> tuple[Proposal, str]:
    """Sign a release's metadata with one key that has not signed, as its builder or its approver.

    Returns:
        The proposal with one signature more, and the id of the key.

    Raises:
        ReleaseRefused: the person has no such key, or has signed already and somebody else is to.
    """
    ((role, document),) = reviewed.documents.items()
    keys = who_may_sign(role, reviewed.base, reviewed.documents)
    mine = [key.keyid for key in directory.person.keys if key.keyid in keys]
    if not mine:
        names = ", ".join(sorted({holder_of(key) for key in keys.values()}))
        raise ReleaseRefused("wrong_key", f"no key here may sign {role}: those of {names} may")
    alone = len({holder_of(key) for key in keys.values()}) == 1
    signed = {holder_of(keys[keyid]) for keyid in document.signatures if keyid in keys}
    free = [keyid for keyid in mine if keyid not in document.signatures]
    if not free or (not alone and holder_of(keys[free[0]]) in signed):
        raise ReleaseRefused(
            "same_person", f"{directory.person.holder} has signed this already: somebody else approves it"
        )
    sign_with(directory.signers(passphrase, free[:1]), reviewed.base, reviewed.documents)
    return proposal.with_documents(reviewed.documents), free[0]
