"""Real ONNX files with one thing changed, as exporters and people get it wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx

Change = Callable[[onnx.ModelProto], None]


def changed_file(source: Path, target: Path, *changes: Change) -> Path:
    """A copy of an ONNX file with changes."""
    model = onnx.load(str(source))
    for change in changes:
        change(model)
    target.write_bytes(model.SerializeToString())
    return target


def picture_input(model: onnx.ModelProto) -> onnx.ValueInfoProto:
    """The first input that is no initializer."""
    held = {tensor.name for tensor in model.graph.initializer}
    return next(value for value in model.graph.input if value.name not in held)


def declare(dims: Sequence[int | str | None]) -> Change:
    """Declare other input dimensions; None keeps one."""

    def apply(model: onnx.ModelProto) -> None:
        for dim, wanted in zip(picture_input(model).type.tensor_type.shape.dim, dims, strict=True):
            if isinstance(wanted, str):
                dim.dim_param = wanted
            elif wanted is not None:
                dim.dim_value = wanted

    return apply


def anonymous(model: onnx.ModelProto) -> None:
    """Names that say nothing, and no metadata."""
    graph = model.graph
    held = {tensor.name for tensor in graph.initializer}
    names = {value.name: f"x{n}" for n, value in enumerate(graph.input) if value.name not in held}
    names |= {value.name: f"o{n}" for n, value in enumerate(graph.output)}
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
        for place, name in enumerate(node.output):
            node.output[place] = names.get(name, name)
    del model.metadata_props[:]


def metadata(**entries: str) -> Change:
    """Set metadata entries."""

    def apply(model: onnx.ModelProto) -> None:
        kept = {entry.key: entry.value for entry in model.metadata_props} | entries
        onnx.helper.set_model_props(model, kept)

    return apply
