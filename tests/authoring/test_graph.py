"""What a file declares, and the sentences about files that declare nothing useful."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.authoring.graph import read_graph
from edge_runtime.errors import MissingDependency, PackageError


def test_a_real_model_is_read(onnx_models: Path) -> None:
    graph = read_graph(onnx_models / "yolo26n_coco_int8_640_end2end.onnx")
    assert [str(tensor) for tensor in graph.inputs] == ["images 1x3x640x640 float32"]
    assert [str(tensor) for tensor in graph.outputs] == ["output0 1x300x6 float32"]
    assert graph.metadata_value("stride") == 32
    assert graph.metadata_value("names")[79] == "toothbrush"
    assert graph.metadata_value("absent") is None
    assert graph.metadata_value("author") == "Ultralytics"
    assert graph.classes == {80}
    assert graph.opset == 20
    assert not graph.half_precision
    assert graph.nonfinite == ()


@pytest.mark.parametrize(
    ("stem", "classes"),
    [
        ("ssdlite_pedestrian_300_uint8_nhwc", {1}),
        ("deimv2_atto_coco_int8_320_damaged", {80}),
        ("yolov10n_coco_int8_declares320_runs640", {80}),
        ("yolox_nano_coco_416", set()),
    ],
)
def test_the_number_of_classes_is_found_where_the_graph_computes_with_it(
    onnx_models: Path, stem: str, classes: set[int]
) -> None:
    assert read_graph(onnx_models / f"{stem}.onnx").classes == classes


def test_half_precision_is_noticed(onnx_models: Path) -> None:
    assert read_graph(onnx_models / "yolov5n_coco_fp16_640.onnx").half_precision


@pytest.mark.parametrize("share", [0.001, 0.3, 0.7, 0.999])
def test_a_truncated_model_is_one_sentence(onnx_models: Path, tmp_path: Path, share: float) -> None:
    data = (onnx_models / "ultraface_rfb_320x240.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(PackageError, match=r"is not an ONNX model") as caught:
        read_graph(path)
    assert "\n" not in str(caught.value)


def test_random_bytes_and_missing_files_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"\xff" * 1000)
    with pytest.raises(PackageError, match="not an ONNX model"):
        read_graph(tmp_path / "a.onnx")
    with pytest.raises(PackageError, match="no such file"):
        read_graph(tmp_path / "b.onnx")
    with pytest.raises(PackageError, match="no such file"):
        read_graph(tmp_path)


@pytest.fixture
def external(onnx_models: Path, tmp_path: Path) -> Path:
    """A real model whose weights lie in a second file."""
    model = onnx.load(str(onnx_models / "ultraface_rfb_320x240.onnx"))
    path = tmp_path / "face.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="face.bin", size_threshold=0)
    return path


def test_external_weights_are_taken_in(external: Path) -> None:
    graph = read_graph(external)
    assert graph.embedded == ("face.bin",)
    assert len(graph.weights) > external.stat().st_size
    assert not any(
        tensor.external_data for tensor in onnx.load_model_from_string(graph.weights).graph.initializer
    )


def test_external_weights_that_are_absent_are_named(external: Path) -> None:
    (external.parent / "face.bin").unlink()
    with pytest.raises(PackageError, match=r"its weights are in face\.bin, which is not beside it"):
        read_graph(external)


def test_external_weights_that_are_too_short_are_named(external: Path) -> None:
    data = (external.parent / "face.bin").read_bytes()
    (external.parent / "face.bin").write_bytes(data[:100])
    with pytest.raises(PackageError, match="shorter than the graph needs"):
        read_graph(external)


def test_external_weights_outside_the_folder_are_refused(external: Path) -> None:
    model = onnx.load(str(external), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../../etc/passwd"
    external.write_bytes(model.SerializeToString())
    with pytest.raises(PackageError, match="outside its folder"):
        read_graph(external)


def graph_file(path: Path, **changes: Any) -> Path:
    weights = numpy_helper.from_array(np.array([1.0, np.nan], np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, None, 32]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [1])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    path.write_bytes(model.SerializeToString())
    return path


def test_open_dimensions_initializers_and_nan_are_told_apart(tmp_path: Path) -> None:
    graph = read_graph(graph_file(tmp_path / "a.onnx"))
    assert [tensor.name for tensor in graph.inputs] == ["x"]  # old exporters list initializers as inputs
    assert graph.inputs[0].dims == (None, 3, None, 32)
    assert str(graph.inputs[0]) == "x ?x3x?x32 float32"
    assert graph.nonfinite == ("w",)


def test_a_message_without_a_graph_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(onnx.ModelProto(ir_version=8).SerializeToString())
    with pytest.raises(PackageError, match="holds no graph"):
        read_graph(path)


def test_without_the_onnx_package_the_extra_is_named(
    onnx_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingDependency, match=r"edge-fleet-runtime\[models\]"):
        read_graph(onnx_models / "ultraface_rfb_320x240.onnx")
