"""Whether a release is fit to be published, by what it says of itself and of the one before it. Pure.

What two people signed may still be wrong: these are the mistakes that a signature does not stop.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edge_runtime.packages.manifest import PERMISSIVE_LICENCES, Evaluation, ModelManifest
from edge_runtime.protocol.release import Bundle, ReleaseTerms
from edge_runtime.protocol.release_values import Declared
from fleet_server.releases.problems import ReleaseRefused


@dataclass(frozen=True, slots=True)
class Rules:
    """What this server takes.

    Attributes:
        licences: SPDX ids beyond the permissive ones, which a person responsible for the fleet accepted.
        max_drop: accuracy that a release may lose against the one before, in points (hundredths), where its
            package does not state a bound of its own.
    """

    licences: Collection[str] = ()
    max_drop: float = 0.5


@dataclass(frozen=True, slots=True)
class Before:
    """The release before, of the same name.

    Attributes:
        evaluation: of its package.
    """

    terms: ReleaseTerms
    evaluation: Sequence[Evaluation]


def require_bundle(terms: ReleaseTerms, bundle: Bundle) -> None:
    """Refuse a bundle that is not what the terms are about.

    Raises:
        ReleaseRefused: another kind, name or size.
    """
    if (bundle.kind, bundle.name, bundle.total_bytes) != (terms.kind, terms.name, terms.total_bytes):
        raise ReleaseRefused(
            "bundle", f"the bundle of {terms.target} is of another kind, name or size than its terms"
        )


def require_values(terms: ReleaseTerms, declared: Declared) -> None:
    """Refuse terms whose values are not those that the release's own overlay declares.

    Raises:
        ReleaseRefused: they are others.
    """
    if terms.values != declared:
        raise ReleaseRefused(
            "values",
            f"the values in the terms of {terms.target} are not those that its overlay.yaml declares",
        )


def require_model(terms: ReleaseTerms, manifest: ModelManifest, before: Before | None, rules: Rules) -> None:
    """Refuse a model that should not go to a fleet.

    Args:
        terms: as signed.
        manifest: of the package in the release.
        before: the release that it follows; None for the first.
        rules: of this server.

    Raises:
        ReleaseRefused: with what to do about it.
    """
    if manifest.digest() != terms.package:
        raise ReleaseRefused(
            "package",
            f"the package of {terms.target} is {manifest.digest()}, and its terms are of {terms.package}",
        )
    if tuple(manifest.labels) != tuple(terms.labels):
        raise ReleaseRefused("labels", f"the labels of {terms.target} are not those of its package")
    _require_licence(terms, manifest, rules)
    require_ready(terms, manifest, None if before is None else before.terms)
    if before is not None:
        _require_accuracy(terms, manifest, before, rules)


def require_ready(terms: ReleaseTerms, manifest: ModelManifest, before: ReleaseTerms | None) -> None:
    """The part of `require_model` that a builder's machine can know: it would be refused after the approval else.

    Args:
        terms: about to be signed.
        manifest: of the package in the release.
        before: terms of the release that it follows; None for the first.

    Raises:
        ReleaseRefused: never evaluated, no golden vectors, below its own floor, or other labels than before.
    """
    _require_measured(terms, manifest)
    if before is not None and tuple(before.labels) != tuple(terms.labels) and not terms.relabels:
        raise ReleaseRefused(
            "labels",
            f"release {terms.counter} of {terms.name} has other labels than release {before.counter}: rules and "
            "policies name labels; sign it with --relabels if that is meant",
        )


def _require_licence(terms: ReleaseTerms, manifest: ModelManifest, rules: Rules) -> None:
    spdx = manifest.licence.spdx
    if spdx != terms.licence:
        raise ReleaseRefused("licence", f"the package is under {spdx}, and its terms say {terms.licence}")
    if spdx not in PERMISSIVE_LICENCES and spdx not in rules.licences:
        raise ReleaseRefused(
            "licence",
            f"the licence {spdx} is not on this server's list: whoever answers for the fleet adds it to "
            "releases.licences in settings.toml",
        )


def _require_measured(terms: ReleaseTerms, manifest: ModelManifest) -> None:
    if not manifest.evaluation:
        raise ReleaseRefused(
            "evaluation",
            f"the package of {terms.name} was never evaluated: edge-runtime eval --record measures it",
        )
    if not manifest.golden:
        raise ReleaseRefused(
            "golden_vectors",
            f"the package of {terms.name} has no golden vectors: edge-runtime model import makes them",
        )
    floor = manifest.accuracy_floor
    for found in manifest.evaluation:
        if floor is not None and found.metric == floor.metric and found.value < floor.minimum:
            raise ReleaseRefused(
                "accuracy",
                f"{found.metric} {found.value:g} is below the package's own floor {floor.minimum:g}",
            )


def _require_accuracy(terms: ReleaseTerms, manifest: ModelManifest, before: Before, rules: Rules) -> None:
    if terms.accepts_drop is not None:
        return
    derived = manifest.derivation
    bound = rules.max_drop
    if derived is not None and derived.parent == before.terms.package:
        bound = derived.measured.max_drop
    earlier = {(one.dataset, one.metric, one.classes): one.value for one in before.evaluation}
    pairs = [
        (one, earlier[one.dataset, one.metric, one.classes])
        for one in manifest.evaluation
        if (one.dataset, one.metric, one.classes) in earlier
    ]
    if not pairs:
        raise ReleaseRefused(
            "accuracy",
            f"release {terms.counter} was measured on nothing that release {before.terms.counter} was measured on, "
            "so nobody knows whether it is worse: evaluate it on the same data, or sign with --accept-drop REASON",
        )
    for one, value in pairs:
        drop = (value - one.value) * 100
        if drop > bound + 1e-9:
            raise ReleaseRefused(
                "accuracy",
                f"{one.metric} on {one.dataset} fell by {drop:.2f} points against release {before.terms.counter}, "
                f"more than the {bound:g} that are allowed: sign it with --accept-drop REASON if that is meant",
            )
