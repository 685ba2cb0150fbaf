"""ONNX Runtime backend: provider asserted, threads set on purpose, runs cancellable.

`get_available_providers` says what was compiled in, not what runs: CUDA libraries or kernels may be missing
and the session then silently runs on the CPU, 30 times slower (microsoft/onnxruntime #23372, #23612). Here
the provider is read from the created session and a warm-up run must succeed before the backend counts as loaded.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from edge_runtime.errors import BackendError, MissingDependency, first_line
from edge_runtime.perception.backends._cancel import Canceller
from edge_runtime.perception.backends.base import (
    PROVING_TIMEOUT_S,
    BackendFacts,
    InferenceTimeout,
    Tensor,
    TensorSpec,
)
from edge_runtime.perception.backends.politely import make

PROVIDERS: Final[dict[str, str]] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
}

_DTYPES: Final[dict[str, str]] = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(uint16)": "uint16",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}

_ORT_FATAL_ONLY = 4

_LARGEST_WARM_UP: Final = 1 << 28
"""Elements of one input: a gigabyte of float32, 100 times what a detector takes. More is a wrong declaration."""


def _import_onnxruntime() -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 (optional: a Jetson may have TensorRT only)
    except ImportError as error:
        raise MissingDependency(
            "onnxruntime is not installed: pip install 'edge-fleet-runtime[device]'"
        ) from error
    return onnxruntime


def _spec(node: Any) -> TensorSpec:
    if node.type not in _DTYPES:
        raise BackendError(f"tensor {node.name} has type {node.type}, which this runtime cannot feed or read")
    shape = tuple(d if isinstance(d, int) and d > 0 else None for d in node.shape)
    return TensorSpec(node.name, np.dtype(_DTYPES[node.type]), shape)


def create_session(weights: Path, *, providers: Sequence[str], threads: int, spinning: bool) -> Any:
    """A bare `onnxruntime.InferenceSession` with exactly the options that the backend uses.

    Raises:
        BackendError: the file does not load.
        MissingDependency: onnxruntime is not installed.
    """
    ort = _import_onnxruntime()
    ort.set_default_logger_severity(_ORT_FATAL_ONLY)
    options = ort.SessionOptions()
    options.intra_op_num_threads = max(1, threads)
    options.inter_op_num_threads = 1
    options.log_severity_level = _ORT_FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    wanted = [PROVIDERS[key] for key in providers]
    try:
        return make(lambda: ort.InferenceSession(str(weights), options, providers=wanted), max(1, threads))
    except Exception as error:
        text = f"{weights.name} does not load in onnxruntime: {first_line(error)}"
        raise BackendError(text) from error


class OnnxRuntimeBackend:
    """One ONNX Runtime session.

    Args:
        weights: the ONNX file.
        providers: keys of `PROVIDERS` in order of preference; the CPU is always the last resort.
        require_gpu: refuse when the effective provider is the CPU.
        threads: intra-op threads, at least 1.
        spinning: let idle intra-op threads spin: faster alone, slower when sessions share cores.
        warm_up: one array per input; without it a zero input of the declared shape is used where every
            dimension but the batch is known.

    Raises:
        BackendError: the file does not load, the first run fails, or `require_gpu` is not met.
        MissingDependency: onnxruntime is not installed.
    """

    def __init__(
        self,
        weights: Path,
        *,
        providers: Sequence[str] = ("cpu",),
        require_gpu: bool = False,
        threads: int = 1,
        spinning: bool = False,
        warm_up: Mapping[str, Tensor] | None = None,
    ) -> None:
        ort = _import_onnxruntime()
        self._ort = ort
        requested = tuple(providers) or ("cpu",)
        if require_gpu and all(key == "cpu" for key in requested):
            raise BackendError("require_gpu is set but providers names the CPU only: add cuda or tensorrt")
        usable, missing = self._usable(ort, requested)
        if require_gpu and usable[0] == "cpu":
            raise BackendError(
                f"require_gpu is set but this onnxruntime {ort.__version__} has no {' or '.join(missing)} "
                f"provider: install onnxruntime-gpu, or drop require_gpu to run degraded on the CPU"
            )
        self._session = create_session(weights, providers=usable, threads=threads, spinning=spinning)
        self._pid = os.getpid()
        self._canceller = Canceller()
        self.inputs: Sequence[TensorSpec] = tuple(_spec(node) for node in self._session.get_inputs())
        self.outputs: Sequence[TensorSpec] = tuple(_spec(node) for node in self._session.get_outputs())
        self._output_names = [node.name for node in self.outputs]
        effective = self._effective_key()
        degraded = self._degraded(requested, effective, missing)
        if require_gpu and effective == "cpu":
            raise BackendError(f"require_gpu is set but {degraded}")
        self.facts = BackendFacts(
            backend="onnxruntime",
            version=ort.__version__,
            requested=requested,
            effective=effective,
            degraded=degraded,
            threads=threads,
        )
        self.in_flight: int | None = None if effective == "cpu" else 1
        feeds = warm_up if warm_up is not None else self._zero_feeds()
        if feeds is not None:
            self.infer(feeds, PROVING_TIMEOUT_S)

    @staticmethod
    def _usable(ort: Any, requested: Sequence[str]) -> tuple[list[str], list[str]]:
        unknown = [key for key in requested if key not in PROVIDERS]
        if unknown:
            raise BackendError(f"unknown provider {unknown[0]}: choose from {', '.join(PROVIDERS)}")
        available = set(ort.get_available_providers())
        usable = [key for key in requested if PROVIDERS[key] in available]
        missing = [key for key in requested if PROVIDERS[key] not in available]
        if "cpu" not in usable:
            usable.append("cpu")
        return usable, missing

    def _effective_key(self) -> str:
        names = {value: key for key, value in PROVIDERS.items()}
        active = self._session.get_providers()
        return names.get(active[0], str(active[0]))

    @staticmethod
    def _degraded(requested: Sequence[str], effective: str, missing: Sequence[str]) -> str | None:
        if effective == requested[0]:
            return None
        why = (
            "its provider is not in this onnxruntime build" if requested[0] in missing else "it did not load"
        )
        return f"{requested[0]} was asked for but {effective} runs the model ({why})"

    def _zero_feeds(self) -> dict[str, Tensor] | None:
        feeds: dict[str, Tensor] = {}
        for spec in self.inputs:
            if any(dim is None for dim in spec.shape[1:]):
                return None
            shape = [spec.shape[0] or 1, *spec.shape[1:]] if spec.shape else []
            sides = [dim or 1 for dim in shape]
            if math.prod(sides) > _LARGEST_WARM_UP:
                raise BackendError(
                    f"the input {spec.name} is declared {'x'.join(map(str, sides))}, more than can be fed"
                )
            feeds[spec.name] = np.zeros(sides, spec.dtype)
        return feeds

    def infer(self, feeds: Mapping[str, Tensor], timeout_s: float | None = None) -> list[Tensor]:
        """Run the graph once; see `Backend.infer`."""
        if os.getpid() != self._pid:
            raise BackendError("this model was loaded in another process: load it after the spawn")
        options = self._ort.RunOptions()
        options.log_severity_level = _ORT_FATAL_ONLY
        ticket = None if timeout_s is None else self._canceller.arm(options, time.monotonic() + timeout_s)
        try:
            outputs: list[Tensor] = self._session.run(self._output_names, dict(feeds), options)
        except Exception as error:
            if ticket is not None and self._canceller.fired(ticket):
                raise InferenceTimeout(
                    f"the model did not answer within {timeout_s:g} s and was cancelled"
                ) from error
            raise BackendError(f"inference failed: {first_line(error)}") from error
        finally:
            if ticket is not None:
                self._canceller.disarm(ticket)
        return outputs

    def close(self) -> None:
        """Free the session; calling it twice is allowed."""
        self._canceller.close()
        self._session = None
