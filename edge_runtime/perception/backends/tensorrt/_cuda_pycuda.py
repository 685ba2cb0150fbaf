"""The seam over `pycuda`, which users of JetPack build on the device; the source of 2026.1 was read for it.

pycuda has no NVRTC, so a kernel is compiled by `nvcc`, and no CUDA graphs. Its events do not show their handles, so
that they are numbered here.
"""

import itertools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edge_runtime.errors import MissingDependency, first_line
from edge_runtime.perception.backends.tensorrt._cuda import (
    Argument,
    CudaError,
    DeviceLost,
    HostMemory,
    OutOfDeviceMemory,
    Owner,
    Size3,
    kernel_image,
)

_NVCC: Final = Path("/usr/local/cuda/bin/nvcc")
"""Where JetPack installs it, which is on no PATH by default."""

_LOST: Final = (
    "illegal memory access",
    "illegal address",
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable",
    "misaligned address",
    "illegal instruction",
    "invalid program counter",
    "hardware stack",
    "context is destroyed",
    "device not available",
    "unknown error",
    "driver shutting down",
)
"""pycuda keeps no result codes, only what the driver says of them."""


def open_device() -> "PyCuda":
    """Open the first device with `pycuda`.

    Raises:
        MissingDependency: it is not installed.
        CudaError: no driver, no device, or it does not open.
    """
    try:
        import pycuda  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise MissingDependency("pycuda is not installed") from error
    try:
        from pycuda import driver  # noqa: PLC0415
    except ImportError as error:
        raise CudaError(f"pycuda does not load here: {first_line(error)}") from error
    return PyCuda(driver, str(pycuda.VERSION_TEXT))


class PyCuda:
    """`Cuda`; see there.

    Args:
        driver: the module `pycuda.driver`.
        version: of it.
    """

    def __init__(self, driver: Any, version: str) -> None:
        self._driver = driver
        self._owner = Owner()
        self._memory: dict[int, Any] = {}
        self._host: dict[int, HostMemory] = {}
        self._streams: dict[int, Any] = {}
        self._events: dict[int, Any] = {}
        self._functions: dict[int, Any] = {}
        self._modules: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._context: Any = None
        self.library = f"pycuda {version}"
        self._call(driver.init)
        device = self._call(driver.Device, 0)
        self.device_name = str(self._call(device.name))
        major, minor = self._call(device.compute_capability)
        self.compute_capability = (int(major), int(minor))
        context = self._call(device.retain_primary_context)
        try:
            self._call(context.push)
        except CudaError:
            self._call(context.detach)
            raise
        self._context = context

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self._owner.check()
        try:
            return function(*arguments)
        except self._driver.MemoryError as error:
            raise OutOfDeviceMemory(first_line(error)) from error
        except self._driver.Error as error:
            text = first_line(error)
            if any(sign in text.lower() for sign in _LOST):
                raise DeviceLost(text) from error
            raise CudaError(text) from error

    def memory(self) -> tuple[int, int]:
        """See `Cuda`."""
        free, total = self._call(self._driver.mem_get_info)
        return int(free), int(total)

    def allocate(self, nbytes: int) -> int:
        """See `Cuda`."""
        memory = self._call(self._driver.mem_alloc, nbytes)
        self._memory[int(memory)] = memory
        return int(memory)

    def free(self, address: int) -> None:
        """See `Cuda`."""
        self._owner.check()
        self._call(self._memory.pop(address).free)

    def allocate_host(self, nbytes: int) -> HostMemory:
        """See `Cuda`."""
        array: HostMemory = self._call(self._driver.pagelocked_empty, nbytes, np.uint8)
        self._host[array.ctypes.data] = array
        return array

    def free_host(self, array: HostMemory) -> None:
        """See `Cuda`."""
        self._owner.check()
        whole: Any = self._host.pop(array.ctypes.data, None)
        if whole is None:
            raise CudaError("free_host was given memory that allocate_host did not make")
        self._call(whole.base.free)

    def create_stream(self) -> int:
        """See `Cuda`."""
        stream = self._call(self._driver.Stream, 1)  # CU_STREAM_NON_BLOCKING, which pycuda has no name for
        self._streams[int(stream.handle)] = stream
        return int(stream.handle)

    def destroy_stream(self, stream: int) -> None:
        """See `Cuda`."""
        self._owner.check()
        del self._streams[stream]  # pycuda ends it with its last reference

    def create_event(self) -> int:
        """See `Cuda`."""
        flags = self._driver.event_flags
        event = self._call(self._driver.Event, flags.BLOCKING_SYNC | flags.DISABLE_TIMING)
        number = next(self._numbers)
        self._events[number] = event
        return number

    def destroy_event(self, event: int) -> None:
        """See `Cuda`."""
        self._owner.check()
        del self._events[event]

    def record(self, event: int, stream: int) -> None:
        """See `Cuda`."""
        self._call(self._events[event].record, self._streams[stream])

    def wait_event(self, stream: int, event: int) -> None:
        """See `Cuda`."""
        self._call(self._streams[stream].wait_for_event, self._events[event])

    def synchronize_event(self, event: int) -> None:
        """See `Cuda`."""
        self._call(self._events[event].synchronize)

    def synchronize(self, stream: int) -> None:
        """See `Cuda`."""
        self._call(self._streams[stream].synchronize)

    def copy_in(self, address: int, host: npt.NDArray[Any], stream: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.memcpy_htod_async, address, host, self._streams[stream])

    def copy_out(self, host: npt.NDArray[Any], address: int, stream: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.memcpy_dtoh_async, host, address, self._streams[stream])

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.memset_d8_async, address, byte, nbytes, self._streams[stream])

    def compile(self, source: str, function: str) -> int:
        """See `Cuda`."""
        self._owner.check()
        module = self._modules.get(source)
        if module is None:
            major, minor = self.compute_capability
            architecture = f"sm_{major}{minor}"
            image = kernel_image(
                self.library, architecture, source, lambda: self._compiled(source, architecture)
            )
            module = self._modules[source] = self._call(self._driver.module_from_buffer, image)
        handle = self._call(module.get_function, function)
        number = next(self._numbers)
        self._functions[number] = handle
        return number

    def _compiled(self, source: str, architecture: str) -> bytes:
        nvcc = shutil.which("nvcc") or (str(_NVCC) if _NVCC.is_file() else None)
        if nvcc is None:
            raise CudaError("there is no nvcc, which pycuda needs to compile a kernel: install cuda-bindings")
        import pycuda.compiler  # noqa: PLC0415 (optional)

        try:
            image: bytes = pycuda.compiler.compile(
                source, nvcc=nvcc, no_extern_c=True, arch=architecture, cache_dir=False
            )
        except (self._driver.CompileError, OSError, RuntimeError) as error:
            said = getattr(error, "stderr", None) or error  # the compiler's own words, where it got to speak
            raise CudaError(f"nvcc does not compile the kernel: {first_line(said)}") from error
        return image

    def launch(
        self, function: int, grid: Size3, block: Size3, arguments: Sequence[Argument], stream: int
    ) -> None:
        """See `Cuda`."""
        self._owner.check()
        handle = self._functions[function]
        # pycuda packs the arguments by the letters of Python's struct, which ctypes keeps too
        handle.prepare([type(value)._type_ for value in arguments])
        values = [value.value or 0 for value in arguments]
        self._call(handle.prepared_async_call, grid, block, self._streams[stream], *values)

    def close(self) -> None:
        """See `Cuda`."""
        self._owner.check()
        if self._context is None:
            return
        context, self._context = self._context, None
        self._functions.clear()
        self._modules.clear()
        try:
            # a thread that ends with a context on pycuda's stack ends the whole process
            self._call(self._driver.Context.pop)
        finally:
            self._call(context.detach)
