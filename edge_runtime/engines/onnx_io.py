"""What an ONNX file declares: its inputs and outputs, and the files that hold weights outside of it.

The key of an engine covers them, and a device has no `onnx` package. So this walks the protobuf wire format,
without copying weights. Field numbers are those of onnx.proto: ModelProto.graph = 7, functions = 25;
GraphProto.node = 1, initializer = 5, input = 11, output = 12, sparse_initializer = 15; FunctionProto.node = 7;
NodeProto.attribute = 5; AttributeProto.t = 5, g = 6, tensors = 10, graphs = 11, sparse_tensor = 22,
sparse_tensors = 23; SparseTensorProto.values = 1, indices = 2; ValueInfoProto.name = 1, type = 2;
TypeProto.tensor_type = 1; its elem_type = 1, shape = 2; TensorProto.name = 8, external_data = 13.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_runtime.errors import PackageError

_GRAPH, _FUNCTION = 7, 25
_NODE, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE = 1, 5, 11, 12, 15
_TENSOR_NAME, _EXTERNAL = 8, 13

_TENSORS: Final = {
    "graph": {_NODE: "node", _INITIALIZER: "tensor", _SPARSE: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""By kind of message: its fields that are, or have in them, tensors."""

_DEEPEST: Final = 100
"""Messages within messages: protobuf itself reads no more."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

DTYPES: Final[dict[int, str]] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
}
"""TensorProto.DataType by number, as numpy calls it."""


@dataclass(frozen=True, slots=True)
class DeclaredTensor:
    """One input or output; what may vary is None in `shape`."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class DeclaredModel:
    """What the file says of itself.

    Attributes:
        inputs: without those that have an initial value.
        outputs: in the order of the graph.
        external: paths of files with weights, as the graph names them, sorted.
    """

    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    external: tuple[str, ...]


def read_declared(weights: Path) -> DeclaredModel:
    """Read what an ONNX file declares.

    Raises:
        PackageError: it cannot be read, or is no ONNX file.
    """
    try:
        with weights.open("rb") as stream:
            # not closed here: views of it live until the last one is gone
            return _model(memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)))
    except OSError as error:
        raise PackageError(f"{weights}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # an empty file cannot be mapped
        raise PackageError(f"{weights}: is no ONNX file: {error}") from error


def _model(data: memoryview) -> DeclaredModel:
    inputs: list[DeclaredTensor] = []
    outputs: list[DeclaredTensor] = []
    initial: set[str] = set()
    external: set[str] = set()
    for number, body in _fields(data):
        if isinstance(body, int):
            continue
        if number == _FUNCTION:
            external |= _files(body, "function")
        if number != _GRAPH:
            continue
        external |= _files(body, "graph")
        for kind, part in _fields(body):
            if isinstance(part, int):
                continue
            if kind == _INITIALIZER:
                initial.add(_name(part))
            elif kind == _INPUT:
                inputs.append(_tensor(part))
            elif kind == _OUTPUT:
                outputs.append(_tensor(part))
    if not outputs:
        raise PackageError("the weights are no ONNX model: there is no graph with an output in them")
    fed = tuple(tensor for tensor in inputs if tensor.name not in initial)
    return DeclaredModel(fed, tuple(outputs), tuple(sorted(external)))


def _name(data: memoryview) -> str:
    """Of a tensor."""
    found = [body for number, body in _fields(data) if number == _TENSOR_NAME and not isinstance(body, int)]
    return _text(found[-1]) if found else ""


def _files(data: memoryview, kind: str, depth: int = 0) -> set[str]:
    """Files of all tensors in a message: a constant is an attribute of a node, and a loop's body a graph in one."""
    if depth > _DEEPEST:
        raise PackageError("the weights have graphs within graphs that no network has: the file is damaged")
    files: set[str] = set()
    for number, body in _fields(data):
        if isinstance(body, int):
            continue
        if kind == "tensor":
            if number == _EXTERNAL:
                entry = {key: _text(value) for key, value in _fields(body) if not isinstance(value, int)}
                if entry.get(1) == "location":
                    files.add(entry.get(2, ""))
        elif number in _TENSORS[kind]:
            files |= _files(body, _TENSORS[kind][number], depth + 1)
    return files


def _tensor(data: memoryview) -> DeclaredTensor:
    parts = dict(_fields(data))
    name, kind = parts.get(1), parts.get(2)
    if name is None or isinstance(name, int) or kind is None or isinstance(kind, int):
        raise PackageError("the weights declare an input or output without a name or a type")
    called = _text(name)
    tensor = dict(_fields(kind)).get(1)
    if tensor is None or isinstance(tensor, int):
        raise PackageError(
            f"{called} is no tensor: only models with tensors as inputs and outputs can be run"
        )
    number = 0
    dims: list[int | None] = []
    for field, body in _fields(tensor):
        if field == 1 and isinstance(body, int):
            number = body
        elif field == 2 and not isinstance(body, int):
            dims = [_dim(dim) for at, dim in _fields(body) if at == 1 and not isinstance(dim, int)]
    if number not in DTYPES:
        raise PackageError(
            f"{called} has the ONNX data type {number}, which this runtime cannot feed or read"
        )
    return DeclaredTensor(called, DTYPES[number], tuple(dims))


def _dim(data: memoryview) -> int | None:
    """A number above 0; None for a name, and for what is not said."""
    value = dict(_fields(data)).get(1)
    return value if isinstance(value, int) and value > 0 and value < 1 << 62 else None


def _text(data: memoryview) -> str:
    return bytes(data).decode("utf-8", "replace")


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Field number, and the field's bytes or its number; fixed-size numbers are left out."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if kind == _BYTES:
            length, position = _varint(data, position)
            if position + length > end:
                raise _cut()
            yield number, data[position : position + length]
            position += length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise PackageError("the weights are not an ONNX file: their bytes do not follow protobuf")
        if position > end or number == 0:
            raise _cut()


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise _cut()
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _cut() -> PackageError:
    return PackageError("the weights end in the middle of a field: the file is truncated or damaged")
