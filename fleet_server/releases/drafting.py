"""Proposing a release or its revocation: the terms that a builder signs, and the metadata that says so."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from tuf.api.metadata import Metadata, TargetFile, Targets

from edge_runtime.errors import ConfigError
from edge_runtime.protocol.release import (
    BUCKETS,
    Bundle,
    Fit,
    Opening,
    ProbationTerms,
    ReleaseKind,
    ReleaseTerms,
    ShadowTerms,
    TrackerRule,
)
from fleet_server.releases.packing import Content
from fleet_server.releases.proposal import Proposal, ProposalKind, texts
from fleet_server.releases.repository import CUSTOM, RepositoryFile, Trusted, terms_of
from fleet_server.releases.roles import DAY_MS, RELEASE_ROLES, life_days, moment

EVERYBODY = (Opening(basis_points=BUCKETS),)
"""All devices at once, as far as a rollout lets them."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a builder asks for; the rest follows from the content and from the releases before.

    Attributes:
        counter: None for one more than the highest of its line.
        rollback_to: counters to which devices may be sent back; None for the release before, `()` for none.
        accepts_drop: why an accuracy below the release before is meant.
    """

    counter: int | None = None
    fit: Fit = field(default_factory=Fit)
    rollback_to: Sequence[int] | None = None
    openings: Sequence[Opening] = EVERYBODY
    shadow: ShadowTerms = field(default_factory=ShadowTerms)
    probation: ProbationTerms = field(default_factory=ProbationTerms)
    trackers: TrackerRule = TrackerRule.RESTART
    relabels: bool = False
    accepts_drop: str | None = None
    notes: str = ""
    salt: str = field(default_factory=lambda: secrets.token_hex(16))


def line(before: Trusted, kind: ReleaseKind, name: str) -> list[tuple[ReleaseTerms, str]]:
    """The releases of a name that are in the signed metadata, the highest counter first, each with its bundle."""
    found = [
        (terms_of(target), target.hashes["sha256"])
        for target in before.roles[kind.role].signed.targets.values()
    ]
    return sorted((one for one in found if one[0].name == name), key=lambda one: -one[0].counter)


def terms_for(file: RepositoryFile, before: Trusted, content: Content, wishes: Wishes) -> ReleaseTerms:
    """The terms of a new release.

    Args:
        file: as exported; says which counters were given, also to releases that were revoked.
        before: the same, verified.
        content: of the release.
        wishes: of its builder.

    Raises:
        ConfigError: a wish cannot be had; the text says which.
    """
    bundle, manifest = content.bundle, content.manifest
    earlier = line(before, bundle.kind, bundle.name)
    shas = {terms.counter: sha256 for terms, sha256 in earlier}
    back = (
        wishes.rollback_to if wishes.rollback_to is not None else [terms.counter for terms, _ in earlier[:1]]
    )
    given = file.counters.get(f"{bundle.kind.role}/{bundle.name}", 0)
    highest = max([given, *shas])
    counter = wishes.counter or highest + 1
    if counter <= highest:
        raise ConfigError(f"--counter {counter}: {bundle.name} had a release {highest} already")
    record: dict[str, Any] = {
        "kind": bundle.kind,
        "name": bundle.name,
        "counter": counter,
        "package": None if manifest is None else manifest.digest(),
        "labels": () if manifest is None else manifest.labels,
        "relabels": wishes.relabels,
        "licence": None if manifest is None else manifest.licence.spdx,
        "total_bytes": bundle.total_bytes,
        "fit": wishes.fit,
        "rollback_to": _back_to(back, shas, bundle.name, bundle.sha256),
        "salt": wishes.salt,
        "openings": tuple(wishes.openings),
        "shadow": wishes.shadow,
        "probation": wishes.probation,
        "trackers": wishes.trackers,
        "values": content.values,
        "accepts_drop": wishes.accepts_drop,
        "notes": wishes.notes,
    }
    return _valid(record)


def _back_to(counters: Sequence[int], shas: Mapping[int, str], name: str, own: str) -> tuple[str, ...]:
    """Bundles of releases of a line, but for the release's own."""
    unknown = [counter for counter in counters if counter not in shas]
    if unknown:
        raise ConfigError(f"--rollback-to {unknown[0]}: {name} has no release with this counter")
    return tuple(dict.fromkeys(shas[one] for one in counters if shas[one] != own))


def _valid(record: Mapping[str, Any]) -> ReleaseTerms:
    try:
        return ReleaseTerms.model_validate(record)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in found["loc"]) or "the terms"
        raise ConfigError(f"{where}: {found['msg']}") from None


def propose_release(
    file: RepositoryFile, before: Trusted, bundle: Bundle, terms: ReleaseTerms, now_ms: int
) -> Proposal:
    """The next metadata of a role, with one release more.

    Args:
        file: as exported.
        before: the same, verified.
        bundle: of the release.
        terms: of it.
        now_ms: from when on the metadata is good.
    """
    data = bundle.canonical_bytes()
    target = TargetFile.from_data(terms.target, data, ["sha256"])
    target.unrecognized_fields[CUSTOM] = terms.custom()
    document = _next(before, terms.kind.role, now_ms)
    document.signed.targets[terms.target] = target
    return Proposal(
        kind=ProposalKind.RELEASE,
        documents=texts({terms.kind.role: document}),
        bundle=data.decode(),
        target=terms.target,
        base=file,
    )


def propose_revocation(
    file: RepositoryFile, before: Trusted, target: str, *, reason: str, now_ms: int
) -> Proposal:
    """The next metadata of a role, with one release less.

    Args:
        file: as exported.
        before: the same, verified.
        target: path of the release.
        reason: why, for the audit.
        now_ms: from when on the metadata is good.

    Raises:
        ConfigError: there is no such release.
    """
    role, _ = _listed(before, target)
    document = _next(before, role, now_ms)
    del document.signed.targets[target]
    return Proposal(
        kind=ProposalKind.REVOCATION,
        documents=texts({role: document}),
        target=target,
        reason=reason,
        base=file,
    )


@dataclass(frozen=True, slots=True)
class Revision:
    """What other terms a release gets; None leaves a term as it is.

    Attributes:
        rollback_to: counters, as in `Wishes`.
    """

    fit: Fit | None = None
    rollback_to: Sequence[int] | None = None
    openings: Sequence[Opening] | None = None
    shadow: ShadowTerms | None = None
    probation: ProbationTerms | None = None
    trackers: TrackerRule | None = None
    notes: str | None = None


def propose_terms(
    file: RepositoryFile, before: Trusted, target: str, revision: Revision, *, reason: str, now_ms: int
) -> Proposal:
    """The next metadata of a role, with other terms of one release.

    Args:
        file: as exported.
        before: the same, verified.
        target: path of the release.
        revision: of its terms.
        reason: why, for the audit.
        now_ms: from when on the metadata is good.

    Raises:
        ConfigError: there is no such release, nothing would change, or a term cannot be had.
    """
    role, signed = _listed(before, target)
    old = terms_of(signed)
    changed: dict[str, Any] = {
        name: value
        for name in ("fit", "openings", "shadow", "probation", "trackers", "notes")
        if (value := getattr(revision, name)) is not None
    }
    if "openings" in changed:
        changed["openings"] = tuple(changed["openings"])
    if revision.rollback_to is not None:
        shas = {terms.counter: sha256 for terms, sha256 in line(before, old.kind, old.name)}
        changed["rollback_to"] = _back_to(revision.rollback_to, shas, old.name, signed.hashes["sha256"])
    record = {name: getattr(old, name) for name in ReleaseTerms.model_fields}
    if all(record[name] == value for name, value in changed.items()):
        raise ConfigError(f"the terms of {target} would stay as they are: say what is to be another")
    terms = _valid(record | changed | {"revision": old.revision + 1})
    document = _next(before, role, now_ms)
    target_file = TargetFile(signed.length, dict(signed.hashes), target)
    target_file.unrecognized_fields[CUSTOM] = terms.custom()
    document.signed.targets[target] = target_file
    return Proposal(
        kind=ProposalKind.TERMS, documents=texts({role: document}), target=target, reason=reason, base=file
    )


def _listed(before: Trusted, target: str) -> tuple[str, TargetFile]:
    """The role of a release that stands, and its target.

    Raises:
        ConfigError: there is no such release.
    """
    role = target.partition("/")[0]
    if role not in RELEASE_ROLES or target not in before.roles[role].signed.targets:
        raise ConfigError(f"there is no release {target}, or it is revoked already: fleet release list")
    return role, before.roles[role].signed.targets[target]


def _next(before: Trusted, role: str, now_ms: int) -> Metadata[Any]:
    signed = before.roles[role].signed
    end = moment(now_ms + life_days(role, before.holders(role)) * DAY_MS)
    return Metadata(Targets(version=signed.version + 1, expires=end, targets=dict(signed.targets)))
