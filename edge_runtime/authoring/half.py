"""FP16 by conversion of the graph, except for what would overflow or has no 16-bit form.

The conversion is ONNX Runtime's own (`onnxruntime.transformers.float16`, in every wheel of it). What it leaves in
32 bits is decided here, from values measured on real pictures. Between two nodes that stay in 32 bits it casts
to 16 bits and back, so that exactly the tensor that overflows would overflow all the same: these casts are taken
out again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from edge_runtime.authoring.quantize_graph import drop_unused, parse
from edge_runtime.errors import PackageError
from edge_runtime.packages.scratch import scratch_directory
from edge_runtime.perception.backends import Tensor, load_backend

LARGEST: Final = 65504.0
"""The largest 16-bit float."""

MARGIN: Final = 0.5
"""Share of `LARGEST` that a value may reach on the pictures that are measured: others reach further."""

_PEAK: Final = "@peak"


@dataclass(frozen=True, slots=True)
class Halved:
    """A converted graph.

    Attributes:
        parent: the graph in 32 bits, with names for all nodes.
        model: converted; inputs and outputs stay 32-bit.
        wide: names of the nodes that stay in 32 bits.
        overflowing: those of them whose values are too large, with the largest that was seen.
        tool: what made it, for the manifest.
    """

    parent: Any
    model: Any
    wide: frozenset[str]
    overflowing: dict[str, float]
    tool: str


def halve(
    weights: bytes, feeds: Iterable[Mapping[str, Tensor]], leave: Collection[str] = (), threads: int = 1
) -> Halved:
    """Measure how large values get, and convert the rest to 16 bits.

    Args:
        weights: ONNX file in 32 bits.
        feeds: prepared pictures, as the backend takes them.
        leave: names of nodes that stay in 32 bits whatever their values are.
        threads: of the session that measures.

    Raises:
        PackageError: a graph that cannot be converted.
        BackendError: the graph does not run.
    """
    import onnx  # noqa: PLC0415
    import onnxruntime  # noqa: PLC0415
    from onnxruntime.transformers import float16  # noqa: PLC0415

    parent = parse(weights)
    _refuse_subgraphs(onnx, parent)
    typed = _typed(onnx, parent)
    peaks = _peaks(parent, float_tensors(typed), feeds, threads)
    overflowing = _overflowing(parent, peaks)
    blocked = set(float16.DEFAULT_OP_BLOCK_LIST)
    wide = (
        {node.name for node in parent.graph.node if node.op_type in blocked} | set(overflowing) | set(leave)
    )
    copy = onnx.ModelProto()
    copy.CopyFrom(typed)
    try:
        model = float16.convert_float_to_float16(
            copy, keep_io_types=True, disable_shape_infer=True, node_block_list=sorted(wide)
        )
    except Exception as error:  # it fails in many ways on graphs that it does not know
        raise PackageError(f"the graph cannot be converted to 16 bits: {error}") from error
    _join_casts(onnx, model, {node.name for node in parent.graph.node})
    drop_unused(model)
    tool = f"onnxruntime {onnxruntime.__version__} float16"
    return Halved(parent, model, frozenset(wide), overflowing, tool)


def float_tensors(typed: Any) -> list[str]:
    """Names of all 32-bit tensors between nodes of a graph whose types were inferred."""
    graph = typed.graph
    known = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
    return [name for node in graph.node for name in node.output if known.get(name) == 1]


def _typed(onnx: Any, parent: Any) -> Any:
    try:
        return onnx.shape_inference.infer_shapes(parent)
    except Exception as error:
        raise PackageError(f"the types of the graph's tensors cannot be told: {error}") from error


def _refuse_subgraphs(onnx: Any, model: Any) -> None:
    kinds = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    for node in model.graph.node:
        if any(attribute.type in kinds for attribute in node.attribute):
            raise PackageError(
                f"the graph holds a {node.op_type} ({node.name}) with a graph inside, which is not converted to "
                "16 bits: export the model without it, or choose int8"
            )


def _peaks(
    parent: Any, tensors: Iterable[str], feeds: Iterable[Mapping[str, Tensor]], threads: int
) -> dict[str, float]:
    """The largest magnitude of each tensor, measured inside the graph: a number for each, not the tensor."""
    import onnx  # noqa: PLC0415
    from onnx import TensorProto, helper  # noqa: PLC0415

    probe = onnx.ModelProto()
    probe.CopyFrom(parent)
    del probe.graph.output[:]
    for name in tensors:
        probe.graph.node.append(helper.make_node("Abs", [name], [f"{name}@magnitude"]))
        probe.graph.node.append(
            helper.make_node("ReduceMax", [f"{name}@magnitude"], [f"{name}{_PEAK}"], keepdims=0)
        )
        probe.graph.output.append(helper.make_tensor_value_info(f"{name}{_PEAK}", TensorProto.FLOAT, []))
    peaks: dict[str, float] = {}
    with scratch_directory("half") as scratch:
        path = scratch / "peaks.onnx"
        onnx.save(probe, str(path))
        backend = load_backend(path, threads=threads)
        try:
            for feed in feeds:
                for spec, value in zip(backend.outputs, backend.infer(feed), strict=True):
                    name = spec.name.removesuffix(_PEAK)
                    peaks[name] = max(peaks.get(name, 0.0), float(value))
        finally:
            backend.close()
    return peaks


def _overflowing(parent: Any, peaks: Mapping[str, float]) -> dict[str, float]:
    """Nodes that read or write a value that 16 bits may not hold, with that value."""
    from onnx import numpy_helper  # noqa: PLC0415

    large = {name: peak for name, peak in peaks.items() if not peak <= LARGEST * MARGIN}
    for tensor in parent.graph.initializer:
        if tensor.data_type == 1:
            peak = float(np.abs(numpy_helper.to_array(tensor)).max(initial=0.0))
            if not peak <= LARGEST:
                large[tensor.name] = peak
    found: dict[str, float] = {}
    for node in parent.graph.node:
        touched = [large[name] for name in (*node.input, *node.output) if name in large]
        if touched:
            found[node.name] = max(touched)
    return found


def _join_casts(onnx: Any, model: Any, known: Collection[str]) -> None:
    """Let a 32-bit node read a 32-bit tensor directly, not by way of 16 bits.

    Args:
        onnx: the package.
        model: converted.
        known: names of the nodes that were there before; casts among them are meant.
    """
    made = [node for node in model.graph.node if node.op_type == "Cast" and node.name not in known]
    target = {
        node.output[0]: next(entry.i for entry in node.attribute if entry.name == "to") for node in made
    }
    source = {node.output[0]: node.input[0] for node in made}
    direct = {
        wide: source[half]
        for wide, half in source.items()
        if target[wide] == onnx.TensorProto.FLOAT and target.get(half) == onnx.TensorProto.FLOAT16
    }
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = direct.get(name, name)
    for node in made:
        if node.output[0] in direct:  # it stays only where it is an output of the graph
            node.input[0] = direct[node.output[0]]
