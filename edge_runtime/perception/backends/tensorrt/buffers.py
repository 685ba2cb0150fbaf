"""Memory of one place in the double buffer: device and page-locked memory of every tensor, and its events.

Allocations are handed out by a `Ledger`, which gives back all that was taken when a load fails halfway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, CudaError, HostMemory
from edge_runtime.perception.backends.tensorrt.context import EngineContext
from edge_runtime.perception.backends.tensorrt.runtime import EngineTensor
from edge_runtime.perception.backends.tensorrt.shapes import Shape


class Ledger:
    """What was allocated on one device, so that all of it can be given back.

    Args:
        device: open.
    """

    def __init__(self, device: Cuda) -> None:
        self._device = device
        self._memory: set[int] = set()
        self._host: dict[int, HostMemory] = {}
        self._streams: list[int] = []
        self._events: list[int] = []

    def allocate(self, nbytes: int) -> int:
        """Device memory; its address."""
        address = self._device.allocate(nbytes)
        self._memory.add(address)
        return address

    def free(self, address: int) -> None:
        """Give device memory back."""
        self._memory.remove(address)
        self._device.free(address)

    def allocate_host(self, nbytes: int) -> HostMemory:
        """Page-locked memory, (nbytes,)."""
        array = self._device.allocate_host(nbytes)
        self._host[array.ctypes.data] = array
        return array

    def free_host(self, array: HostMemory) -> None:
        """Give page-locked memory back."""
        del self._host[array.ctypes.data]
        self._device.free_host(array)

    def stream(self) -> int:
        """A stream."""
        self._streams.append(self._device.create_stream())
        return self._streams[-1]

    def event(self) -> int:
        """An event."""
        self._events.append(self._device.create_event())
        return self._events[-1]

    def synchronize(self) -> None:
        """Wait until every stream is empty."""
        for stream in self._streams:
            self._device.synchronize(stream)

    def close(self) -> None:
        """Give everything back: events, streams, then memory.

        A device that was lost refuses every call, and each thing is tried all the same: what a library counts it
        counts by call.
        """
        device = self._device
        while self._events:
            _try(device.destroy_event, self._events.pop())
        while self._streams:
            _try(device.destroy_stream, self._streams.pop())
        while self._memory:
            _try(device.free, self._memory.pop())
        while self._host:
            _try(device.free_host, self._host.popitem()[1])


def _try(give_back: Any, what: Any) -> None:
    try:
        give_back(what)
    except CudaError:
        return


@dataclass(slots=True)
class TensorMemory:
    """Where one tensor lies.

    Attributes:
        tensor: as the engine declares it.
        host: (nbytes,) page-locked.
        address: which the engine is given: of device memory, or of `host` itself.
        copied: whether it is copied between the two.
    """

    tensor: EngineTensor
    host: HostMemory
    address: int
    copied: bool

    def view(self, shape: Shape) -> Tensor:
        """The page-locked memory as a tensor of `shape`."""
        count = int(np.prod(shape, dtype=np.int64))
        flat: npt.NDArray[Any] = self.host[: count * self.tensor.spec.dtype.itemsize]
        return flat.view(self.tensor.spec.dtype).reshape(shape)


class Slot:
    """One place of the double buffer.

    Args:
        ledger: for what it takes.
        inputs: of the engine.
        outputs: of the engine.
        mapped: whether the device reads and writes the page-locked memory itself, without copies.

    Attributes:
        inputs: by name. outputs: by name, in the engine's order.
        ready: the event after which the inputs are there. computed: after which the outputs are.
        done: after which they are in the host's memory.
    """

    def __init__(
        self, ledger: Ledger, inputs: Sequence[EngineTensor], outputs: Sequence[EngineTensor], *, mapped: bool
    ) -> None:
        self.inputs = {tensor.spec.name: _memory(ledger, tensor, mapped=mapped) for tensor in inputs}
        self.outputs = {tensor.spec.name: _memory(ledger, tensor, mapped=mapped) for tensor in outputs}
        self.ready, self.computed, self.done = ledger.event(), ledger.event(), ledger.event()

    def bind(self, context: EngineContext) -> None:
        """Tell a context where every tensor of this place lies.

        Raises:
            EngineRefused: TensorRT does not take an address.
        """
        for name, memory in (*self.inputs.items(), *self.outputs.items()):
            context.bind(name, memory.address)


def _memory(ledger: Ledger, tensor: EngineTensor, *, mapped: bool) -> TensorMemory:
    host = ledger.allocate_host(tensor.nbytes)
    if mapped or tensor.on_host:
        # with unified addressing, page-locked memory has one address on both sides
        return TensorMemory(tensor, host, host.ctypes.data, copied=False)
    return TensorMemory(tensor, host, ledger.allocate(tensor.nbytes), copied=True)
