"""`CARD.md`: the package for people, with everything that was guessed."""

from collections.abc import Sequence

from edge_runtime.authoring.findings import Confidence, Finding
from edge_runtime.authoring.labels import summary
from edge_runtime.packages.manifest import Derivation, ModelManifest


def card(manifest: ModelManifest, findings: Sequence[Finding]) -> str:
    """Markdown for a package.

    Args:
        manifest: of the package.
        findings: of the import; guesses, repairs and defects are listed.
    """
    spec, weights = manifest.input, manifest.weights
    size = f"{spec.width}x{spec.height}"
    others = f" or other multiples of {spec.stride}" if spec.dynamic else ""
    lines = [
        f"# {manifest.name}",
        "",
        f"A detector of {summary(manifest.labels)}.",
        "",
        f"- Weights: `{weights.file}`, {weights.bytes} bytes, sha256 `{weights.sha256}`",
        f"- From: {weights.source}",
        f"- Licence: {manifest.licence.spdx} ({manifest.licence.evidence})",
        f"- Released: {manifest.released}",
        f"- Input: {size}{others}, {spec.color.upper()}, {spec.resize}, batches of up to {spec.batch}",
        f"- Head: {manifest.head.family}, NMS {manifest.head.nms} the graph",
        f"- Quantisation: {manifest.quantisation}",
    ]
    if manifest.derivation is not None:
        lines += _quantised(manifest.derivation)
    if weights.repairs:
        lines += ["", "## Repaired on import", "", *(f"- {repair}" for repair in weights.repairs)]
    for title, confidence in (("Guessed on import", Confidence.GUESS), ("Defects", Confidence.DEFECT)):
        listed = [found for found in findings if found.confidence is confidence]
        if listed:
            lines += ["", f"## {title}", "", *(f"- `{f.field}` = {f.value}: {f.why}" for f in listed)]
    lines += ["", "`edge-runtime model check` says whether the package is fit on this machine.", ""]
    return "\n".join(lines)


def _quantised(derivation: Derivation) -> list[str]:
    measured, calibration = derivation.measured, derivation.calibration
    left = f"{len(derivation.left)} ({', '.join(derivation.left)})" if derivation.left else "none"
    pictures = f"{calibration.images} pictures ({calibration.method}), list `sha256:{calibration.sha256}`"
    figures = f"mAP {measured.child:.4f}, its parent {measured.parent:.4f}"
    return [
        "",
        "## Quantised",
        "",
        f"- From the package `{derivation.parent}`, by {derivation.tool}",
        f"- Calibrated with {pictures}",
        f"- Left as they were: {left}",
        f"- {figures}, on {measured.images} pictures of {measured.dataset}; bound {measured.max_drop:g} points",
    ]
