"""Graphs that declare absurd inputs or never end are refused in one sentence."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.authoring.propose import Wishes, propose
from edge_runtime.errors import BackendError, EdgeRuntimeError
from edge_runtime.perception.backends import InferenceTimeout, load_backend, onnxruntime
from edge_runtime.qualification import sizes
from edge_runtime.qualification.sizes import ImageInput


def write(path: Path, nodes: list[onnx.NodeProto], dims: list[int], *held: onnx.TensorProto) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(held),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def endless(path: Path, dims: list[int]) -> Path:
    """Adds zero to its input for longer than anybody waits."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["value", "value"], ["next"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    turns = numpy_helper.from_array(np.array(2**62, np.int64), "turns")
    always = numpy_helper.from_array(np.array(True), "always")
    return write(
        path, [helper.make_node("Loop", ["turns", "always", "x"], ["y"], body=body)], dims, turns, always
    )


@pytest.mark.parametrize("dims", [[1, 3, 2**31, 2**31], [2**40, 3, 64, 64], [1, 3, 8, 2**40]])
def test_a_huge_declared_input_is_one_sentence(tmp_path: Path, dims: list[int]) -> None:
    path = write(tmp_path / "huge.onnx", [helper.make_node("Relu", ["x"], ["y"])], dims)
    with pytest.raises(BackendError, match="more than can be fed"):
        load_backend(path)
    for repair in (True, False):
        with pytest.raises(EdgeRuntimeError) as caught:
            propose(path, Wishes(repair=repair))
        assert "\n" not in str(caught.value)


def test_a_huge_picture_is_not_made(tmp_path: Path) -> None:
    path = write(tmp_path / "a.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1, 3, 64, 64])
    with sizes.loaded(path) as backend, pytest.raises(BackendError, match="1x3x100000x100000"):
        ImageInput("x", "nchw", "float32").feeds(backend, (100_000, 100_000))


@pytest.mark.parametrize("dims", [[1, 3, 64, 64], [1, 3, 0, 0]])
def test_a_graph_that_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dims: list[int]
) -> None:
    path = endless(tmp_path / "endless.onnx", dims)
    for module in (onnxruntime, sizes):
        monkeypatch.setattr(module, "PROVING_TIMEOUT_S", 0.1)
    with pytest.raises(InferenceTimeout, match=r"did not answer within 0\.1 s"):
        propose(path)
