"""What an ONNX file declares: its inputs and outputs, and the files that hold weights outside of it.

The key of an engine covers them, and a device has no `onnx` package. So this walks the protobuf wire format
(`packages.protobuf_wire`), without copying weights. Field numbers are those of onnx.proto: ModelProto.graph = 7,
functions = 25; GraphProto.node = 1, initializer = 5, input = 11, output = 12, sparse_initializer = 15;
FunctionProto.node = 7; NodeProto.attribute = 5; AttributeProto.t = 5, g = 6, tensors = 10, graphs = 11,
sparse_tensor = 22, sparse_tensors = 23; SparseTensorProto.values = 1, indices = 2; ValueInfoProto.name = 1,
type = 2; TypeProto.tensor_type = 1; its elem_type = 1, shape = 2; TensorProto.name = 8, external_data = 13.
"""

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_runtime.errors import PackageError
from edge_runtime.packages.protobuf_wire import fields, parts, text

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
    for number, body in parts(data):
        if number == _FUNCTION:
            external |= _files(body, "function")
        if number != _GRAPH:
            continue
        external |= _files(body, "graph")
        for kind, part in parts(body):
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
    found = [body for number, body in parts(data) if number == _TENSOR_NAME]
    return text(found[-1]) if found else ""


def _files(data: memoryview, kind: str, depth: int = 0) -> set[str]:
    """Files of all tensors in a message: a constant is an attribute of a node, and a loop's body a graph in one."""
    if depth > _DEEPEST:
        raise PackageError("the weights have graphs within graphs that no network has: the file is damaged")
    files: set[str] = set()
    for number, body in parts(data):
        if kind == "tensor":
            if number == _EXTERNAL:
                entry = {key: text(value) for key, value in parts(body)}
                if entry.get(1) == "location":
                    files.add(entry.get(2, ""))
        elif number in _TENSORS[kind]:
            files |= _files(body, _TENSORS[kind][number], depth + 1)
    return files


def _tensor(data: memoryview) -> DeclaredTensor:
    found = dict(parts(data))
    if 1 not in found or 2 not in found:
        raise PackageError("the weights declare an input or output without a name or a type")
    called = text(found[1])
    tensor = dict(parts(found[2])).get(1)
    if tensor is None:
        raise PackageError(
            f"{called} is no tensor: only models with tensors as inputs and outputs can be run"
        )
    number = 0
    dims: list[int | None] = []
    for field in fields(tensor):
        if field.number == 1 and field.value is not None:
            number = field.value
        elif field.number == 2 and field.body is not None:
            dims = [_dim(dim) for at, dim in parts(field.body) if at == 1]
    if number not in DTYPES:
        raise PackageError(
            f"{called} has the ONNX data type {number}, which this runtime cannot feed or read"
        )
    return DeclaredTensor(called, DTYPES[number], tuple(dims))


def _dim(data: memoryview) -> int | None:
    """A number above 0; None for a name, and for what is not said."""
    values = [field.value for field in fields(data) if field.number == 1 and field.value is not None]
    return values[-1] if values and 0 < values[-1] < 1 << 62 else None
