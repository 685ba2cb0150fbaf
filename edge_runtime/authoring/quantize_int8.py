"""INT8 by ONNX Runtime's static quantisation: symmetric Q/DQ in signed 8 bits, a weight scale per channel.

Biases stay in 32-bit floats: TensorRT refuses a DequantizeLinear of 32-bit integers (onnx/onnx-tensorrt #850,
microsoft/onnxruntime #14229), which is what ONNX Runtime makes of them unless it is told not to.
"""

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from edge_runtime.authoring.quantize_graph import (
    LAYER_TYPES,
    drop_unused,
    layers,
    load,
    name_nodes,
    require_symmetric,
)
from edge_runtime.errors import PackageError, first_line
from edge_runtime.packages.scratch import scratch_directory
from edge_runtime.perception.backends import Tensor

CalibrationMethod = Literal["entropy", "percentile", "minmax"]

_PERCENTILE: Final = 99.99
_CHUNK: Final = 4
"""Pictures whose intermediate tensors are held at once; a small detector makes 30 MB of them for each."""

_METHODS: Final[dict[CalibrationMethod, tuple[str, dict[str, Any]]]] = {
    "entropy": ("Entropy", {"symmetric": True}),
    "percentile": ("Percentile", {"symmetric": True, "percentile": _PERCENTILE}),
    "minmax": ("MinMax", {}),
}


@dataclass(frozen=True, slots=True)
class Quantised:
    """A graph in 8 bits with everything that can be left alone, and the 32-bit graph that it was made from.

    Attributes:
        parent: the graph before Q/DQ, folded and with the same node names.
        model: with Q/DQ around every layer.
        tool: what made it, for the manifest.
    """

    parent: Any
    model: Any
    tool: str


def quantise(
    weights: bytes,
    feeds: Iterable[Mapping[str, Tensor]],
    method: CalibrationMethod,
    progress: Callable[[int], None] = lambda _done: None,
) -> Quantised:
    """Measure the ranges of all layers' inputs, and put Q/DQ around every layer.

    Args:
        weights: ONNX file in 32 bits.
        feeds: prepared pictures, as the backend takes them.
        method: how a range is chosen from the values that were seen.
        progress: called with the number of pictures that were looked at.

    Raises:
        PackageError: a graph that cannot be quantised, or ranges that are none.
    """
    with scratch_directory("quantize") as scratch:
        parent = _folded(weights, scratch)
        ranges = _ranges(parent, feeds, method, scratch, progress)
    return Quantised(parent, _with_qdq(parent, ranges), _tool())


def _tool() -> str:
    import onnxruntime  # noqa: PLC0415

    return f"onnxruntime {onnxruntime.__version__} static Q/DQ"


def _folded(weights: bytes, scratch: Path) -> Any:
    """The graph with constants and batch normalisations folded: a scale per channel is of the folded weights."""
    import onnx  # noqa: PLC0415
    import onnxruntime  # noqa: PLC0415

    given, folded = scratch / "given.onnx", scratch / "folded.onnx"
    onnx.save(load(weights), str(given))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(given), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises several kinds
        raise PackageError(f"the graph cannot be prepared for quantising: {first_line(error)}") from error
    model = onnx.load(str(folded))
    drop_unused(model)
    name_nodes(model)
    return model


class _Reader:
    """Feeds as ONNX Runtime's calibrators ask for them."""

    def __init__(self, feeds: Iterable[Mapping[str, Tensor]]) -> None:
        self._feeds: Iterator[Mapping[str, Tensor]] = iter(feeds)

    def get_next(self) -> dict[str, Tensor] | None:
        feed = next(self._feeds, None)
        return None if feed is None else dict(feed)


def _ranges(
    parent: Any,
    feeds: Iterable[Mapping[str, Tensor]],
    method: CalibrationMethod,
    scratch: Path,
    progress: Callable[[int], None],
) -> Any:
    import onnx  # noqa: PLC0415
    from onnxruntime.quantization import CalibrationMethod as Methods  # noqa: PLC0415
    from onnxruntime.quantization import create_calibrator  # noqa: PLC0415

    path = scratch / "parent.onnx"
    onnx.save(parent, str(path))
    name, options = _METHODS[method]
    done = 0
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # the calibrators print
            calibrator = create_calibrator(
                path,
                list(LAYER_TYPES),
                augmented_model_path=str(scratch / "augmented.onnx"),
                calibrate_method=Methods[name],
                extra_options=options,
            )
            pending = iter(feeds)
            while chunk := list(islice(pending, _CHUNK)):
                calibrator.collect_data(_Reader(chunk))
                done += len(chunk)
                progress(done)
            return calibrator.compute_data()
    except Exception as error:
        raise PackageError(f"the graph cannot be calibrated: {first_line(error)}") from error


def _with_qdq(parent: Any, ranges: Any) -> Any:
    import onnx  # noqa: PLC0415
    from onnxruntime.quantization import QDQQuantizer, QuantType  # noqa: PLC0415

    copy = onnx.ModelProto()
    copy.CopyFrom(parent)
    known = set(layers(parent))  # a product of two activations has no weights, and stays as it is
    others = [
        node.name for node in parent.graph.node if node.op_type in LAYER_TYPES and node.name not in known
    ]
    try:
        quantizer = QDQQuantizer(
            copy,
            per_channel=True,
            reduce_range=False,
            weight_qType=QuantType.QInt8,
            activation_qType=QuantType.QInt8,
            tensors_range=ranges,
            nodes_to_quantize=[],
            nodes_to_exclude=others,
            op_types_to_quantize=list(LAYER_TYPES),
            extra_options={
                "ActivationSymmetric": True,
                "WeightSymmetric": True,
                "QuantizeBias": False,
                "OpTypesToExcludeOutputQuantization": list(LAYER_TYPES),
            },
        )
        quantizer.quantize_model()
    except Exception as error:
        raise PackageError(f"the graph cannot be quantised: {first_line(error)}") from error
    model = quantizer.model.model
    drop_unused(model)
    require_symmetric(model)
    return model
