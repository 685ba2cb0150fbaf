"""Why weights do not run as their manifest feeds them, and at which size they would."""

import re

from edge_runtime.errors import BackendError, PackageError
from edge_runtime.packages.package import ModelPackage
from edge_runtime.perception.backends import Backend
from edge_runtime.perception.detector import require_agreement
from edge_runtime.qualification.problem import Problem
from edge_runtime.qualification.sizes import ImageInput, SizeProbe, plausible_sizes

_LONGEST_REASON = 200
_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : | Status Message: .*"
    r"|\S+ does not load in onnxruntime: |Load model from \S+ failed:",
    re.DOTALL,
)
"""Codes and source locations of onnxruntime's messages, which tell a user nothing."""


def explain_failure(package: ModelPackage, reason: str) -> Problem:
    """What is wrong with weights that did not load, or failed in their first run.

    Args:
        package: opened.
        reason: what the runtime said.
    """
    spec = package.manifest.input
    declared = (spec.height, spec.width)
    shortened = brief(reason)
    try:
        with SizeProbe(package.weights, ImageInput.of(spec)) as probe:
            runs = probe.first(size for size in plausible_sizes() if size != declared)
    except (BackendError, PackageError, KeyError):
        return Problem("does-not-load", f"the weights cannot be used: {shortened}")
    if runs is None:
        return Problem("does-not-run", f"the weights run at no input size that was tried: {shortened}")
    return Problem(
        "declared-size-not-runnable",
        f"the graph cannot run at the declared {spec.width}x{spec.height}, but runs at {runs[1]}x{runs[0]}: "
        f"import the file again to have the declaration repaired ({shortened})",
    )


def brief(reason: str) -> str:
    """What the runtime said, without its codes and source locations."""
    plain = _NOISE.sub("", reason).strip()
    return plain if len(plain) <= _LONGEST_REASON else f"{plain[:_LONGEST_REASON]}…"


def explain_disagreement(package: ModelPackage, backend: Backend, error: PackageError) -> Problem:
    """What is wrong where manifest and graph describe different inputs or outputs."""
    manifest = package.manifest
    spec = manifest.input
    declared = next((tensor.shape for tensor in backend.inputs if tensor.name == spec.name), ())
    if len(declared) == 4:
        height, width = declared[2:] if spec.layout == "nchw" else declared[1:3]
        other = spec.model_copy(update={"height": height or spec.height, "width": width or spec.width})
        try:
            require_agreement(manifest.model_copy(update={"input": other}), backend.inputs)
        except PackageError:
            return Problem("manifest-and-graph-differ", str(error))
        if other != spec:
            return Problem(
                "declared-size-not-runnable",
                f"the manifest declares {spec.width}x{spec.height}, but the graph only takes {width}x{height}",
            )
    return Problem("manifest-and-graph-differ", str(error))
