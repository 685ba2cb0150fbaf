"""Packages of real models, changed in one thing at a time."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

Edit = Callable[[dict[str, Any]], None]
Change = Callable[[onnx.ModelProto], None]


@pytest.fixture
def changed(package_of: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """`changed("fastestdet_coco_352", manifest=edit, weights=change)` → a package with that difference."""

    def make(stem: str, manifest: Edit | None = None, weights: Change | None = None) -> Path:
        directory = tmp_path / "changed"
        shutil.copytree(package_of(stem), directory)
        path = directory / "manifest.json"
        data = json.loads(path.read_text())
        if weights is not None:
            file = directory / data["weights"]["file"]
            model = onnx.load(str(file))
            weights(model)
            file.write_bytes(model.SerializeToString())
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            data["weights"].update(sha256=digest, bytes=file.stat().st_size)
            data["version"] = f"sha256:{digest}"
        if manifest is not None:
            manifest(data)
        path.write_text(json.dumps(data))
        return directory

    return make


def each_kernel(change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Change:
    """Applies `change` to the weights of every convolution."""

    def apply(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.ndim == 4:
                tensor.CopyFrom(numpy_helper.from_array(change(array.copy()), tensor.name))

    return apply
