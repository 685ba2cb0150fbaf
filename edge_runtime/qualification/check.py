"""Is a package fit for this machine? Runs it, compares it with its golden vectors, shows it known scenes.

The check trusts nothing that it can measure: that the weights load, run at the declared size and take what the
manifest feeds; that outputs are finite, depend on the picture and agree with the author's; that the head's
classes are as many as the labels; that drawn objects are recognised under their own names.
"""

from collections.abc import Iterator
from typing import Final

from edge_runtime.errors import BackendError, ConfigError, DecodeError, PackageError
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.packages.package import ModelPackage
from edge_runtime.perception.backends import Backend, InferenceTimeout, load_backend
from edge_runtime.qualification.eyesight import head_problems, sight_problems
from edge_runtime.qualification.golden_check import golden_problems
from edge_runtime.qualification.outputs import constant_outputs, nonfinite_outputs
from edge_runtime.qualification.problem import CheckReport, Problem
from edge_runtime.qualification.runnable import explain_disagreement, explain_failure
from edge_runtime.qualification.scenes import scene
from edge_runtime.qualification.subject import Subject

_SHOWN: Final = ("street", "walkers", "portraits")
"""Scenes that tell a constant output; they have little in common."""


def check_package(package: ModelPackage) -> CheckReport:
    """Check an opened package; its files' digests were verified by opening it.

    Returns:
        Every problem found, errors first; what is wrong with the model is a problem, not an exception.

    Raises:
        MissingDependency: onnxruntime is not installed.
    """
    problems = [*_documents(package.manifest), *_accuracy(package.manifest)]
    try:
        backend = load_backend(package.weights)
    except BackendError as error:
        problems.append(_failure(package, error))
    else:
        try:
            problems += _examine(package, backend)
        finally:
            backend.close()
    problems.sort(key=lambda problem: problem.severity != "error")  # stable
    return CheckReport(package.manifest.name, package.digest, tuple(problems))


def _documents(manifest: ModelManifest) -> Iterator[Problem]:
    licence = manifest.licence
    if not licence.permissive:
        known = "not known" if licence.spdx == "NOASSERTION" else licence.spdx
        yield Problem(
            "licence",
            f"the licence is {known}: it runs only after a person accepts {licence.spdx}",
            "warning",
        )
    if manifest.weights.repairs:
        yield Problem("repaired", f"repaired on import: {'; '.join(manifest.weights.repairs)}", "warning")
    if not manifest.golden:
        yield Problem("no-golden", "there are no golden vectors to compare this machine with", "warning")
    twice = sorted({name for name in manifest.labels if manifest.labels.count(name) > 1})
    if twice:
        yield Problem("duplicate-label", f"the label {twice[0]} occurs more than once", "warning")


def _accuracy(manifest: ModelManifest) -> Iterator[Problem]:
    floor = manifest.accuracy_floor
    for entry in manifest.evaluation:
        if floor is not None and entry.metric == floor.metric and entry.value < floor.minimum:
            yield Problem(
                "below-accuracy-floor",
                f"{entry.metric} {entry.value:.3f} on {entry.dataset} is below the floor of {floor.minimum:g}",
            )
    if manifest.quantisation == "none" or manifest.derivation is not None:
        return
    # what was quantised elsewhere has no parent to be compared with: only a floor tells it from ruin
    if floor is None:
        yield Problem(
            "no-accuracy-floor",
            f"the weights are {manifest.quantisation}, and neither a parent nor a floor says what that may cost: "
            "import them anew with --floor",
        )
    elif not any(entry.metric == floor.metric for entry in manifest.evaluation):
        yield Problem(
            "not-measured",
            f"the weights are {manifest.quantisation}, and nobody measured whether they reach the floor of "
            f"{floor.minimum:g}: `edge-runtime eval --record` does",
            "warning",
        )


def _examine(package: ModelPackage, backend: Backend) -> list[Problem]:
    try:
        subject = Subject(package, backend)
    except PackageError as error:
        return [explain_disagreement(package, backend, error)]
    except ConfigError as error:
        return [Problem("manifest-contradicts-itself", str(error))]
    try:
        return _measure(subject)
    except BackendError as error:
        return [_failure(package, error)]
    except PackageError as error:
        return [Problem("missing-output", str(error))]
    except DecodeError as error:
        return [Problem("manifest-contradicts-itself", str(error))]


def _failure(package: ModelPackage, error: BackendError) -> Problem:
    if isinstance(error, InferenceTimeout):  # trying other sizes would only take as long again
        return Problem("does-not-answer", str(error))
    return explain_failure(package, str(error))


def _measure(subject: Subject) -> list[Problem]:
    """Show the model pictures, and judge: outputs first, since nothing that broken ones say is worth reading."""
    runs = [subject.show(scene(name).image) for name in _SHOWN]
    problems = list(nonfinite_outputs(runs[0][0], _SHOWN[0]))
    finished = subject.manifest.head.nms == "inside"
    problems += constant_outputs([outputs for outputs, _ in runs], finished=finished)
    if any(problem.severity == "error" for problem in problems):
        return problems
    unreadable = list(head_problems(subject, runs))
    if unreadable:
        return problems + unreadable
    return [*problems, *sight_problems(subject), *golden_problems(subject)]
