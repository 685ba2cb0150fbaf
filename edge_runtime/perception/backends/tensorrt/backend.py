"""The TensorRT backend: an engine's bytes become a `Backend`. It knows no store and builds nothing."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from edge_runtime.errors import BackendError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import BackendFacts, Tensor, TensorSpec
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, WrongThread, open_cuda
from edge_runtime.perception.backends.tensorrt.device_preprocess import PICTURE, DevicePreprocessor
from edge_runtime.perception.backends.tensorrt.pictures import PictureMemory
from edge_runtime.perception.backends.tensorrt.plugins import PluginLibrary
from edge_runtime.perception.backends.tensorrt.session import DeviceSession, SessionOptions
from edge_runtime.perception.backends.tensorrt.shapes import dimensions
from edge_runtime.perception.backends.tensorrt.worker import Worker
from edge_runtime.telemetry import get_logger


class TensorRtBackend:
    """One engine on the first GPU. Safe from several threads: a thread of its own does every call of CUDA.

    Args:
        engine: serialised by this TensorRT for this GPU.
        model: name for messages and for the thread.
        prepare: where pictures become the model's input, for `preprocessor`.
        input_spec: the model's input; without it there is no `preprocessor`.
        in_flight: runs on the device at once; 2 overlap copies with the network.
        open_device: called on the backend's thread.
        plugins: libraries with layers of the engine.
        cuda_graphs: repeat the network's launches as graphs; takes memory, and is not measured yet.
        mapped: let the device use page-locked memory itself instead of copying; of use where both share the
            memory, and not measured yet.

    Attributes:
        inputs: as the engine declares them. outputs: likewise.
        facts: see `BackendFacts`.
        in_flight: as given.

    Raises:
        MissingDependency: TensorRT, or a library for CUDA, is not installed.
        EngineRefused: TensorRT does not take the engine.
        PluginRefused: a plugin library is not loaded.
        OutOfDeviceMemory: it does not fit.
        BackendError: anything else keeps it from running.
    """

    def __init__(
        self,
        engine: bytes,
        *,
        model: str,
        prepare: Literal["cpu", "gpu"] = "gpu",
        input_spec: InputSpec | None = None,
        in_flight: int = 2,
        open_device: Callable[[], Cuda] = open_cuda,
        plugins: Sequence[PluginLibrary] = (),
        cuda_graphs: bool = False,
        mapped: bool = False,
    ) -> None:
        if in_flight < 1:
            raise BackendError(f"in_flight is {in_flight}: at least one run must be allowed at once")
        self._pid, self._model = os.getpid(), model
        self._pictures = PictureMemory()
        options = SessionOptions(
            model=model,
            places=in_flight,
            input_spec=input_spec if prepare == "gpu" else None,
            cuda_graphs=cuda_graphs,
            mapped=mapped,
            plugins=tuple(plugins),
        )
        self._worker = Worker(partial(DeviceSession, open_device, engine, options, self._pictures), model)
        try:
            described: _Description = self._worker.call(_Description)
        except BaseException:
            self._worker.close()
            raise
        self.in_flight: int | None = in_flight
        self.inputs: Sequence[TensorSpec] = described.inputs
        self.outputs: Sequence[TensorSpec] = described.outputs
        self.facts = described.facts
        self._largest = described.largest
        self._spec = input_spec if described.facts.preparation == "gpu" else None

    def preprocessor(self, spec: InputSpec) -> DevicePreprocessor | None:
        """Prepares pictures of `spec` on the GPU; None where the CPU has to."""
        if self._spec is None or spec != self._spec:
            return None
        return DevicePreprocessor(spec, self._pictures, self._grow)

    def _grow(self, number: int, nbytes: int) -> None:
        self._require_process()
        self._worker.call(lambda session: session.picture_memory(number, nbytes))

    def _require_process(self) -> None:
        if os.getpid() != self._pid:
            raise WrongThread(f"{self._model} was loaded in another process: load it after the spawn")

    def infer(self, feeds: Mapping[str, Tensor], timeout_s: float | None = None) -> list[Tensor]:
        """Run the engine once; see `Backend.infer`.

        A run cannot be cancelled on the device. After an `InferenceTimeout` of a run that had begun, further runs
        are refused until it ends.
        """
        self._require_process()
        return self._worker.run({name: self._checked(name, feeds) for name in self._largest}, timeout_s)

    def _checked(self, name: str, feeds: Mapping[str, Tensor]) -> Tensor:
        unknown = [key for key in feeds if key not in self._largest]
        if unknown or name not in feeds:
            raise BackendError(
                f"{self._model}: the engine takes {', '.join(self._largest)}, not {', '.join(feeds) or 'nothing'}"
            )
        array, (dtype, largest) = feeds[name], self._largest[name]
        if array.dtype == PICTURE:
            records: Tensor = array.copy()
            return records
        if array.dtype != dtype:
            raise BackendError(f"{self._model}: {name} must be {dtype}, not {array.dtype}")
        if array.ndim != len(largest) or any(a > b for a, b in zip(array.shape, largest, strict=True)):
            raise BackendError(
                f"{self._model}: {name} is {dimensions(array.shape)}, but the engine takes at most "
                f"{dimensions(largest)}"
            )
        return array

    def close(self) -> None:
        """Free the model; what is on the device ends first. Calling it twice is allowed."""
        if os.getpid() == self._pid and not self._worker.close():
            get_logger().warning("the device does not let go of a closed model", model=self._model)


class _Description:
    """What a session says of itself, read on its thread."""

    def __init__(self, session: DeviceSession) -> None:
        engine, device = session.engine, session.device
        self.inputs = tuple(tensor.spec for tensor in engine.inputs)
        self.outputs = tuple(tensor.spec for tensor in engine.outputs)
        self.largest: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
            tensor.spec.name: (tensor.spec.dtype, tensor.largest) for tensor in engine.inputs
        }
        self.facts = BackendFacts(
            backend="tensorrt",
            version=engine.version,
            requested=("tensorrt",),
            effective="tensorrt",
            device=f"{device.device_name}, {device.library}",
            preparation="cpu" if session.preparation is None else "gpu",
            note=session.note,
        )
