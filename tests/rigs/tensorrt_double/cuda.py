"""The CUDA seam of the runtime over the double's device: what `_cuda.py` asks for, without a library in between."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy.typing as npt

from edge_runtime.perception.backends.tensorrt._cuda import (
    CudaError,
    DeviceLost,
    HostMemory,
    OutOfDeviceMemory,
    Owner,
    Size3,
)
from tests.rigs.tensorrt_double.device import Allocation, Device, Lost, NoMemory

T = TypeVar("T")


class DoubleCuda:
    """`Cuda` and `CudaGraphs`. What it opened must be freed before `close`, else that is a misuse.

    Args:
        device: that is played.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.library = "double 1.0"
        self.device_name = device.gpu.name
        self.compute_capability = device.gpu.compute_capability
        self._owner = Owner()
        self._open = False
        self._memory: dict[int, Allocation] = {}
        self._host: dict[int, Allocation] = {}
        self._streams: set[int] = set()
        self._events: set[int] = set()
        self._graphs: set[int] = set()
        self._call(device.make_current)
        self._open = True

    def _call(self, function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        self._owner.check()
        try:
            return function(*arguments, **keywords)
        except NoMemory as error:
            raise OutOfDeviceMemory(f"cuMemAlloc failed: out of memory (2): {error}") from error
        except Lost as error:
            raise DeviceLost(f"an illegal memory access was encountered (700): {error}") from error
        except (LookupError, RuntimeError) as error:
            raise CudaError(str(error).splitlines()[0]) from error

    def memory(self) -> tuple[int, int]:
        return self._call(self.device.memory)

    def allocate(self, nbytes: int) -> int:
        made = self._call(self.device.allocate, nbytes, "allocate")
        self._memory[made.address] = made
        return made.address

    def free(self, address: int) -> None:
        self._call(self.device.free, address)
        self._memory.pop(address, None)

    def allocate_host(self, nbytes: int) -> HostMemory:
        made = self._call(self.device.allocate, nbytes, "allocate_host", host=True)
        made.written = True  # the host writes to it without asking anybody
        self._host[made.address] = made
        assert made.array is not None
        return made.array

    def free_host(self, array: HostMemory) -> None:
        self._owner.check()
        if array.ctypes.data not in self._host:
            raise self.device.misuse(
                "free_host was given memory that allocate_host did not make (freed twice?)"
            )
        self._call(self.device.free, array.ctypes.data)
        del self._host[array.ctypes.data]

    def create_stream(self) -> int:
        stream = self._call(self.device.create_stream)
        self._streams.add(stream)
        return stream

    def destroy_stream(self, stream: int) -> None:
        self._call(self.device.destroy_stream, stream)
        self._streams.discard(stream)

    def create_event(self) -> int:
        event = self._call(self.device.create_event)
        self._events.add(event)
        return event

    def destroy_event(self, event: int) -> None:
        self._call(self.device.destroy_event, event)
        self._events.discard(event)

    def record(self, event: int, stream: int) -> None:
        self._call(self.device.record, event, stream)

    def wait_event(self, stream: int, event: int) -> None:
        self._call(self.device.wait_event, stream, event)

    def synchronize_event(self, event: int) -> None:
        self._call(self.device.synchronize_event, event)

    def synchronize(self, stream: int) -> None:
        self._call(self.device.synchronize, stream)

    def copy_in(self, address: int, host: npt.NDArray[Any], stream: int) -> None:
        self._call(self.device.copy_in_array, address, host, stream)

    def copy_out(self, host: npt.NDArray[Any], address: int, stream: int) -> None:
        self._call(self.device.copy_out_array, host, address, stream)

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        self._call(self.device.fill, address, byte, nbytes, stream)

    def compile(self, source: str, function: str) -> int:
        return self._call(self.device.compile, source, function)

    def launch(self, function: int, grid: Size3, block: Size3, arguments: Sequence[Any], stream: int) -> None:
        self._call(self.device.launch, function, grid, block, arguments, stream)

    def begin_capture(self, stream: int) -> None:
        self._call(self.device.begin_capture, stream)

    def end_capture(self, stream: int) -> int:
        graph = self._call(self.device.end_capture, stream)
        self._graphs.add(graph)
        return graph

    def launch_graph(self, graph: int, stream: int) -> None:
        self._call(self.device.launch_graph, graph, stream)

    def destroy_graph(self, graph: int) -> None:
        self._call(self.device.destroy_graph, graph)
        self._graphs.discard(graph)

    def close(self) -> None:
        self._owner.check()
        if not self._open:
            return
        self._open = False
        self.device.leave()
        left = [f"{a.nbytes} bytes of device memory" for a in self._memory.values()]
        left += [f"{a.nbytes} bytes of page-locked memory" for a in self._host.values()]
        for count, what in ((self._streams, "streams"), (self._events, "events"), (self._graphs, "graphs")):
            left += [f"{len(count)} {what}"] if count else []
        if left and not self.device.lost:
            raise self.device.misuse(f"the device is closed while these are alive: {', '.join(left)}")
