"""A package in 16 or 8 bits from one in 32, let through only if it is nearly as accurate.

The parent is measured, candidates are made and measured on the same pictures, and the first one that the gate
lets through is taken. For 8 bits each further candidate leaves more of the most sensitive layers alone; which
these are is told by the calibration pictures, never by those of the evaluation.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from edge_runtime.authoring.accuracy_gate import Verdict, judge, require_worthy
from edge_runtime.authoring.calibration import CalibrationSet, held_out
from edge_runtime.authoring.coco import CocoSet
from edge_runtime.authoring.evaluate import EvaluationReport, evaluate_package
from edge_runtime.authoring.half import halve
from edge_runtime.authoring.half_rounding import rounded
from edge_runtime.authoring.quantize_graph import head_layers, layers, left_alone, parse, require_symmetric
from edge_runtime.authoring.quantize_int8 import CalibrationMethod, quantise
from edge_runtime.authoring.quantize_sensitivity import layer_errors
from edge_runtime.errors import ConfigError, PackageError
from edge_runtime.packages.package import ModelPackage
from edge_runtime.packages.scratch import scratch_directory
from edge_runtime.perception.backends import TensorSpec, load_backend

Precision = Literal["int8", "fp16"]

_SHARES: Final = (0.0, 0.05, 0.1, 0.2)
"""Of the layers, the most sensitive ones that each candidate leaves alone. A layer in a hundred can cost all of
the accuracy (YOLOX-Nano: mAP .05 with all in 8 bits, .33 without the worst six of 113); beyond a fifth, 8 bits
are no longer worth it."""

_SENSITIVITY_PICTURES: Final = 8

Progress = Callable[[str, int, int], None]
"""Called with what is under way, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked for.

    Attributes:
        precision: `int8` or `fp16`.
        method: how 8-bit ranges are chosen.
        max_drop: mAP points that may be lost.
        leave: nodes that stay as they are, besides those that are found.
        classes: names to score; empty scores every category that has a box.
        threads: of the models that are run.
    """

    precision: Precision
    method: CalibrationMethod = "entropy"
    max_drop: float = 2.0
    leave: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What accuracy is measured on.

    Attributes:
        truth: ground truth.
        images: folder of the pictures.
        name: of the set.
    """

    truth: CocoSet
    images: Path
    name: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """Weights that were made.

    Attributes:
        weights: the ONNX file.
        left: nodes that compute as in the parent.
        tool: what made it.
        stand_in: what is measured beside it, because this machine does not compute it as a GPU does.
    """

    weights: bytes
    left: tuple[str, ...]
    tool: str
    stand_in: bytes | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate, what was measured, and what the gate decided."""

    candidate: Candidate
    report: EvaluationReport
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """All candidates that were tried; the last one was let through, or none was.

    Attributes:
        package: the parent.
        settings: what was asked for.
        calibration: the pictures.
        dataset: name of the set that was evaluated.
        parent: what the parent reached.
        attempts: in the order in which they were tried.
    """

    package: ModelPackage
    settings: Settings
    calibration: CalibrationSet
    dataset: str
    parent: EvaluationReport
    attempts: tuple[Attempt, ...]

    @property
    def accepted(self) -> Attempt | None:
        """What was let through."""
        last = self.attempts[-1]
        return last if last.verdict.refused is None else None

    @property
    def best(self) -> Attempt:
        """The accepted candidate, else the one that lost least."""
        return self.accepted or min(self.attempts, key=lambda attempt: attempt.verdict.drop)


def quantize_package(
    package: ModelPackage,
    calibration: CalibrationSet,
    evaluated: Evaluated,
    settings: Settings,
    progress: Progress = lambda _what, _done, _total: None,
) -> Outcome:
    """Make and measure candidates until one is let through.

    Args:
        package: in 32 bits.
        calibration: pictures to measure ranges on.
        evaluated: pictures to measure accuracy on; those of `calibration` are left out of them.
        settings: what is asked for.
        progress: told how far it got.

    Raises:
        PackageError: the parent is quantised already or unfit, or its graph cannot be converted.
        ConfigError: the pictures cannot be used, or `leave` names no node.
        BackendError: a graph does not run.
    """
    manifest = package.manifest
    if manifest.quantisation != "none":
        raise PackageError(
            f"{manifest.name} is {manifest.quantisation} already: quantise the 32-bit package that it was made from"
        )
    _require_nodes([node.name for node in parse(package.weights.read_bytes()).graph.node], settings.leave)
    truth = held_out(evaluated.truth, evaluated.images, calibration)

    def measure(weights: Path, what: str) -> EvaluationReport:
        backend = load_backend(weights, threads=settings.threads)
        try:
            return evaluate_package(
                package,
                backend,
                truth,
                evaluated.images,
                classes=settings.classes,
                progress=lambda done, total: progress(what, done, total),
            )
        finally:
            backend.close()

    parent = measure(package.weights, "measuring the parent")
    require_worthy(manifest.name, parent, manifest.accuracy_floor, settings.max_drop)
    attempts: list[Attempt] = []
    with scratch_directory("quantize") as scratch:
        for number, candidate in enumerate(_candidates(package, calibration, settings, progress), start=1):
            what = f"measuring candidate {number}"
            reports = []
            for weights in filter(None, (candidate.weights, candidate.stand_in)):
                path = scratch / "candidate.onnx"
                path.write_bytes(weights)
                reports.append(measure(path, what))
            report = min(reports, key=lambda report: report.precision.mean)
            verdict = judge(parent, report, settings.max_drop, manifest.accuracy_floor)
            attempts.append(Attempt(candidate, report, verdict))
            if verdict.refused is None:
                break
    return Outcome(package, settings, calibration, evaluated.name, parent, tuple(attempts))


def _candidates(
    package: ModelPackage, calibration: CalibrationSet, settings: Settings, progress: Progress
) -> Iterator[Candidate]:
    if settings.precision == "fp16":
        yield _in_16_bits(package, calibration, settings)
    else:
        yield from _in_8_bits(package, calibration, settings, progress)


def _in_16_bits(package: ModelPackage, calibration: CalibrationSet, settings: Settings) -> Candidate:
    feeds = calibration.feeds(package.manifest.input, _inputs(package))
    halved = halve(package.weights.read_bytes(), feeds, settings.leave, settings.threads)
    left = tuple(node.name for node in halved.parent.graph.node if node.name in halved.wide)
    stand_in = rounded(halved.parent, halved.wide).SerializeToString()
    return Candidate(halved.model.SerializeToString(), left, halved.tool, stand_in)


def _in_8_bits(
    package: ModelPackage, calibration: CalibrationSet, settings: Settings, progress: Progress
) -> Iterator[Candidate]:
    spec, inputs, total = package.manifest.input, _inputs(package), len(calibration.images)
    quantised = quantise(
        package.weights.read_bytes(),
        calibration.feeds(spec, inputs),
        settings.method,
        lambda done: progress("calibrating", done, total),
    )
    known = layers(quantised.parent)
    _require_nodes(known, settings.leave)
    kept = {*head_layers(quantised.parent), *settings.leave}
    some = calibration.feeds(spec, inputs, _SENSITIVITY_PICTURES)
    sensitive = [name for name in layer_errors(quantised, some, settings.threads) if name not in kept]
    if not sensitive:
        raise PackageError(
            f"{package.manifest.name} has no convolution or matrix product between its input and its head: "
            "there is nothing to quantise"
        )
    for count in dict.fromkeys(math.ceil(share * len(known)) for share in _SHARES):
        if count >= len(sensitive):
            return
        names = kept | set(sensitive[:count])
        model = left_alone(quantised.model, quantised.parent, names)
        require_symmetric(model)
        left = tuple(name for name in known if name in names)
        yield Candidate(model.SerializeToString(), left, quantised.tool)


def _inputs(package: ModelPackage) -> Sequence[TensorSpec]:
    backend = load_backend(package.weights)
    try:
        return backend.inputs
    finally:
        backend.close()


def _require_nodes(known: Collection[str], wanted: Collection[str]) -> None:
    unknown = [name for name in wanted if name not in known]
    if unknown:
        some = ", ".join(list(known)[:3])
        raise ConfigError(f"--leave {unknown[0]}: the graph has no such layer; it has {some} and others")
