"""Inference backends behind one seam.

`load_backend` opens an ONNX file with ONNX Runtime. An engine is opened by `backends.tensorrt.TensorRtBackend`,
behind the same `Backend` protocol; which of the two runs a model is decided in the room `engines`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_runtime.perception.backends.base import (
    PROVING_TIMEOUT_S,
    Backend,
    BackendFacts,
    DevicePreparing,
    FramePreparer,
    InferenceTimeout,
    Tensor,
    TensorSpec,
)
from edge_runtime.perception.backends.onnxruntime import PROVIDERS, OnnxRuntimeBackend, create_session


def load_backend(
    weights: Path,
    *,
    providers: Sequence[str] = ("cpu",),
    require_gpu: bool = False,
    threads: int = 1,
    spinning: bool = False,
    warm_up: Mapping[str, Tensor] | None = None,
) -> Backend:
    """Load `weights` and warm the model up.

    Args:
        weights: an ONNX file.
        providers: `cpu`, `cuda` in order of preference.
        require_gpu: refuse to run on the CPU.
        threads: intra-op threads of one run.
        spinning: let idle intra-op threads spin.
        warm_up: feeds of the first run, for graphs with dynamic sizes.

    Raises:
        BackendError: the model does not load or run as asked.
        MissingDependency: the library is not installed.
    """
    return OnnxRuntimeBackend(
        weights,
        providers=providers,
        require_gpu=require_gpu,
        threads=threads,
        spinning=spinning,
        warm_up=warm_up,
    )


__all__ = [
    "PROVIDERS",
    "PROVING_TIMEOUT_S",
    "Backend",
    "BackendFacts",
    "DevicePreparing",
    "FramePreparer",
    "InferenceTimeout",
    "OnnxRuntimeBackend",
    "Tensor",
    "TensorSpec",
    "create_session",
    "load_backend",
]
