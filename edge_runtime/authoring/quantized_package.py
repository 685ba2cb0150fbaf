"""Writes a quantised package: the parent's manifest, but for what quantising changes."""

import hashlib
from pathlib import Path
from typing import Any, Final

from edge_runtime.authoring.card import card
from edge_runtime.authoring.evaluate import EvaluationReport
from edge_runtime.authoring.golden_vectors import RecordedVector, record_golden
from edge_runtime.authoring.provenance import Quantisation, slug
from edge_runtime.authoring.quantize import Attempt, Outcome, Precision
from edge_runtime.authoring.quantize_graph import opset
from edge_runtime.authoring.write_package import write_files
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import (
    CalibrationRecord,
    Derivation,
    Evaluation,
    MeasuredDrop,
    ModelManifest,
)
from edge_runtime.packages.package import ModelPackage
from edge_runtime.packages.scratch import scratch_directory
from edge_runtime.perception.backends import load_backend

_QUANTISATION: Final[dict[Precision, Quantisation]] = {"int8": "int8-qdq", "fp16": "fp16"}
_DOCUMENTS: Final = ("LICENSE", "NOTICE")
_DIGITS: Final = 6


def write_quantized(
    outcome: Outcome, directory: Path, *, name: str | None = None, replace: bool = False
) -> ModelPackage:
    """Write what the gate let through.

    Args:
        outcome: of `quantize_package`.
        directory: to make; see `write_package`.
        name: of the package; else the parent's with the precision behind it.
        replace: replace another package in `directory`.

    Raises:
        PackageError: nothing was let through, or `directory` cannot be taken or written.
        BackendError: the golden vectors cannot be recorded.
    """
    attempt = outcome.accepted
    if attempt is None:
        raise PackageError(f"not written: {outcome.best.verdict.refused}")
    manifest = _manifest(outcome, attempt, name)
    vectors = _golden(manifest, attempt.candidate.weights)
    manifest = manifest.model_copy(update={"golden": tuple(recorded.vector for recorded in vectors)})
    files = {manifest.weights.file: attempt.candidate.weights, "CARD.md": card(manifest, ()).encode()}
    for recorded in vectors:
        files[recorded.vector.inputs] = recorded.inputs
        files[recorded.vector.outputs] = recorded.outputs
    for document in _DOCUMENTS:
        if (outcome.package.directory / document).is_file():
            files[document] = (outcome.package.directory / document).read_bytes()
    return write_files(manifest, files, directory, replace=replace)


def _manifest(outcome: Outcome, attempt: Attempt, name: str | None) -> ModelManifest:
    import onnx  # noqa: PLC0415 (extra `models`, not on the device)

    parent, settings = outcome.package.manifest, outcome.settings
    weights = attempt.candidate.weights
    digest = hashlib.sha256(weights).hexdigest()
    own_name = slug(name or f"{parent.name[: 63 - len(settings.precision)]}-{settings.precision}")
    changes: dict[str, Any] = {
        "name": own_name,
        "version": f"sha256:{digest}",
        "weights": parent.weights.model_copy(
            update={
                "file": f"{own_name}.onnx",
                "sha256": digest,
                "bytes": len(weights),
                "original_sha256": parent.weights.sha256,
            }
        ),
        "quantisation": _QUANTISATION[settings.precision],
        "runtime": parent.runtime.model_copy(
            update={"opset": opset(onnx.load_model_from_string(weights)), "memory_mb": None}
        ),
        "evaluation": _evaluation(attempt.report, outcome.dataset),
        "golden": (),
        "derivation": _derivation(outcome, attempt),
    }
    return ModelManifest.model_validate({**dict(parent), **changes})


def _derivation(outcome: Outcome, attempt: Attempt) -> Derivation:
    settings = outcome.settings
    return Derivation(
        parent=outcome.package.digest,
        tool=attempt.candidate.tool,
        calibration=CalibrationRecord(
            method="peak" if settings.precision == "fp16" else settings.method,
            images=len(outcome.calibration.images),
            sha256=outcome.calibration.digest(),
        ),
        left=attempt.candidate.left,
        measured=MeasuredDrop(
            dataset=outcome.dataset,
            images=attempt.report.images,
            parent=round(attempt.verdict.parent, _DIGITS),
            child=round(attempt.verdict.child, _DIGITS),
            max_drop=settings.max_drop,
        ),
    )


def _evaluation(report: EvaluationReport, dataset: str) -> tuple[Evaluation, ...]:
    figures = (("map", report.precision.mean), ("ap50", report.precision.at_50))
    return tuple(
        Evaluation.model_validate(
            {
                "dataset": dataset,
                "images": report.images,
                "metric": metric,
                "value": round(value, 4),
                "classes": report.classes,
            }
        )
        for metric, value in figures
    )


def _golden(manifest: ModelManifest, weights: bytes) -> list[RecordedVector]:
    with scratch_directory("golden") as scratch:
        path = scratch / "weights.onnx"
        path.write_bytes(weights)
        backend = load_backend(path)
        try:
            return record_golden(manifest, backend)
        finally:
            backend.close()
