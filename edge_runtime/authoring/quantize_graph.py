"""Edits of ONNX graphs that quantising needs: names, operator set, layers left alone, what TensorRT takes.

A layer here is a node with weights: a convolution or a matrix product. They hold nearly all of a detector's
arithmetic, and TensorRT asks for Q/DQ on their inputs and not on their outputs, which a following activation
needs in full.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import numpy as np

from edge_runtime.errors import PackageError

LAYER_TYPES: Final = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators whose inputs and weights become 8-bit."""

LEAST_OPSET: Final = 13
"""The first operator set whose Q/DQ takes a scale for each channel."""

_LEAST_IR: Final = 7
"""The file format that came with operator set 13; since 4, weights are no inputs."""

_REFUSED: Final = frozenset(
    {"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"}
)


def parse(weights: bytes) -> Any:
    """Parse weights, with a name of its own for each node, and without constants among the inputs.

    Old exporters list the weights as inputs too, where a conversion would take them for what changes.
    """
    import onnx  # noqa: PLC0415 (extra `models`, not on the device)

    model = onnx.load_model_from_string(weights)
    held = {tensor.name for tensor in model.graph.initializer}
    given = _copies(value for value in model.graph.input if value.name not in held)
    del model.graph.input[:]
    model.graph.input.extend(given)
    model.ir_version = max(model.ir_version, _LEAST_IR)
    name_nodes(model)
    return model


def load(weights: bytes) -> Any:
    """As `parse`, and with the operator set raised to 13 where it is lower.

    Raises:
        PackageError: a graph that cannot be converted.
    """
    from onnx import version_converter  # noqa: PLC0415

    model = parse(weights)
    present = opset(model)
    if present < LEAST_OPSET:
        try:
            model = version_converter.convert_version(model, LEAST_OPSET)
        except Exception as error:  # the converter raises kinds of its own
            raise PackageError(
                f"the graph cannot be converted from operator set {present} to {LEAST_OPSET}, which Q/DQ needs: "
                "export the model anew with a later operator set"
            ) from error
        model.ir_version = max(model.ir_version, _LEAST_IR)
        _choose_size_or_scale(model)
        name_nodes(model)
    return model


def _choose_size_or_scale(model: Any) -> None:
    """A Resize of operator set 11 names an empty tensor of scales beside its sizes; from 13 on it may not."""
    empty = {tensor.name for tensor in model.graph.initializer if 0 in tensor.dims}
    for node in model.graph.node:
        if node.op_type == "Constant" and any(0 in attribute.t.dims for attribute in node.attribute):
            empty.update(node.output)
    for node in model.graph.node:
        if node.op_type == "Resize" and len(node.input) > 3 and node.input[3] and node.input[2] in empty:
            node.input[2] = ""


def opset(model: Any) -> int:
    """Version of the standard operator set."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def name_nodes(model: Any) -> None:
    """Give nodes without a name, or with one that another has, the name of their first output."""
    seen: set[str] = set()
    for place, node in enumerate(model.graph.node):
        if not node.name or node.name in seen:
            node.name = f"{node.op_type}:{node.output[0] if node.output else place}"
        seen.add(node.name)


def layers(model: Any) -> tuple[str, ...]:
    """Names of the nodes with constant weights, in the order of the graph."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return tuple(
        node.name
        for node in model.graph.node
        if node.op_type in LAYER_TYPES and any(name in constants for name in node.input[1:2])
    )


def head_layers(model: Any) -> tuple[str, ...]:
    """The last layer on every way to an output: what they compute is read as boxes and scores."""
    known = set(layers(model))
    producer = {name: node for node in model.graph.node for name in node.output}
    found: set[str] = set()
    pending, seen = [output.name for output in model.graph.output], set[str]()
    while pending:
        name = pending.pop()
        node = producer.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if node.name in known:
            found.add(node.name)
        else:
            pending.extend(node.input)
    return tuple(name for name in layers(model) if name in found)


def left_alone(quantised: Any, parent: Any, names: Collection[str]) -> Any:
    """A copy of a Q/DQ graph in which some layers compute with the parent's weights and inputs.

    Args:
        quantised: made from `parent`, with Q/DQ on inputs of layers only, so that every tensor of the parent
            has its name and its value before quantisation.
        parent: the graph in 32 bits.
        names: of the layers.
    """
    import onnx  # noqa: PLC0415

    model = onnx.ModelProto()
    model.CopyFrom(quantised)
    original = {node.name: node for node in parent.graph.node}
    held = {tensor.name: tensor for tensor in parent.graph.initializer}
    present = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.name not in names:
            continue
        node.input[:] = original[node.name].input
        for name in node.input:
            if name in held and name not in present:
                model.graph.initializer.append(held[name])
                present.add(name)
    drop_unused(model)
    return model


def drop_unused(model: Any) -> None:
    """Keep what the outputs need, in the order of computation; and no operator set without a node."""
    graph = model.graph
    kept = _needed(graph)
    read = {name for node in kept for name in _read_by(node)} | {output.name for output in graph.output}
    tensors = [tensor for tensor in graph.initializer if tensor.name in read]
    domains = {node.domain for node in kept} | {"", "ai.onnx"}
    imports = [entry for entry in model.opset_import if entry.domain in domains]
    kept, tensors, imports = _copies(kept), _copies(tensors), _copies(imports)
    for field, content in ((graph.node, kept), (graph.initializer, tensors), (model.opset_import, imports)):
        del field[:]
        field.extend(content)


def _needed(graph: Any) -> list[Any]:
    """The nodes that the outputs depend on, each after those that it reads."""
    producer = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    order: list[Any] = []
    done: set[int] = set()
    pending = [(producer[output.name], False) for output in reversed(graph.output) if output.name in producer]
    while pending:
        place, visited = pending.pop()
        if place in done:
            continue
        node = graph.node[place]
        if visited:
            done.add(place)
            order.append(node)
            continue
        pending.append((place, True))
        pending += [
            (producer[name], False)
            for name in _read_by(node)
            if producer.get(name, place) not in {place} | done
        ]
    return order


def _copies(messages: Iterable[Any]) -> list[Any]:
    """Messages that survive the emptying of the field they lie in."""
    copies = []
    for message in messages:
        copy = type(message)()
        copy.CopyFrom(message)
        copies.append(copy)
    return copies


def _read_by(node: Any) -> Iterator[str]:
    """Inputs, and what the graphs inside an `If` or a `Loop` read from outside."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _read_by(inner)
            for output in graph.output:
                yield output.name


def require_symmetric(model: Any) -> None:
    """Refuse a graph that TensorRT would not take as 8-bit.

    Raises:
        PackageError: an integer operator, a zero point other than 0, a scale that is none, or an 8-bit tensor
            that is not signed.
    """
    from onnx import numpy_helper  # noqa: PLC0415

    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in _REFUSED or node.domain not in ("", "ai.onnx"):
            raise PackageError(
                f"the graph holds {node.op_type} ({node.name}): TensorRT takes Q/DQ around standard operators only"
            )
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        scale, zero = (held.get(name) for name in (*node.input[1:3], "", "")[:2])
        scales = None if scale is None else numpy_helper.to_array(scale)
        if scales is None or not np.isfinite(scales).all() or not (scales > 0).all():
            raise PackageError(f"{node.name} has a scale that is not a positive number: calibrate anew")
        zeros = None if zero is None else numpy_helper.to_array(zero)
        if zeros is None or zeros.dtype != np.int8 or zeros.any():
            raise PackageError(
                f"{node.name} is not symmetric in signed 8 bits (zero point 0), which TensorRT needs"
            )
