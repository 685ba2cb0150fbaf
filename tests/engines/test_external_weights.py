"""Weights that lie outside of the graph's file: they are part of the key, and are files of the package."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_runtime.durable import sha256_file
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.packages.manifest import MANIFEST_NAME
from tests.rigs.openings import Device


def with_constant_in(location: str, small: ModelPackage, folder: Path) -> ModelPackage:
    """The package with a constant in a node, which nobody reads, whose value is in another file."""
    shutil.copytree(small.directory, folder)
    path = folder / small.manifest.weights.file
    model = onnx.load(str(path))
    value = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    entry = value.external_data.add()
    entry.key, entry.value = "location", location
    model.graph.node.insert(0, helper.make_node("Constant", [], ["unread"], value=value))
    path.write_bytes(model.SerializeToString())
    digest = sha256_file(path)
    weights = small.manifest.weights.model_copy(update={"sha256": digest, "bytes": path.stat().st_size})
    fields = {"weights": weights, "version": f"sha256:{digest}"}
    (folder / MANIFEST_NAME).write_bytes(small.manifest.model_copy(update=fields).canonical_bytes())
    return open_package(folder)


def test_a_constant_in_another_file_is_part_of_the_key(
    tmp_path: Path, small: ModelPackage, device: Device
) -> None:
    package = with_constant_in("c.bin", small, tmp_path / "package")
    for value in (1.0, 2.0):
        (package.directory / "c.bin").write_bytes(np.float32(value).tobytes())
        opened = device.opens(package)
        assert opened.report.refusals == []
    assert len(set(device.workshop.keys)) == 2


def _link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("location", "make", "why"),
    [
        ("c\0d", None, "leads out of the package"),
        ("../c.bin", None, "leads out of the package"),
        ("c.bin", _link("/etc/passwd"), "leads out of the package"),
        ("c.bin", _link("/dev/zero"), "leads out of the package"),
        ("c.bin", _link("c.bin"), "cannot be read"),
        ("c.bin", os.mkfifo, "not a regular file"),
        ("c.bin", Path.mkdir, "not a regular file"),
        ("c\n.bin", None, "'c\\n.bin' cannot be read: No such file"),
    ],
)
def test_what_is_no_file_of_the_package_is_not_read(
    tmp_path: Path,
    small: ModelPackage,
    device: Device,
    location: str,
    make: Callable[[Path], None] | None,
    why: str,
) -> None:
    package = with_constant_in(location, small, tmp_path / "package")
    if make is not None:
        make(package.directory / location)
    opened = device.opens(package)
    ((provider, reason),) = [(one.provider, one.reason) for one in opened.report.refusals]
    assert provider == "tensorrt"
    assert why in reason
    assert device.workshop.keys == []
