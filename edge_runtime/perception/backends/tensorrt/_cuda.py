"""The seam to CUDA: what of it this runtime needs, behind one small protocol.

Two libraries can stand behind it, `cuda.bindings` and `pycuda`; which one a device has depends on how it was set
up. Both work in the device's primary context, which TensorRT and everybody else in the process shares, and neither
makes a context of its own: `cuCtxCreate` takes other arguments from CUDA 13 on, and memory of one context is none
in another (inducer/pycuda #242).
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edge_runtime.errors import BackendError, MissingDependency

HostMemory = npt.NDArray[np.uint8]
Size3 = tuple[int, int, int]
Argument = Any
"""A simple value of ctypes: its type says how large it is."""

_images: dict[tuple[str, str, str], bytes] = {}


class CudaError(BackendError):
    """A call of CUDA failed; the text holds what the library said."""


class OutOfDeviceMemory(CudaError):
    """The device, or the page-locked memory beside it, has no room for what was asked."""


class DeviceLost(CudaError):
    """The device failed in a way that no later call in this process survives: only a new process helps."""


class WrongThread(CudaError):
    """A call from another thread or process than the one that opened the device; CUDA was not touched."""


class Cuda(Protocol):
    """The first device with its primary context. Belongs to the thread (and process) that opened it.

    Every method raises `WrongThread` elsewhere, `OutOfDeviceMemory`, `DeviceLost` or another `CudaError`.

    Attributes:
        library: with its version, "cuda.bindings 13.0.3".
        device_name: as the driver has it.
        compute_capability: (8, 7) on Orin, (11, 0) on Thor.
    """

    library: str
    device_name: str
    compute_capability: tuple[int, int]

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and bytes in all. On a Jetson both are those of the whole machine."""
        ...

    def allocate(self, nbytes: int) -> int:
        """Device memory; its address."""
        ...

    def free(self, address: int) -> None:
        """Give device memory back."""
        ...

    def allocate_host(self, nbytes: int) -> HostMemory:
        """(nbytes,) page-locked; the array must not be touched after `free_host`."""
        ...

    def free_host(self, array: HostMemory) -> None:
        """Give page-locked memory back; takes what `allocate_host` returned."""
        ...

    def create_stream(self) -> int:
        """A stream that does not wait for the default one; its handle, as TensorRT takes it."""
        ...

    def destroy_stream(self, stream: int) -> None:
        """End a stream."""
        ...

    def create_event(self) -> int:
        """An event without a time, for which a thread sleeps rather than spins."""
        ...

    def destroy_event(self, event: int) -> None:
        """End an event."""
        ...

    def record(self, event: int, stream: int) -> None:
        """Let the event stand for all that is in the stream by now."""
        ...

    def wait_event(self, stream: int, event: int) -> None:
        """What is put into the stream from now on waits for the event."""
        ...

    def synchronize_event(self, event: int) -> None:
        """The thread waits for the event; other threads of the interpreter go on."""
        ...

    def synchronize(self, stream: int) -> None:
        """The thread waits until the stream is empty."""
        ...

    def copy_in(self, address: int, host: npt.NDArray[Any], stream: int) -> None:
        """Begin a copy to the device; `host` is contiguous and page-locked."""
        ...

    def copy_out(self, host: npt.NDArray[Any], address: int, stream: int) -> None:
        """Begin a copy from the device; `host` is contiguous and page-locked."""
        ...

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Set `nbytes` of device memory to one value."""
        ...

    def compile(self, source: str, function: str) -> int:
        """Compile CUDA C++ for this device; a handle of the function, which lives until `close`."""
        ...

    def launch(
        self, function: int, grid: Size3, block: Size3, arguments: Sequence[Argument], stream: int
    ) -> None:
        """Begin a kernel."""
        ...

    def close(self) -> None:
        """Release the primary context; everything must have been freed. Calling it twice is allowed."""
        ...


@runtime_checkable
class CudaGraphs(Protocol):
    """What a device offers beside `Cuda` where its library knows CUDA graphs; pycuda does not."""

    def begin_capture(self, stream: int) -> None:
        """What this thread puts into the stream from now on is kept and not run."""
        ...

    def end_capture(self, stream: int) -> int:
        """Make what was kept a graph that can be launched; its handle."""
        ...

    def launch_graph(self, graph: int, stream: int) -> None:
        """Begin all that the graph holds."""
        ...

    def destroy_graph(self, graph: int) -> None:
        """End a graph."""
        ...


class Owner:
    """The thread and process that opened the device, made where it is opened."""

    def __init__(self) -> None:
        self._thread, self._process = threading.get_ident(), os.getpid()

    def check(self) -> None:
        """Refuse everybody else.

        Raises:
            WrongThread: before CUDA is touched.
        """
        if os.getpid() != self._process:
            raise WrongThread(
                "the CUDA device was opened before this process was forked: load the model after the spawn"
            )
        if threading.get_ident() != self._thread:
            raise WrongThread(
                "the CUDA device was opened in another thread, which alone may use it: ask that thread"
            )


def open_cuda() -> Cuda:
    """Open the first device for the calling thread, with whichever library is installed.

    Raises:
        MissingDependency: neither library is, or what is there is too old.
        CudaError: there is no driver, no device, or it does not open.
    """
    # Both are imported here: a machine without a GPU has neither.
    from edge_runtime.perception.backends.tensorrt import _cuda_bindings, _cuda_pycuda  # noqa: PLC0415

    try:
        return _cuda_bindings.open_device()
    except MissingDependency as error:
        first = error
    try:
        return _cuda_pycuda.open_device()
    except MissingDependency as second:
        raise MissingDependency(
            f"TensorRT needs a library for CUDA: install cuda-bindings or pycuda ({first}; {second})"
        ) from second


def kernel_image(library: str, architecture: str, source: str, compile_source: Callable[[], bytes]) -> bytes:
    """A compiled kernel; a process compiles each source once, however often models are loaded."""
    key = library, architecture, source
    if key not in _images:
        _images[key] = compile_source()
    return _images[key]
