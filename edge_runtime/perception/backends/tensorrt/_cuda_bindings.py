"""The seam over NVIDIA's `cuda.bindings`: the driver's interface, called in the primary context.

Names and signatures are those of the wheels 12.9 to 13.5, which exist for aarch64 and x86-64 and need no compiler.
"""

import ctypes
from collections.abc import Callable, Sequence
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

_OLDEST: Final = (12, 9, 1)
"""Before it the bindings hold the interpreter's lock while they wait for the device, and every camera with it."""

_OUT_OF_MEMORY: Final = 2
_LOST: Final = frozenset(
    {4, 46, 100, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999}
)
"""Results after which the context is of no more use: illegal addresses, failed launches, uncorrectable memory."""

_NON_BLOCKING_STREAM: Final = 1
_SLEEPING_EVENT: Final = 1 | 2
"""Sleep while waiting, and take no times."""

_NAME_BYTES: Final = 256


def open_device() -> "BindingsCuda":
    """Open the first device with `cuda.bindings`.

    Raises:
        MissingDependency: it is not installed, or too old.
        CudaError: no driver, no device, or it does not open.
    """
    try:
        from cuda import bindings  # noqa: PLC0415 (optional)
        from cuda.bindings import driver, nvrtc  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependency("cuda.bindings is not installed") from error
    version = str(bindings.__version__)
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise MissingDependency(
            f"cuda.bindings {version} is too old: it holds all threads up before {oldest}"
        )
    return BindingsCuda(driver, nvrtc, version)


class BindingsCuda:
    """`Cuda` and `CudaGraphs`; see there.

    Args:
        driver: the module `cuda.bindings.driver`.
        nvrtc: the module `cuda.bindings.nvrtc`.
        version: of both.
    """

    def __init__(self, driver: Any, nvrtc: Any, version: str) -> None:
        self._driver, self._nvrtc = driver, nvrtc
        self._owner = Owner()
        self._host: dict[int, HostMemory] = {}
        self._streams: dict[int, Any] = {}
        self._events: dict[int, Any] = {}
        self._functions: dict[int, Any] = {}
        self._graphs: dict[int, Any] = {}
        self._modules: dict[str, Any] = {}
        self._open = False
        self.library = f"cuda.bindings {version}"
        self._call(driver.cuInit, 0)
        self._device = self._call(driver.cuDeviceGet, 0)
        name = self._call(driver.cuDeviceGetName, _NAME_BYTES, self._device)
        self.device_name = bytes(name).split(b"\0")[0].decode(errors="replace")
        attribute = driver.CUdevice_attribute
        self.compute_capability = (
            int(self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)),
            int(self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)),
        )
        context = self._call(driver.cuDevicePrimaryCtxRetain, self._device)
        self._open = True
        try:
            self._call(driver.cuCtxSetCurrent, context)
        except CudaError:
            self.close()
            raise

    def _attribute(self, attribute: Any) -> Any:
        return self._call(self._driver.cuDeviceGetAttribute, attribute, self._device)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self._owner.check()
        try:
            code, *values = function(*arguments)
        except (RuntimeError, OSError) as error:
            # the bindings load the driver's library when it is first called
            raise CudaError(f"CUDA cannot be used: {first_line(error)}") from error
        if int(code) != 0:
            raise self._error(function.__name__, code)
        return values[0] if len(values) == 1 else tuple(values)

    def _error(self, name: str, code: Any) -> CudaError:
        _, said = self._driver.cuGetErrorString(code)
        text = f"{name} failed: {bytes(said or b'').decode(errors='replace') or code} ({int(code)})"
        if int(code) == _OUT_OF_MEMORY:
            return OutOfDeviceMemory(text)
        return DeviceLost(text) if int(code) in _LOST else CudaError(text)

    def memory(self) -> tuple[int, int]:
        """See `Cuda`."""
        free, total = self._call(self._driver.cuMemGetInfo)
        return int(free), int(total)

    def allocate(self, nbytes: int) -> int:
        """See `Cuda`."""
        return int(self._call(self._driver.cuMemAlloc, nbytes))

    def free(self, address: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.cuMemFree, address)

    def allocate_host(self, nbytes: int) -> HostMemory:
        """See `Cuda`."""
        address = int(self._call(self._driver.cuMemHostAlloc, nbytes, 0))
        array = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
        self._host[address] = array
        return array

    def free_host(self, array: HostMemory) -> None:
        """See `Cuda`."""
        self._owner.check()
        address = array.ctypes.data
        if self._host.pop(address, None) is None:
            raise CudaError("free_host was given memory that allocate_host did not make")
        self._call(self._driver.cuMemFreeHost, address)

    def create_stream(self) -> int:
        """See `Cuda`."""
        stream = self._call(self._driver.cuStreamCreate, _NON_BLOCKING_STREAM)
        self._streams[int(stream)] = stream
        return int(stream)

    def destroy_stream(self, stream: int) -> None:
        """See `Cuda`."""
        self._owner.check()
        self._call(self._driver.cuStreamDestroy, self._streams.pop(stream))

    def create_event(self) -> int:
        """See `Cuda`."""
        event = self._call(self._driver.cuEventCreate, _SLEEPING_EVENT)
        self._events[int(event)] = event
        return int(event)

    def destroy_event(self, event: int) -> None:
        """See `Cuda`."""
        self._owner.check()
        self._call(self._driver.cuEventDestroy, self._events.pop(event))

    def record(self, event: int, stream: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.cuEventRecord, self._events[event], self._streams[stream])

    def wait_event(self, stream: int, event: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.cuStreamWaitEvent, self._streams[stream], self._events[event], 0)

    def synchronize_event(self, event: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.cuEventSynchronize, self._events[event])

    def synchronize(self, stream: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.cuStreamSynchronize, self._streams[stream])

    def copy_in(self, address: int, host: npt.NDArray[Any], stream: int) -> None:
        """See `Cuda`."""
        place = host.ctypes.data
        self._call(self._driver.cuMemcpyHtoDAsync, address, place, host.nbytes, self._streams[stream])

    def copy_out(self, host: npt.NDArray[Any], address: int, stream: int) -> None:
        """See `Cuda`."""
        place = host.ctypes.data
        self._call(self._driver.cuMemcpyDtoHAsync, place, address, host.nbytes, self._streams[stream])

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """See `Cuda`."""
        self._call(self._driver.cuMemsetD8Async, address, byte, nbytes, self._streams[stream])

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
            module = self._modules[source] = self._call(self._driver.cuModuleLoadData, image)
        handle = self._call(self._driver.cuModuleGetFunction, module, function.encode())
        self._functions[int(handle)] = handle
        return int(handle)

    def _compiled(self, source: str, architecture: str) -> bytes:
        nvrtc = self._nvrtc
        program = self._translate(nvrtc.nvrtcCreateProgram, source.encode(), b"kernel.cu", 0, [], [])
        try:
            options = [f"--gpu-architecture={architecture}".encode()]
            try:
                self._translate(nvrtc.nvrtcCompileProgram, program, len(options), options)
            except CudaError as error:
                size = self._translate(nvrtc.nvrtcGetProgramLogSize, program)
                log = bytearray(int(size))
                self._translate(nvrtc.nvrtcGetProgramLog, program, log)
                said = bytes(log).decode(errors="replace").strip("\0\n ")
                raise CudaError(f"{error}: {first_line(said)}" if said else str(error)) from error
            image = bytearray(int(self._translate(nvrtc.nvrtcGetCUBINSize, program)))
            self._translate(nvrtc.nvrtcGetCUBIN, program, image)
            return bytes(image)
        finally:
            self._translate(nvrtc.nvrtcDestroyProgram, program)

    def _translate(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call of NVRTC, whose results are not the driver's."""
        try:
            code, *values = function(*arguments)
        except (RuntimeError, OSError) as error:
            raise CudaError(f"NVRTC cannot be used: {first_line(error)}") from error
        if int(code) != 0:
            _, said = self._nvrtc.nvrtcGetErrorString(code)
            raise CudaError(f"{function.__name__} failed: {bytes(said).decode(errors='replace')}")
        return values[0] if values else None

    def launch(
        self, function: int, grid: Size3, block: Size3, arguments: Sequence[Argument], stream: int
    ) -> None:
        """See `Cuda`."""
        self._owner.check()
        places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(value) for value in arguments))
        self._call(
            self._driver.cuLaunchKernel,
            self._functions[function],
            *grid,
            *block,
            0,
            self._streams[stream],
            ctypes.addressof(places),
            0,
        )

    def begin_capture(self, stream: int) -> None:
        """See `CudaGraphs`."""
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call(self._driver.cuStreamBeginCapture, self._streams[stream], mode)

    def end_capture(self, stream: int) -> int:
        """See `CudaGraphs`."""
        graph = self._call(self._driver.cuStreamEndCapture, self._streams[stream])
        try:
            ready = self._call(self._driver.cuGraphInstantiate, graph, 0)
        finally:
            self._call(self._driver.cuGraphDestroy, graph)
        self._graphs[int(ready)] = ready
        return int(ready)

    def launch_graph(self, graph: int, stream: int) -> None:
        """See `CudaGraphs`."""
        self._call(self._driver.cuGraphLaunch, self._graphs[graph], self._streams[stream])

    def destroy_graph(self, graph: int) -> None:
        """See `CudaGraphs`."""
        self._owner.check()
        self._call(self._driver.cuGraphExecDestroy, self._graphs.pop(graph))

    def close(self) -> None:
        """See `Cuda`."""
        self._owner.check()
        if not self._open:
            return
        self._open = False
        self._functions.clear()
        try:
            while self._modules:
                self._call(self._driver.cuModuleUnload, self._modules.popitem()[1])
            self._call(self._driver.cuCtxSetCurrent, None)
        finally:
            self._call(self._driver.cuDevicePrimaryCtxRelease, self._device)
