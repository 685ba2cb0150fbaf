"""Runs of one engine on the device: two places that are filled in turn, and three streams that overlap.

A run's inputs are copied in (and its pictures prepared) in one stream, the network runs in the second, its outputs
are copied out in the third; events order the three. The copy in of a run overlaps the network of the run before it.
Everything here belongs to the thread that made it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from edge_runtime.errors import BackendError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, CudaError, OutOfDeviceMemory
from edge_runtime.perception.backends.tensorrt.buffers import Ledger, Slot
from edge_runtime.perception.backends.tensorrt.device_preprocess import PICTURE, Preparation
from edge_runtime.perception.backends.tensorrt.errors import EngineRefused
from edge_runtime.perception.backends.tensorrt.graphs import GraphRunner
from edge_runtime.perception.backends.tensorrt.pictures import PictureMemory
from edge_runtime.perception.backends.tensorrt.plugins import PluginLibrary
from edge_runtime.perception.backends.tensorrt.runtime import Engine, import_tensorrt
from edge_runtime.perception.backends.tensorrt.shapes import Shape, Shapes


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How an engine is run; see `TensorRtBackend`."""

    model: str
    places: int
    input_spec: InputSpec | None
    cuda_graphs: bool
    mapped: bool
    plugins: tuple[PluginLibrary, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run on the device: its place, and the shapes of its outputs by name."""

    slot: Slot
    shapes: Shapes


class DeviceSession:
    """Opens the device and the engine; see the module.

    Args:
        open_device: called at once.
        data: the serialised engine.
        options: how to run it.
        pictures: page-locked memory of pictures, filled by other threads.

    Attributes:
        places: runs that can be on the device at once.
        device: open.
        engine: deserialised.
        note: why pictures are prepared on the CPU although the GPU was asked for, or None.

    Raises:
        BackendError: the device or the engine does not open, or there is no room for it. Nothing is left behind.
        MissingDependency: a library is not installed.
    """

    def __init__(
        self, open_device: Callable[[], Cuda], data: bytes, options: SessionOptions, pictures: PictureMemory
    ) -> None:
        trt = import_tensorrt()
        self.places = options.places
        self.note: str | None = None
        self._options, self._pictures = options, pictures
        self._graphs: GraphRunner | None = None
        self._engine: Engine | None = None
        self.preparation: Preparation | None = None
        self.device = open_device()
        self._ledger = Ledger(self.device)
        try:
            self._in, self._compute, self._out = (self._ledger.stream() for _ in range(3))
            self._engine = Engine(trt, data, options.model, self._compute, options.plugins)
            engine = self._engine
            self._free = deque(
                Slot(self._ledger, engine.inputs, engine.outputs, mapped=options.mapped)
                for _ in range(options.places)
            )
            if options.cuda_graphs:
                self._graphs = GraphRunner(self.device, engine, self._compute)
            if options.input_spec is not None:
                self._prepare_on_device(options.input_spec)
        except EngineRefused:
            # TensorRT calls a lost device an internal error of its own
            try:
                self._ledger.synchronize()
            finally:
                self.close()
            raise
        except OutOfDeviceMemory as error:
            self.close()
            raise OutOfDeviceMemory(f"{options.model} does not fit on the device: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def engine(self) -> Engine:
        """Deserialised."""
        if self._engine is None:
            raise BackendError(f"{self._options.model}: the model is closed: load it again")
        return self._engine

    def _prepare_on_device(self, spec: InputSpec) -> None:
        try:
            self.preparation = Preparation(
                self.device, self._ledger, self._pictures, spec, self.engine, mapped=self._options.mapped
            )
        except OutOfDeviceMemory:
            raise
        except CudaError as error:
            self.note = f"pictures are prepared on the CPU: {error}"

    def begin(self, feeds: Mapping[str, Tensor]) -> Run:
        """Put a run on the device.

        Args:
            feeds: by input name; arrays in the declared dtype, or pictures (`device_preprocess.PICTURE`).

        Raises:
            BackendError: the engine or the device does not take it.
        """
        slot = self._free[0]
        shapes = {name: self._feed(slot, name, array) for name, array in feeds.items()}
        device = self.device
        device.record(slot.ready, self._in)
        device.wait_event(self._compute, slot.ready)
        outputs = self._execute(slot, shapes)
        device.record(slot.computed, self._compute)
        device.wait_event(self._out, slot.computed)
        for name, memory in slot.outputs.items():
            if memory.copied:
                device.copy_out(memory.view(outputs[name]), memory.address, self._out)
        device.record(slot.done, self._out)
        self._free.popleft()
        return Run(slot, outputs)

    def _feed(self, slot: Slot, name: str, array: Tensor) -> Shape:
        memory = slot.inputs[name]
        if array.dtype == PICTURE:
            if self.preparation is None:
                raise BackendError(f"{self._options.model}: pictures are not prepared on the device")
            return self.preparation.begin(slot, array, self._in)
        view = memory.view(array.shape)
        np.copyto(view, array)
        if memory.copied:
            self.device.copy_in(memory.address, view, self._in)
        return array.shape

    def _execute(self, slot: Slot, shapes: Shapes) -> Shapes:
        if self._graphs is not None and (outputs := self._graphs.run(slot, shapes)) is not None:
            return outputs
        context = self.engine.context
        if context.shapes != shapes:
            # what a run under way still reads of its shapes is TensorRT's affair: it ends first
            self.device.synchronize(self._compute)
            context.set_shapes(shapes)
        slot.bind(context)
        context.execute(self._compute)
        return {name: context.shape(name) for name in slot.outputs}

    def finish(self, run: Run) -> list[Tensor]:
        """Wait for a run; its outputs in the engine's order, as arrays of their own."""
        try:
            self.device.synchronize_event(run.slot.done)
            return [memory.view(run.shapes[name]).copy() for name, memory in run.slot.outputs.items()]
        finally:
            self._free.append(run.slot)

    def settle(self) -> None:
        """Wait until no stream holds anything."""
        self._ledger.synchronize()

    def picture_memory(self, number: int, nbytes: int) -> None:
        """Make page-locked memory for the picture `number`, in place of what it had."""
        before = self._pictures.replace(number, None)
        if before is not None:
            self._ledger.free_host(before)
        self._pictures.replace(number, self._ledger.allocate_host(nbytes))

    def close(self) -> None:
        """Free graphs, contexts, engine, runtime, streams, memory and the context, in this order."""
        self._pictures.clear()
        if self._graphs is not None:
            self._graphs.close()
        if self._engine is not None:
            self._engine.close()
        self._graphs = self._engine = self.preparation = None
        self._free = deque()
        self._ledger.close()
        with suppress(CudaError):  # of a lost device
            self.device.close()
