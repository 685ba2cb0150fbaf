"""The floor of an imported package: quantised weights without a parent have nothing else to be measured against."""

from dataclasses import replace

from edge_runtime.authoring.findings import Finding, guess, sure
from edge_runtime.authoring.propose import Proposal
from edge_runtime.packages.manifest import AccuracyFloor

_FIELD = "accuracy_floor"


def with_floor(proposal: Proposal, minimum: float | None) -> Proposal:
    """The proposal with the floor that a person states, or with what is to be said about having none.

    Args:
        proposal: of an import.
        minimum: least mAP in 0..1; None keeps what the import proposes.
    """
    manifest = proposal.manifest
    if minimum is not None:
        floor = AccuracyFloor(metric="map", minimum=minimum)
        found = sure(_FIELD, f"mAP {minimum:g}", "stated by the person who imported the file")
        return replace(
            proposal,
            manifest=manifest.model_copy(update={_FIELD: floor}),
            findings=(*(entry for entry in proposal.findings if entry.field != _FIELD), found),
        )
    if manifest.quantisation == "none" or manifest.accuracy_floor is not None:
        return proposal
    return replace(proposal, findings=(*proposal.findings, _without_floor(manifest.quantisation)))


def _without_floor(quantisation: str) -> Finding:
    why = (
        f"the weights are {quantisation}, and nothing says what that cost: state the least mAP with --floor, and "
        "measure with `edge-runtime eval`"
    )
    return guess(_FIELD, "none", why)
