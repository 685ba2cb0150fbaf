"""Whether a proposal may follow what is published: versions, signatures, and what it may change at all. Pure.

The server asks this about every proposal, and so does everybody who signs one. Nobody who is asked to sign should
have to trust the one who asks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuf.api.metadata import DelegatedRole, Metadata, Root, TargetFile, Targets

from edge_runtime.protocol.release import MAX_BUNDLE_BYTES, REVISABLE, ReleaseTerms
from fleet_server.releases.people import holder_of
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.proposal import ProposalKind
from fleet_server.releases.repository import CUSTOM, Trusted, as_bytes, terms_of, vouch
from fleet_server.releases.roles import (
    DIRECTOR,
    FULL_BYTES,
    MOST_ROOTS,
    OFFLINE_ROLES,
    PATHS,
    RELEASE_ROLES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    THRESHOLD,
    TIMESTAMP,
    milliseconds,
)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a proposal does to the releases; `revised` has the new terms of those that get others."""

    added: Mapping[str, TargetFile]
    removed: Mapping[str, TargetFile]
    revised: Mapping[str, TargetFile]


def judge(
    before: Trusted | None, kind: ProposalKind, documents: Mapping[str, Metadata[Any]], now_ms: int
) -> Trusted:
    """The repository as it would be.

    Args:
        before: what is published; None before the ceremony.
        kind: what the proposal says that it is.
        documents: its metadata by role.
        now_ms: the time, for what has run out.

    Raises:
        ReleaseRefused: it does not follow, is not signed by enough people, or changes what its kind may not.
    """
    after = unsigned(before, kind, documents, now_ms)
    if before is None:
        vouch(after.root, ROOT, after.root)
    elif ROOT in documents:
        vouch(before.root, ROOT, after.root)
        vouch(after.root, ROOT, after.root)
    vouch(after.root, TARGETS, after.targets)
    for role in RELEASE_ROLES:
        vouch(after.targets, role, after.roles[role])
        if role in documents:
            require_apart(after, role)
    return after


def unsigned(
    before: Trusted | None, kind: ProposalKind, documents: Mapping[str, Metadata[Any]], now_ms: int
) -> Trusted:
    """As `judge`, for a proposal that is still being signed: everything but the signatures is looked at.

    Raises:
        ReleaseRefused: see `judge`.
    """
    _require_steps(before, documents, now_ms)
    after = _joined(before, documents)
    for role in RELEASE_ROLES:
        if after.roles[role].signed.delegations is not None:
            raise ReleaseRefused("targets", f"{role} must not delegate further")
    if kind is ProposalKind.KEYS:
        _require_form(after)
    elif set(documents) - set(RELEASE_ROLES) or len(documents) != 1:
        raise ReleaseRefused(
            "kind", f"a {kind.value} changes one of {', '.join(RELEASE_ROLES)} and nothing else"
        )
    found = changes(before, after)
    counts = (len(found.added), len(found.removed), len(found.revised))
    if counts != (wanted := _COUNTS[kind]):
        raise ReleaseRefused(
            "kind", f"a proposal of {kind.value} {_counted(wanted)} releases; this one {_counted(counts)}"
        )
    for target in found.added.values():
        require_target(target)
    for path in found.added:
        _require_room(path, after)
    return after


_COUNTS = {
    ProposalKind.KEYS: (0, 0, 0),
    ProposalKind.RELEASE: (1, 0, 0),
    ProposalKind.REVOCATION: (0, 1, 0),
    ProposalKind.TERMS: (0, 0, 1),
}


def _counted(counts: tuple[int, int, int]) -> str:
    return f"adds {counts[0]}, takes out {counts[1]} and gives other terms to {counts[2]}"


def _require_room(path: str, after: Trusted) -> None:
    role = path.partition("/")[0]
    length, count = len(as_bytes(after.document(role))), len(after.document(role).signed.targets)
    if length > FULL_BYTES:
        raise ReleaseRefused(
            "full",
            f"the metadata of {role} would have {length} bytes with {count} releases, and {FULL_BYTES} are what a "
            "device verifies in time: revoke releases that nothing runs and nothing goes back to",
        )


def changes(before: Trusted | None, after: Trusted) -> Changes:
    """What is new, what is gone, and what has other terms.

    Raises:
        ReleaseRefused: a release that stays is another one than before.
    """
    old, new = {} if before is None else before.releases(), after.releases()
    revised = {path for path in old.keys() & new.keys() if old[path].to_dict() != new[path].to_dict()}
    for path in revised:
        require_revision(old[path], new[path])
    return Changes(
        {path: new[path] for path in new.keys() - old.keys()},
        {path: old[path] for path in old.keys() - new.keys()},
        {path: new[path] for path in revised},
    )


def require_revision(old: TargetFile, new: TargetFile) -> ReleaseTerms:
    """The terms that take the place of others of the same release.

    That the older ones are not taken again needs nothing here: a device never goes back to metadata of a lower
    version.

    Raises:
        ReleaseRefused: its content would be another, or what is no term to be revised.
    """
    before, after = terms_of(old), require_target(new)
    plain = {name: value for name, value in new.to_dict().items() if name != CUSTOM}
    kept = {name: value for name, value in old.to_dict().items() if name != CUSTOM}
    fixed = ReleaseTerms.model_fields.keys() - REVISABLE - {"revision"}
    other = sorted(name for name in fixed if getattr(before, name) != getattr(after, name))
    if plain != kept or other:
        raise ReleaseRefused(
            "changed",
            f"{new.path} would be changed ({', '.join(other) or 'its content'}): a release stays as it was signed; "
            "publish a higher counter",
        )
    if after.revision != before.revision + 1:
        raise ReleaseRefused(
            "revision",
            f"{new.path} has terms of revision {before.revision}, and these are of revision {after.revision}: "
            "export the repository again and revise those",
        )
    return after


def require_target(target: TargetFile) -> ReleaseTerms:
    """The terms of a target whose form is as devices expect it.

    Raises:
        ReleaseRefused: it is not.
    """
    terms = terms_of(target)
    digest = target.hashes.get("sha256", "")
    if set(target.hashes) != {"sha256"} or len(digest) != 64 or not 1 <= target.length <= MAX_BUNDLE_BYTES:
        raise ReleaseRefused(
            "target", f"{target.path} needs a sha256 alone, and at most {MAX_BUNDLE_BYTES} bytes"
        )
    return terms


def require_apart(after: Trusted, role: str) -> None:
    """Refuse two signatures of one person, where the keys of the role are of several.

    Raises:
        ReleaseRefused: builder and approver are the same person.
    """
    keys = after.keys(role)
    signed = [holder_of(keys[keyid]) for keyid in after.roles[role].signatures if keyid in keys]
    if len(after.holders(role)) > 1 and len(set(signed)) < THRESHOLD:
        raise ReleaseRefused(
            "same_person", f"{role} is signed by {signed[0]} alone: somebody else approves it"
        )


def _require_steps(before: Trusted | None, documents: Mapping[str, Metadata[Any]], now_ms: int) -> None:
    for role, document in documents.items():
        there = 0 if before is None else before.version(role)
        if document.signed.version != there + 1:
            raise ReleaseRefused("conflict", _conflict(role, document.signed.version, there))
        if milliseconds(document.signed.expires) <= now_ms:
            text = f"version {document.signed.version} of {role} has run out: sign it anew"
            raise ReleaseRefused("expired", text)


def _conflict(role: str, version: int, there: int) -> str:
    if version <= there:
        return (
            f"this was made on version {version - 1} of {role}, and version {there} has been published since: "
            "export the repository again and sign it anew"
        )
    return f"this is version {version} of {role}, and version {there} is published: one before it is missing"


def _joined(before: Trusted | None, documents: Mapping[str, Metadata[Any]]) -> Trusted:
    if before is None:
        absent = [role for role in OFFLINE_ROLES if role not in documents]
        if absent:
            raise ReleaseRefused(
                "no_repository",
                f"there is no repository yet, and this does not begin one ({', '.join(absent)} missing): "
                "fleet keys begin does",
            )
        return Trusted(documents[ROOT], documents[TARGETS], {role: documents[role] for role in RELEASE_ROLES})
    return Trusted(
        documents.get(ROOT, before.root),
        documents.get(TARGETS, before.targets),
        {role: documents.get(role, before.roles[role]) for role in RELEASE_ROLES},
    )


def _require_form(after: Trusted) -> None:
    """Root and targets are as this fleet's devices and server understand them."""
    root: Root = after.root.signed
    if root.version > MOST_ROOTS:
        raise ReleaseRefused("root", f"a device follows at most {MOST_ROOTS} roots from the first")
    if not root.consistent_snapshot:
        raise ReleaseRefused("root", "the root must have consistent snapshots")
    for name in (ROOT, TARGETS):
        _require_threshold(name, root.roles[name].threshold, root.roles[name].keyids)
    for name in (SNAPSHOT, TIMESTAMP):
        _require_ours(name, root.roles[name].threshold, root.roles[name].keyids)
    _require_delegations(after.targets.signed)


def _require_delegations(targets: Targets) -> None:
    if targets.targets:
        raise ReleaseRefused("targets", "the top-level targets delegate, and name no release themselves")
    delegations = targets.delegations
    roles: Mapping[str, DelegatedRole] = {} if delegations is None else (delegations.roles or {})
    if list(roles) != list(PATHS):
        raise ReleaseRefused("targets", f"the targets delegate to {', '.join(PATHS)}, in this order")
    for name, role in roles.items():
        if role.paths != PATHS[name] or not role.terminating:
            raise ReleaseRefused("targets", f"{name} speaks for {', '.join(PATHS[name])} and ends the search")
        if name == DIRECTOR:
            _require_ours(name, role.threshold, role.keyids)
        else:
            _require_threshold(name, role.threshold, role.keyids)


def _require_ours(role: str, threshold: int, keyids: list[str]) -> None:
    if threshold != 1 or len(keyids) != 1:
        raise ReleaseRefused("online_keys", f"{role} is signed by one key, the server's")


def _require_threshold(role: str, threshold: int, keyids: list[str]) -> None:
    if threshold != THRESHOLD or len(keyids) < THRESHOLD:
        raise ReleaseRefused("threshold", f"{role} needs {THRESHOLD} signatures of at least as many keys")
