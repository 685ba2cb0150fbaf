"""Reads what an ONNX file declares about itself, with the `onnx` package (extra `models`)."""

import ast
import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from edge_runtime.authoring.sniff import why_not_a_model
from edge_runtime.errors import MissingDependency, PackageError

_MAX_BYTES = 2_000_000_000  # one protobuf message cannot be larger


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A graph input or output as declared.

    Attributes:
        dtype: numpy's name, or `object` for what this runtime cannot feed.
        dims: a number, or None where the declaration leaves it open.
    """

    name: str
    dtype: str
    dims: tuple[int | None, ...]

    def __str__(self) -> str:
        """`images 1x3x640x640 float32`."""
        size = "x".join("?" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name} {size or 'scalar'} {self.dtype}"


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """What the file says.

    Attributes:
        weights: the file's bytes; with external tensors taken in where it had some.
        embedded: names of the external files that were taken in.
        inputs, outputs: without the initializers that old exporters list as inputs.
        metadata: `metadata_props`.
        opset: version of the standard operator set.
        operators: how many nodes of each type.
        half_precision: most weights are float16.
        nonfinite: initializers that hold NaN or infinity.
        classes: numbers of classes that the graph computes with after a top-k, or whose predictors it names.
    """

    weights: bytes
    embedded: tuple[str, ...]
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    metadata: Mapping[str, str]
    producer: str
    graph_name: str
    opset: int
    operators: Mapping[str, int]
    half_precision: bool
    nonfinite: tuple[str, ...]
    classes: frozenset[int]

    def metadata_value(self, key: str) -> Any:
        """A metadata entry as a Python value, read as JSON or as a Python literal; None where absent."""
        text = self.metadata.get(key)
        if text is None:
            return None
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return ast.literal_eval(text)
        return text


def read_graph(path: Path) -> GraphFacts:
    """Read an ONNX file.

    Raises:
        PackageError: one sentence about why the file is not a model that can be imported.
        MissingDependency: the `onnx` package is not installed.
    """
    try:
        if path.is_dir():
            raise PackageError(f"{path} is a folder, so there is no such file: name the ONNX file in it")
        if path.exists() and not path.is_file():
            raise PackageError(f"{path} is not a regular file: copy what it delivers into one first")
        if not path.exists():
            raise PackageError(f"{path}: there is no such file")
        if (reason := why_not_a_model(path)) is not None:
            raise PackageError(reason)
        if path.stat().st_size >= _MAX_BYTES:
            raise PackageError(f"{path} is larger than 2 GB, which a single ONNX file cannot be")
        data = path.read_bytes()
    except OSError as error:
        raise PackageError(f"{path}: cannot be read: {error.strerror}") from error
    onnx = _import_onnx()
    model = _parse(onnx, path, data)
    embedded = _embed_external(onnx, model, path)
    weights = model.SerializeToString() if embedded else data
    graph = model.graph
    constants = _constants(onnx, graph)
    held = {tensor.name for tensor in graph.initializer}
    return GraphFacts(
        weights=weights,
        embedded=embedded,
        inputs=tuple(_tensor(onnx, value) for value in graph.input if value.name not in held),
        outputs=tuple(_tensor(onnx, value) for value in graph.output),
        metadata={entry.key: entry.value for entry in model.metadata_props},
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        graph_name=graph.name,
        opset=max(
            (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0
        ),
        operators=dict(Counter(node.op_type for node in graph.node)),
        half_precision=_half(onnx, graph),
        nonfinite=tuple(_nonfinite(constants)),
        classes=frozenset([*_classes_after_topk(graph, constants), *_classes_of_predictors(constants)]),
    )


def _import_onnx() -> Any:
    try:
        import onnx  # noqa: PLC0415 (a person's machine has it, a device need not)
    except ImportError as error:
        raise MissingDependency(
            "importing needs the onnx package: pip install 'edge-fleet-runtime[models]'"
        ) from error
    return onnx


def _parse(onnx: Any, path: Path, data: bytes) -> Any:
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf raises kinds of its own
        raise PackageError(
            f"{path} is not an ONNX model: its bytes do not follow protobuf (truncated, damaged, or another format)"
        ) from error
    if not model.graph.node or not model.graph.output:
        raise PackageError(f"{path} is not an ONNX model: it holds no graph (truncated, or another format)")
    return model


def _tensors(onnx: Any, graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(onnx, attribute.g)


def _embed_external(onnx: Any, model: Any, path: Path) -> tuple[str, ...]:
    """Take in tensors that lie in files beside the model."""
    names: list[str] = []
    for tensor in _tensors(onnx, model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        name = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        pure = PurePosixPath(name)
        if not name or pure.is_absolute() or ".." in pure.parts:
            raise PackageError(
                f"{path} keeps weights in {name or 'a file without a name'}, outside its folder"
            )
        if not (path.parent / pure).is_file():
            raise PackageError(
                f"{path} holds only the graph: its weights are in {name}, which is not beside it "
                f"(copy both files into one folder)"
            )
        if name not in names:
            names.append(name)
    if names:
        try:
            onnx.load_external_data_for_model(model, str(path.parent))
        except Exception as error:  # onnx raises several kinds
            raise PackageError(
                f"the weights in {names[0]} beside {path} are shorter than the graph needs"
            ) from error
    return tuple(names)


def _tensor(onnx: Any, value: Any) -> TensorFacts:
    kind = value.type.tensor_type
    try:
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except (KeyError, ValueError, TypeError):
        dtype = "object"
    dims = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None for dim in kind.shape.dim
    )
    return TensorFacts(value.name, dtype, dims)


def _constants(onnx: Any, graph: Any) -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = {}
    for tensor in graph.initializer:
        _keep(onnx, found, tensor.name, tensor)
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    _keep(onnx, found, node.output[0], attribute.t)
    return found


def _keep(onnx: Any, found: dict[str, np.ndarray[Any, Any]], name: str, tensor: Any) -> None:
    try:
        found[name] = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        return  # a tensor whose bytes do not fit its shape: loading the graph will say so


def _half(onnx: Any, graph: Any) -> bool:
    sizes = Counter[int]()
    for tensor in graph.initializer:
        sizes[tensor.data_type] += int(np.prod(tensor.dims, dtype=np.int64)) if tensor.dims else 1
    return sizes[onnx.TensorProto.FLOAT16] > sizes[onnx.TensorProto.FLOAT]


def _nonfinite(constants: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[str]:
    for name, array in constants.items():
        # Attention masks and clip limits are infinite on purpose and small; a NaN never is on purpose.
        if array.dtype.kind == "f" and np.isnan(array).any():
            yield name


def _classes_after_topk(graph: Any, constants: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[int]:
    """End-to-end heads flatten (queries, classes), take the top k, and divide the index by the classes."""
    indices = {node.output[1] for node in graph.node if node.op_type == "TopK" and len(node.output) > 1}
    for node in graph.node:
        if node.op_type in ("Div", "Mod") and node.input[0] in indices:
            divisor = constants.get(node.input[1])
            if divisor is not None and divisor.size == 1 and divisor.dtype.kind in "iu":
                yield int(divisor.reshape(-1)[0])


def _classes_of_predictors(constants: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[int]:
    """TensorFlow's SSD keeps its scopes: per anchor, the class predictor has 1 + C biases and the box one 4."""
    for name, array in constants.items():
        if "ClassPredictor/biases" in name and array.ndim == 1:
            boxes = constants.get(name.replace("ClassPredictor", "BoxEncodingPredictor"))
            if (
                boxes is not None
                and boxes.ndim == 1
                and boxes.size
                and array.size % (boxes.size // 4 or 1) == 0
            ):
                yield array.size // (boxes.size // 4) - 1
