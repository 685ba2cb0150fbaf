"""Model packages made on the spot: a real manifest that names the real digest of whatever weights are given."""

import hashlib
from pathlib import Path

from edge_runtime.packages.manifest import (
    MANIFEST_NAME,
    HeadSpec,
    InputSpec,
    Licence,
    ModelManifest,
    RuntimeNeeds,
    Thresholds,
    Weights,
)
from edge_runtime.protocol import DataClass


def write_package(
    folder: Path,
    *,
    labels: tuple[str, ...] = ("person", "car"),
    released: str = "2026-01-15",
    data_classes: tuple[DataClass, ...] = (DataClass.PUBLIC, DataClass.INTERNAL, DataClass.RESTRICTED),
    spdx: str = "Apache-2.0",
    weights: bytes = b"weights",
) -> Path:
    """Write a package whose weights nobody runs; opening it verifies everything that opening verifies."""
    folder.mkdir(parents=True)
    digest = hashlib.sha256(weights).hexdigest()
    (folder / "model.onnx").write_bytes(weights)
    manifest = ModelManifest(
        name="tiny.v1",
        version=f"sha256:{digest}",
        released=released,
        task="detect",
        weights=Weights(file="model.onnx", sha256=digest, bytes=len(weights), source="made by a test"),
        licence=Licence(spdx=spdx, evidence="made by a test"),
        input=InputSpec(name="images", height=64, width=64),
        head=HeadSpec(family="yolox", outputs=("output",), strides=(8, 16, 32)),
        labels=labels,
        thresholds=Thresholds(score=0.3),
        quantisation="none",
        runtime=RuntimeNeeds(opset=17),
        data_classes=data_classes,
        tokenizer="n/a",
        chat_template="n/a",
        tool_parser="n/a",
        evaluation=(),
        golden=(),
    )
    (folder / MANIFEST_NAME).write_bytes(manifest.canonical_bytes())
    return folder
