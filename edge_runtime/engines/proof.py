"""Proves a model that was just loaded: it must answer as its author's did before anybody relies on it."""

from typing import Final

from edge_runtime.engines.errors import EngineDisagrees
from edge_runtime.errors import DecodeError
from edge_runtime.perception.backends import PROVING_TIMEOUT_S
from edge_runtime.perception.model import LoadedModel
from edge_runtime.qualification.agreement import TOLERANCES, Precision, unmatched
from edge_runtime.qualification.golden_check import computed_problems
from edge_runtime.qualification.outputs import nonfinite_outputs
from edge_runtime.qualification.recognition import scenes_for
from edge_runtime.qualification.scenes import scene
from edge_runtime.qualification.subject import Subject

DISAGREES: Final = "the engine does not answer as the package's author measured"
"""Begins the reason of an engine that is not tried again."""

_SHOWN: Final = "street"

_LOST: Final = 0.25
"""Share of detections that rounding near the threshold may lose."""


def prove(model: LoadedModel, precision: Precision) -> None:
    """Compare what a model answers here with its package's golden vectors.

    Without golden vectors a picture is shown, and the answer must be numbers.

    Args:
        model: loaded.
        precision: in which it computes.

    Raises:
        EngineDisagrees: it answers otherwise; the text names the vector and the output.
        BackendError: a run failed.
        PackageError: a vector cannot be read.
    """
    subject = Subject(model.package, model.backend)
    try:
        problems = [
            problem for problem in computed_problems(subject, precision) if problem.severity == "error"
        ]
        if not model.manifest.golden:
            outputs, _ = subject.show(scene(_SHOWN).image)
            problems += [
                problem for problem in nonfinite_outputs(outputs, _SHOWN) if problem.severity == "error"
            ]
    except DecodeError as error:
        raise EngineDisagrees(f"{DISAGREES}: {error}") from error
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise EngineDisagrees(f"{DISAGREES}: {problems[0].text}{more}")


def preparation_differs(model: LoadedModel) -> str | None:
    """Why pictures must be prepared on the CPU; None where the GPU leads to the same detections, or is not asked.

    The kernel is compiled on the device, for a GPU that nobody may have seen it on.

    Raises:
        BackendError: a run failed.
        DecodeError: the outputs do not have the layout of the manifest's head.
    """
    if model.backend.facts.preparation != "gpu":
        return None
    subject = Subject(model.package, model.backend)
    tolerance, score = TOLERANCES["int8"], model.manifest.thresholds.score
    seen = lost = 0
    for shown in scenes_for(model.manifest.labels) or [scene(_SHOWN)]:
        outputs, geometry = subject.show(shown.image)
        by_cpu = subject.read(outputs, geometry, score)
        picture = model.preprocessor.allocate(1)
        there = model.preprocessor.fill(shown.image, picture, 0, None)
        results = model.backend.infer(model.feeds(picture, 1), PROVING_TIMEOUT_S)
        named = {spec.name: result for spec, result in zip(model.backend.outputs, results, strict=True)}
        by_gpu = subject.read(named, there, max(score - tolerance.score, 0.0))
        seen, lost = seen + len(by_cpu), lost + len(unmatched(by_cpu, by_gpu, tolerance))
    if lost <= _LOST * seen:
        return None
    return f"pictures are prepared on the CPU: prepared on the GPU, {lost} of {seen} objects are not found"
