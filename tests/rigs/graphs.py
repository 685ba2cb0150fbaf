"""Small ONNX graphs, for what no real model at hand does."""

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.perception.backends.base import Tensor


def constant_graph(path: Path, outputs: dict[str, Tensor], input_shape: Sequence[int | str]) -> Path:
    """A graph whose outputs do not depend on its input."""
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
        for name, array in outputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, input_shape)],
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in outputs.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path
