"""Small packages whose weights are any bytes: opening, packing and fetching never run them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.packages.manifest import MANIFEST_NAME

Json = dict[str, Any]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest_json(weights: bytes, golden: dict[str, bytes]) -> Json:
    """A complete manifest over these bytes; `golden` maps the inputs file and the outputs file."""
    digest = sha(weights)
    (inputs, given), (outputs, measured) = golden.items()
    return {
        "schema_version": 1,
        "name": "tiny",
        "version": f"sha256:{digest}",
        "released": "2026-01-31",
        "task": "detect",
        "weights": {
            "file": "tiny.onnx",
            "sha256": digest,
            "bytes": len(weights),
            "format": "onnx",
            "source": "tiny-models==1.0!tiny/tiny.onnx",
            "original_sha256": None,
            "repairs": [],
        },
        "licence": {"spdx": "MIT", "evidence": "LICENSE in the wheel"},
        "input": {"name": "x", "height": 64, "width": 96},
        "head": {"family": "yolov8", "outputs": ["y"]},
        "labels": ["cat", "dog"],
        "thresholds": {"score": 0.25},
        "quantisation": "none",
        "runtime": {"opset": 13},
        "data_classes": ["public", "internal"],
        "tokenizer": "n/a",
        "chat_template": "n/a",
        "tool_parser": "n/a",
        "evaluation": [],
        "golden": [
            {
                "name": "street",
                "inputs": inputs,
                "inputs_sha256": sha(given),
                "outputs": outputs,
                "outputs_sha256": sha(measured),
                "atol": {"fp32": 0.001},
                "rtol": {"fp32": 0.001},
            }
        ],
    }


MakePackage = Callable[..., Path]


@pytest.fixture
def make_package(tmp_path: Path) -> MakePackage:
    """`make_package("name", weights=b"…")` writes a package folder and returns it."""

    def make(name: str = "package", weights: bytes = b"weights" * 50, **changes: Any) -> Path:
        directory = tmp_path / name
        golden = {"golden/a.inputs.npz": b"inputs", "golden/a.outputs.npz": b"outputs"}
        (directory / "golden").mkdir(parents=True)
        (directory / "tiny.onnx").write_bytes(weights)
        for path, data in golden.items():
            (directory / path).write_bytes(data)
        manifest = {**manifest_json(weights, golden), **changes}
        (directory / MANIFEST_NAME).write_text(json.dumps(manifest), encoding="utf-8")
        return directory

    return make
