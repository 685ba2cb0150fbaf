"""Shapes are rewritten at the wire level: only they change, and the bytes are the same everywhere."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.errors import PackageError
from edge_runtime.packages.onnx_shapes import rewrite_shapes


def small_model() -> bytes:
    weights = numpy_helper.from_array(np.arange(300, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 32, 32])],
        [weights],
        value_info=[helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 3, 32, 32])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="maker")
    helper.set_model_props(model, {"names": "{0: 'cat'}"})
    data: bytes = model.SerializeToString()
    return data


def dims(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_only_the_named_shapes_change() -> None:
    data = small_model()
    model = onnx.load_model_from_string(
        rewrite_shapes(data, {"x": ("batch", 3, "height", "width"), "y": ("batch", 3, 640, 640)})
    )
    assert dims(model.graph.input[0]) == ["batch", 3, "height", "width"]
    assert dims(model.graph.output[0]) == ["batch", 3, 640, 640]
    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert not model.graph.value_info
    before = onnx.load_model_from_string(data)
    for other in (model, before):
        other.graph.ClearField("input")
        other.graph.ClearField("output")
        other.graph.ClearField("value_info")
    assert model == before


def test_writing_the_declared_shape_again_changes_nothing_but_value_info() -> None:
    data = small_model()
    once = rewrite_shapes(data, {"x": (1, 3, 32, 32)})
    assert rewrite_shapes(once, {"x": (1, 3, 32, 32)}) == once
    assert dims(onnx.load_model_from_string(once).graph.input[0]) == [1, 3, 32, 32]


@given(st.lists(st.one_of(st.integers(1, 2**40), st.sampled_from(["batch", "n" * 32])), max_size=8))
def test_any_dimensions_survive(shape: list[int | str]) -> None:
    model = onnx.load_model_from_string(rewrite_shapes(small_model(), {"x": shape}))
    assert dims(model.graph.input[0]) == shape


def test_a_real_model_keeps_its_weights(onnx_models: Path) -> None:
    data = (onnx_models / "yolox_nano_coco_416.onnx").read_bytes()
    model = onnx.load_model_from_string(rewrite_shapes(data, {"images": (1, 3, "height", "width")}))
    assert model.graph.initializer == onnx.load_model_from_string(data).graph.initializer


def test_a_tensor_that_is_not_there_is_named() -> None:
    with pytest.raises(PackageError, match=r"no input or output named input\.1, z"):
        rewrite_shapes(small_model(), {"input.1": (1,), "z": (1,)})


@pytest.mark.parametrize("cut", [1, 7, 200, 900])
def test_a_truncated_model_is_refused(cut: int) -> None:
    data = small_model()
    with pytest.raises(PackageError):
        rewrite_shapes(data[: len(data) - cut], {"x": (1, 3, 8, 8)})


@given(st.binary(max_size=400))
def test_any_bytes_are_rewritten_or_refused(data: bytes) -> None:
    with pytest.raises(PackageError):  # no bytes that hypothesis finds hold a graph with this input
        rewrite_shapes(data, {"the input that is not there": (1,)})


def test_what_lies_before_and_behind_the_graph_is_kept() -> None:
    # 0x09, 0x0d: a fixed64 and a fixed32 field, which ONNX does not use; 0x80 0x00 is a varint in two bytes.
    odd = b"\x09" + bytes(8) + b"\x0d" + bytes(4) + b"\x08\x80\x00"
    rewritten = rewrite_shapes(odd + small_model() + odd, {"x": (1, 3, 8, 8)})
    assert rewritten.startswith(odd)
    assert rewritten.endswith(odd)
