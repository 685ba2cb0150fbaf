"""One deserialised engine: its tensors, its optimisation profiles, its execution contexts.

Only names that TensorRT has from 10.3 to 11 are used. Everything here belongs to the thread that made it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from edge_runtime.clock import SystemClock
from edge_runtime.errors import BackendError, MissingDependency
from edge_runtime.health.jetson import is_jetson
from edge_runtime.health.sysfiles import SysFiles
from edge_runtime.perception.backends.base import TensorSpec
from edge_runtime.perception.backends.tensorrt._cuda import OutOfDeviceMemory
from edge_runtime.perception.backends.tensorrt.context import EngineContext
from edge_runtime.perception.backends.tensorrt.errors import EngineRefused
from edge_runtime.perception.backends.tensorrt.log import EngineLog, log_of, quoted, says_memory
from edge_runtime.perception.backends.tensorrt.plugins import PluginLibrary, load_plugins
from edge_runtime.perception.backends.tensorrt.shapes import (
    Profile,
    Shape,
    ShapeRange,
    sizes,
)

_DTYPES: Final = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}


def missing_tensorrt(root: Path = Path("/")) -> str:
    """That TensorRT is not installed, and what brings it to this machine.

    Args:
        root: where etc and proc lie.
    """
    if is_jetson(SysFiles(root, SystemClock())):
        return (
            "TensorRT is not installed here: `sudo apt install python3-libnvinfer`, and a virtual environment with "
            "--system-site-packages"
        )
    return (
        "TensorRT is not installed here: `pip install tensorrt cuda-bindings` brings it to a machine with an "
        "NVIDIA GPU"
    )


def import_tensorrt(root: Path = Path("/")) -> Any:
    """The module `tensorrt`.

    Args:
        root: where etc and proc lie, which tell what would bring it.

    Raises:
        MissingDependency: it is not installed, or its libraries do not load; the text says which of the two.
    """
    try:
        import tensorrt as trt  # noqa: PLC0415 - a machine without it runs models by ONNX Runtime
    except (ImportError, OSError) as error:
        if getattr(error, "name", None) == "tensorrt":
            raise MissingDependency(missing_tensorrt(root)) from None
        raise MissingDependency(f"TensorRT is installed but cannot be imported: {error}") from error
    return trt


@dataclass(frozen=True, slots=True)
class EngineTensor:
    """An input or output of an engine.

    Attributes:
        spec: name, dtype, and shape with None where it may vary.
        largest: its shape at the largest that the profiles allow.
        on_host: whether TensorRT reads or writes it in the host's memory.
    """

    spec: TensorSpec
    largest: Shape
    on_host: bool

    @property
    def nbytes(self) -> int:
        """Bytes at its largest; one at least, since no tensor may be without an address."""
        return max(1, math.prod(self.largest) * self.spec.dtype.itemsize)


class Engine:
    """A deserialised engine and its execution contexts.

    Args:
        trt: the module `tensorrt`.
        data: the serialised engine.
        model: name for messages.
        stream: in which contexts change their profile.
        plugins: libraries with layers of the engine.

    Attributes:
        tensors: inputs and outputs in the engine's order.
        profiles: what each optimisation profile allows of each input.
        context: the first execution context.

    Raises:
        EngineRefused: TensorRT does not take it, or a tensor of it cannot be fed or read here.
        PluginRefused: a plugin library is not loaded; it says nothing about the engine.
        OutOfDeviceMemory: there is no room for it.
    """

    def __init__(
        self, trt: Any, data: bytes, model: str, stream: int, plugins: Sequence[PluginLibrary] = ()
    ) -> None:
        self._trt, self._model, self._stream = trt, model, stream
        self._log: EngineLog = log_of(trt)
        self._contexts: list[EngineContext] = []
        self._engine: Any = None
        self._runtime: Any = None
        mark = self._log.mark()
        try:
            self._runtime = self._started(mark)
            # An engine may carry code for the host; a file on a disk is not trusted that far.
            self._runtime.engine_host_code_allowed = False
            trt.init_libnvinfer_plugins(self._log.logger, "")
            load_plugins(self._runtime, plugins, self._log)
            self._engine = self._runtime.deserialize_cuda_engine(data)
            if self._engine is None:
                raise self.refusal(mark, "TensorRT does not load the engine")
            self._inputs = frozenset(name for name in self._names() if self._is_input(name))
            self.profiles: tuple[Profile, ...] = tuple(self._read_profiles())
            self.context = self.create_context()
            self.tensors = self._read_tensors()
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> str:
        """Of TensorRT."""
        return str(self._trt.__version__)

    @property
    def inputs(self) -> tuple[EngineTensor, ...]:
        """In the engine's order."""
        return tuple(tensor for tensor in self.tensors if tensor.spec.name in self._inputs)

    @property
    def outputs(self) -> tuple[EngineTensor, ...]:
        """In the engine's order."""
        return tuple(tensor for tensor in self.tensors if tensor.spec.name not in self._inputs)

    def mark(self) -> int:
        """The place in TensorRT's log where a call begins."""
        return self._log.mark()

    def refusal(self, mark: int, what: str) -> BackendError:
        """The error for a call that failed, with what TensorRT said since `mark`."""
        lines = self._log.since(mark)
        text = f"{self._model}: {what}; {quoted(lines)}"
        if says_memory(lines):
            return OutOfDeviceMemory(text)
        return EngineRefused(text, lines)

    def create_context(self) -> EngineContext:
        """One more execution context, with device memory of its own.

        Raises:
            OutOfDeviceMemory: there is no room.
            EngineRefused: TensorRT gives none for another reason.
        """
        mark = self.mark()
        context = self._engine.create_execution_context()
        if context is None:
            raise self.refusal(mark, "TensorRT gives no execution context")
        made = EngineContext(self, context, self._stream)
        self._contexts.append(made)
        return made

    def drop_context(self, context: EngineContext) -> None:
        """Free an execution context."""
        self._contexts.remove(context)
        context.close()

    def close(self) -> None:
        """Free contexts, engine and runtime in this order; calling it twice is allowed."""
        while self._contexts:
            self._contexts.pop().close()
        self._engine = None
        self._runtime = None

    def _started(self, mark: int) -> Any:
        try:
            return self._trt.Runtime(self._log.logger)
        except (TypeError, RuntimeError) as error:  # the bindings make these of a null pointer
            raise self.refusal(mark, "TensorRT does not start here") from error

    # ---- what the engine declares

    def _names(self) -> Iterator[str]:
        for index in range(self._engine.num_io_tensors):
            yield str(self._engine.get_tensor_name(index))

    def _is_input(self, name: str) -> bool:
        return bool(self._engine.get_tensor_mode(name) == self._trt.TensorIOMode.INPUT)

    def _read_profiles(self) -> Iterator[Profile]:
        for name in self._inputs:
            if self._engine.is_shape_inference_io(name):
                raise EngineRefused(
                    f"{self._model}: the input {name} decides sizes inside the network, which this runtime does "
                    f"not feed: export the model without it"
                )
        for index in range(self._engine.num_optimization_profiles):
            yield {name: self._allowed(name, index) for name in self._inputs}

    def _allowed(self, name: str, profile: int) -> ShapeRange:
        declared = sizes(self._engine.get_tensor_shape(name))
        if -1 not in declared:
            return ShapeRange(declared, declared)
        minimum, _, maximum = self._engine.get_tensor_profile_shape(name, profile)
        return ShapeRange(sizes(minimum), sizes(maximum))

    def _read_tensors(self) -> tuple[EngineTensor, ...]:
        largest = self._largest()
        tensors = []
        for name in self._names():
            dtype = str(self._engine.get_tensor_dtype(name).name)
            if dtype not in _DTYPES:
                raise EngineRefused(
                    f"{self._model}: the tensor {name} is {dtype}, which this runtime cannot feed or read: "
                    f"keep inputs and outputs in float32 or float16"
                )
            if min(largest[name], default=0) < 0:
                raise EngineRefused(
                    f"{self._model}: the size of the output {name} depends on the picture: export the model "
                    f"with a fixed number of boxes, or without suppression inside"
                )
            declared = sizes(self._engine.get_tensor_shape(name))
            spec = TensorSpec(name, np.dtype(_DTYPES[dtype]), tuple(s if s >= 0 else None for s in declared))
            on_host = self._engine.get_tensor_location(name) == self._trt.TensorLocation.HOST
            tensors.append(EngineTensor(spec, largest[name], bool(on_host)))
        return tuple(tensors)

    def _largest(self) -> dict[str, Shape]:
        """Of each tensor over all profiles; a context tells which outputs come of which inputs."""
        found: dict[str, Shape] = {}
        for profile in self.profiles:
            shapes = {name: allowed.maximum for name, allowed in profile.items()}
            self.context.set_shapes(shapes)
            for name in self._names():
                shape = self.context.shape(name)
                if min(shape, default=0) < 0 or math.prod(shape) >= math.prod(found.get(name, (0,))):
                    found[name] = shape
        return found
