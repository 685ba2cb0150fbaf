"""Compares this machine with the author's golden vectors: preparing, computing, and reading the outputs."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.packages.manifest import GoldenVector
from edge_runtime.perception.backends import Tensor
from edge_runtime.qualification.agreement import PRECISIONS, TOLERANCES, Precision, disagreement, unmatched
from edge_runtime.qualification.golden import Golden, read_golden
from edge_runtime.qualification.outputs import nonfinite_outputs
from edge_runtime.qualification.problem import Problem
from edge_runtime.qualification.subject import Subject

_LOST: Final = 0.25
"""Share of the author's detections that rounding near the threshold may lose; another model loses more."""


def golden_problems(subject: Subject) -> Iterator[Problem]:
    """Every difference from the package's golden vectors."""
    precision = PRECISIONS[subject.manifest.quantisation]
    for vector in subject.manifest.golden:
        where = f"golden vector {vector.name}"
        try:
            golden = read_golden(subject.package.file(vector.inputs), subject.package.file(vector.outputs))
            yield from _prepared(subject, golden, where)
            yield from _computed(subject, vector, golden, where, precision)
        except EdgeRuntimeError as error:
            yield Problem("golden-unusable", f"{where}: {error}")


def computed_problems(subject: Subject, precision: Precision) -> Iterator[Problem]:
    """Every difference from the package's golden vectors in what a backend computes from the recorded tensors.

    Args:
        subject: the package on that backend.
        precision: in which it computes, which may be less than that of the weights.

    Raises:
        BackendError: a run failed.
        PackageError: a vector cannot be read.
        DecodeError: the outputs do not have the layout of the manifest's head.
    """
    for vector in subject.manifest.golden:
        golden = read_golden(subject.package.file(vector.inputs), subject.package.file(vector.outputs))
        yield from _computed(subject, vector, golden, f"golden vector {vector.name}", precision)


def _prepared(subject: Subject, golden: Golden, where: str) -> Iterator[Problem]:
    """Does this machine make the recorded tensor from the recorded picture?"""
    recorded = golden.inputs.get(subject.manifest.input.name)
    if golden.picture is None or recorded is None:
        return
    tensor, _ = subject.prepare(golden.picture)
    if tensor.shape != recorded.shape:
        shapes = f"{_shape(tensor)} instead of {_shape(recorded)}"
        yield Problem("preprocessing-differs", f"{where}: the picture becomes {shapes}")
        return
    if _close(tensor, recorded):
        return
    if _close(np.flip(tensor, 1 if subject.manifest.input.layout == "nchw" else 3), recorded):
        what = "red and blue are exchanged, so input.color is not what the author used"
        yield Problem("color-order", f"{where}: the picture becomes another tensor: {what}")
    else:
        what = "colour order, scale, mean or resizing are not what the author used"
        yield Problem("preprocessing-differs", f"{where}: the picture becomes another tensor: {what}")


def _computed(
    subject: Subject, vector: GoldenVector, golden: Golden, where: str, precision: Precision
) -> Iterator[Problem]:
    """Does this machine compute the recorded outputs from the recorded tensor, and find the same in them?"""
    outputs = subject.run(golden.inputs)
    problems = list(nonfinite_outputs(outputs, vector.name))
    problems += [
        Problem("missing-output", f"{where}: the graph has no output {name}")
        for name in golden.outputs
        if name not in outputs
    ]
    # Finished rows of nearly equal scores may swap places: there only the detections are compared.
    if not problems and subject.manifest.head.nms == "outside":
        problems += _values(vector, golden, outputs, where, precision)
    yield from problems or _found(subject, golden, outputs, where, precision)


def _values(
    vector: GoldenVector, golden: Golden, outputs: Mapping[str, Tensor], where: str, precision: Precision
) -> Iterator[Problem]:
    atol, rtol = vector.atol.get(precision), vector.rtol.get(precision)
    if atol is None or rtol is None:
        yield Problem("no-tolerance", f"{where}: there is no tolerance for {precision}", "warning")
        return
    for name, sample in golden.outputs.items():
        if outputs[name].shape != sample.shape:
            shapes = f"{_shape(outputs[name])} instead of {'x'.join(map(str, sample.shape))}"
            yield Problem("golden-differs", f"{where}: output {name} is {shapes}")
            continue
        share = disagreement(sample, outputs[name], atol=atol, rtol=rtol)
        if share > TOLERANCES[precision].outliers:
            allowed = f"{atol:g} + {rtol:g} of the value, for {precision}"
            yield Problem(
                "golden-differs", f"{where}: {share:.1%} of output {name} differ by more than {allowed}"
            )


def _found(
    subject: Subject, golden: Golden, outputs: Mapping[str, Tensor], where: str, precision: Precision
) -> Iterator[Problem]:
    recorded = golden.detections
    if recorded is None or golden.picture is None or not len(recorded):
        return
    tolerance = TOLERANCES[precision]
    _, geometry = subject.prepare(golden.picture)
    score = max(subject.manifest.thresholds.score - tolerance.score, 0.0)
    live = subject.read(outputs, geometry, score)
    if not len(live):
        yield Problem(
            "empty-output", f"{where}: the author found {len(recorded)} objects, here there are none"
        )
        return
    missing = unmatched(recorded, live, tolerance)
    if len(missing) > _LOST * len(recorded):
        first = missing[0]
        name = subject.manifest.labels[int(recorded.label[first])]
        what = f"{name} with a score of {float(recorded.score[first]):.2f}"
        counts = f"{len(missing)} of the author's {len(recorded)} detections are not found here"
        yield Problem("golden-detections-differ", f"{where}: {counts}, the first of them {what}")


def _close(tensor: Tensor, recorded: Tensor) -> bool:
    """OpenCV builds round a resized pixel up or down; half a percent of the values may be off by a little."""
    mine, theirs = tensor.astype(np.float32), recorded.astype(np.float32)
    spread = float(np.ptp(theirs)) or 1.0
    return bool((np.abs(mine - theirs) > 0.02 * spread).mean() < 0.005)


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape))
