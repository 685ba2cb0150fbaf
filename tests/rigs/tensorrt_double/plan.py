"""The bytes of an engine of the double: a header that says who built it for what, and the ONNX model itself."""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime

MAGIC: Final = b"ftrtdbl1"

TRT_TYPES: Final[Mapping[int, str]] = {
    onnx.TensorProto.FLOAT: "FLOAT",
    onnx.TensorProto.FLOAT16: "HALF",
    onnx.TensorProto.INT8: "INT8",
    onnx.TensorProto.INT32: "INT32",
    onnx.TensorProto.BOOL: "BOOL",
    onnx.TensorProto.UINT8: "UINT8",
    onnx.TensorProto.BFLOAT16: "BF16",
    onnx.TensorProto.INT64: "INT64",
}

NUMPY: Final[Mapping[str, str]] = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "INT32": "int32",
    "BOOL": "bool",
    "UINT8": "uint8",
    "INT64": "int64",
}

_DATA_DEPENDENT: Final = frozenset({"NonMaxSuppression", "NonZero", "Unique", "Compress"})


class DamagedPlan(ValueError):
    """These bytes are no engine, or not all of one."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output; -1 is a dimension that the profile or the data decides."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_input: bool

    @property
    def numpy(self) -> np.dtype[Any]:
        """Element type."""
        return np.dtype(NUMPY[self.dtype])


Shapes = Mapping[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]
"""Minimum, optimum and maximum of each input."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An engine as it is serialised; `plugins` are the layers in it that only a plugin library has."""

    version: str
    gpu: str
    compute_capability: tuple[int, int]
    tensors: tuple[Tensor, ...]
    plugins: tuple[str, ...]
    profiles: tuple[Shapes, ...]
    flags: tuple[str, ...]
    workspace: int
    model: bytes

    def serialise(self) -> bytes:
        """Magic, length and digest of what follows, header, ONNX."""
        head = {key: value for key, value in asdict(self).items() if key != "model"}
        body = json.dumps(head, sort_keys=True).encode()
        body = struct.pack("<I", len(body)) + body + self.model
        return MAGIC + struct.pack("<Q", len(body)) + hashlib.sha256(body).digest() + body


def read_plan(data: bytes) -> Plan:
    """Raises DamagedPlan where the bytes are not those that were written."""
    if data[:8] != MAGIC or len(data) < 52:
        raise DamagedPlan("magic tag does not match")
    (length,) = struct.unpack("<Q", data[8:16])
    body = data[48:]
    if len(body) != length:
        raise DamagedPlan(f"the plan has {len(body)} bytes, not {length}")
    if hashlib.sha256(body).digest() != data[16:48]:
        raise DamagedPlan("checksum does not match")
    (size,) = struct.unpack("<I", body[:4])
    head = json.loads(body[4 : 4 + size])
    tensors = tuple(Tensor(t["name"], t["dtype"], tuple(t["shape"]), t["is_input"]) for t in head["tensors"])
    profiles = tuple(
        {name: (tuple(low), tuple(best), tuple(high)) for name, (low, best, high) in profile.items()}
        for profile in head["profiles"]
    )
    return Plan(
        head["version"],
        head["gpu"],
        tuple(head["compute_capability"]),
        tensors,
        tuple(head["plugins"]),
        profiles,
        tuple(head["flags"]),
        head["workspace"],
        bytes(body[4 + size :]),
    )


def tensors_of(model: onnx.ModelProto) -> tuple[Tensor, ...]:
    """Inputs, then outputs, in the graph's order; an output's size is what inference gives or -1.

    Raises:
        KeyError: an element type that TensorRT has not.
    """
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [_tensor(v, is_input=True) for v in model.graph.input if v.name not in held]
    return (*inputs, *(_tensor(v, is_input=False) for v in model.graph.output))


def _tensor(value: onnx.ValueInfoProto, *, is_input: bool) -> Tensor:
    kind = value.type.tensor_type
    shape = tuple(int(d.dim_value) if d.dim_value > 0 else -1 for d in kind.shape.dim)
    return Tensor(value.name, TRT_TYPES[kind.elem_type], shape, is_input)


@lru_cache(maxsize=4)
def session(model: bytes) -> Any:
    """An onnxruntime session on one thread; it may be used by several, and serves every engine of the model.

    What an engine holds on the device is the ledger's affair, so that nothing is hidden by keeping a few here.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class OutputShapes:
    """What shapes the outputs have for given input shapes; each set of input shapes is looked at once.

    Args:
        plan: the engine.
        run: of its session.
    """

    def __init__(self, plan: Plan, run: Any) -> None:
        self._plan = plan
        self._session = run
        self._known: dict[tuple[tuple[int, ...], ...], dict[str, tuple[int, ...]]] = {}
        operators = {node.op_type for node in onnx.load_model_from_string(plan.model).graph.node}
        self._data_decides = bool(operators & _DATA_DEPENDENT)

    def of(self, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Shapes by output; -1 where only the data decides."""
        declared = {t.name: t.shape for t in self._plan.tensors if not t.is_input}
        if all(d >= 0 for shape in declared.values() for d in shape) or self._data_decides:
            return declared
        key = tuple(inputs[t.name] for t in self._plan.tensors if t.is_input)
        if key not in self._known:
            feeds = {t.name: np.zeros(inputs[t.name], t.numpy) for t in self._plan.tensors if t.is_input}
            found = self._session.run(list(declared), feeds)
            self._known[key] = {n: tuple(a.shape) for n, a in zip(declared, found, strict=True)}
        return self._known[key]


def first_problem(shapes: Sequence[int], low: Sequence[int], high: Sequence[int]) -> str | None:
    """Why a shape is outside a range, or None."""
    if len(shapes) != len(low):
        return f"has {len(shapes)} dimensions instead of {len(low)}"
    for place, (got, least, most) in enumerate(zip(shapes, low, high, strict=True)):
        if not least <= got <= most:
            return f"dimension {place} is {got}, outside {least}..{most}"
    return None
