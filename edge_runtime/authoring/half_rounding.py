"""What a converted graph gives on a machine that really computes in 16 bits.

ONNX Runtime's CPU has few 16-bit kernels and computes most of such a graph in 32 bits: a value of 100,000 comes
through unharmed that is infinite on a GPU. Explicit casts it does carry out. So accuracy is measured on the parent
with every value rounded to 16 bits and back, wherever the converted graph keeps it in 16 bits.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from edge_runtime.authoring.half import float_tensors
from edge_runtime.authoring.quantize_graph import drop_unused

_FLOAT, _HALF = 1, 10  # onnx.TensorProto


def rounded(parent: Any, wide: Collection[str]) -> Any:
    """The parent with the rounding that its conversion brings.

    Args:
        parent: the graph in 32 bits, every node with a name.
        wide: names of the nodes that stay in 32 bits; what passes between two of them is not rounded.
    """
    import onnx  # noqa: PLC0415
    from onnx import helper, numpy_helper, shape_inference  # noqa: PLC0415

    model = onnx.ModelProto()
    model.CopyFrom(parent)
    graph = model.graph
    floats = set(float_tensors(shape_inference.infer_shapes(parent)))
    held = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == _FLOAT}
    given = {value.name for value in graph.input if value.type.tensor_type.elem_type == _FLOAT} - held.keys()
    casts: list[Any] = []
    halves: dict[str, str] = {}

    def cast(source: str, target: str) -> None:
        casts.append(helper.make_node("Cast", [source], [f"{target}@16"], to=_HALF))
        casts.append(helper.make_node("Cast", [f"{target}@16"], [target], to=_FLOAT))

    def half(name: str) -> str:
        if name not in halves:
            halves[name] = f"{name}@half"
            if name in held:
                with np.errstate(over="ignore"):
                    values = numpy_helper.to_array(held[name]).astype(np.float16).astype(np.float32)
                graph.initializer.append(numpy_helper.from_array(values, halves[name]))
            else:
                cast(name, halves[name])
        return halves[name]

    narrow_made = {
        name for node in graph.node if node.name not in wide for name in node.output if name in floats
    }
    for node in graph.node:
        if node.name in wide:
            continue
        for place, name in enumerate(node.input):
            scales = node.op_type == "Resize" and place > 0
            if not scales and (name in held or name in given or (name in floats and name not in narrow_made)):
                node.input[place] = half(name)
        for place, name in enumerate(node.output):
            if name in narrow_made:
                node.output[place] = f"{name}@wide"
                cast(f"{name}@wide", name)
    graph.node.extend(casts)
    drop_unused(model)
    return model
