"""`pycuda.driver` and `pycuda.compiler` over the double's device, as far as the runtime's seam uses them.

Written after the source of pycuda 2026.1: streams and events end with their last reference, an event shows no
handle, page-locked arrays are freed by their base, a function packs its arguments by the letters of `struct`, and
errors have only a text.
"""

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from tests.rigs import host_kernel
from tests.rigs.tensorrt_double.bindings import parameters_of
from tests.rigs.tensorrt_double.device import Device, Lost, NoMemory

T = TypeVar("T")

_LETTERS = {"P": ctypes.c_void_p, "i": ctypes.c_int, "f": ctypes.c_float}


class Error(Exception):
    """`pycuda.driver.Error`."""


class MemoryError(Error):  # noqa: A001 (pycuda's name)
    """`pycuda.driver.MemoryError`."""


class LogicError(Error):
    """`pycuda.driver.LogicError`."""


class CompileError(Error):
    """`pycuda.driver.CompileError`."""


class PycudaOnDouble:
    """The modules.

    Args:
        device: that is played.

    Attributes:
        driver: `pycuda.driver`. compiler: `pycuda.compiler`. package: `pycuda`.
    """

    def __init__(self, device: Device) -> None:
        self.driver, self.compiler = ModuleType("pycuda.driver"), ModuleType("pycuda.compiler")
        self.package = ModuleType("pycuda")
        vars(self.package).update(
            __path__=[], VERSION_TEXT="2026.1", driver=self.driver, compiler=self.compiler
        )
        vars(self.driver).update(_driver(device))
        vars(self.compiler).update(compile=_compile)


@contextmanager
def importable(device: Device) -> Iterator[PycudaOnDouble]:
    """`import pycuda.driver` gives the double's, and there is no `cuda.bindings`."""
    made = PycudaOnDouble(device)
    names: dict[str, Any] = {
        "pycuda": made.package,
        "pycuda.driver": made.driver,
        "pycuda.compiler": made.compiler,
        "cuda.bindings": None,
    }
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        yield made
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _compile(
    source: str,
    nvcc: str = "nvcc",
    options: Any = None,
    keep: bool = False,
    no_extern_c: bool = False,
    arch: str | None = None,
    code: Any = None,
    cache_dir: Any = None,
    include_dirs: Any = None,
    target: str = "cubin",
) -> bytes:
    assert no_extern_c, "the source declares its functions itself"
    assert cache_dir is False, "nothing is written into a home directory"
    assert arch == "sm_87"
    try:
        host_kernel.host_library(source)
    except RuntimeError as error:
        raise CompileError(f"nvcc compilation failed: {error}") from error
    return source.encode()


def _driver(device: Device) -> dict[str, Any]:
    made: list[threading.Thread] = []

    def guarded(routine: str, function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        try:
            return function(*arguments, **keywords)
        except NoMemory as error:
            raise MemoryError(f"{routine} failed: out of memory") from error
        except Lost as error:
            raise LogicError(f"{routine} failed: an illegal memory access was encountered") from error

    class Context:
        def push(self) -> None:
            guarded("cuCtxPushCurrent", device.make_current)
            made.append(threading.current_thread())

        @staticmethod
        def pop() -> None:
            assert made.pop() is threading.current_thread()
            device.leave()

        def detach(self) -> None:
            assert not made, "a context is detached while it is current"

    class Device_:
        def __init__(self, ordinal: int) -> None:
            assert ordinal == 0

        def name(self) -> str:
            return device.gpu.name

        def compute_capability(self) -> tuple[int, int]:
            return device.gpu.compute_capability

        def retain_primary_context(self) -> Context:
            guarded("cuDevicePrimaryCtxRetain", device.alive)
            return Context()

    class DeviceAllocation:
        def __init__(self, nbytes: int) -> None:
            device.need_context("mem_alloc")
            self._address = guarded("cuMemAlloc", device.allocate, nbytes, "mem_alloc").address

        def __int__(self) -> int:
            return self._address

        def free(self) -> None:
            guarded("cuMemFree", device.free, self._address)

    class PagelockedHostAllocation(np.ndarray[Any, Any]):
        """The base of a page-locked array."""

        def free(self) -> None:
            guarded("cuMemFreeHost", device.free, self.ctypes.data)

    def pagelocked_empty(shape: int, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
        found = guarded("cuMemHostAlloc", device.allocate, shape, "pagelocked_empty", host=True)
        found.written = True
        assert found.array is not None
        assert np.dtype(dtype) == np.uint8
        base = found.array.view(PagelockedHostAllocation)
        array = np.ndarray((shape,), np.uint8, buffer=base.data)
        return _Based(array, base)

    class Stream:
        def __init__(self, flags: int = 0) -> None:
            assert flags == 1, "a stream must not wait for the default one"
            self.handle = guarded("cuStreamCreate", device.create_stream)

        def synchronize(self) -> None:
            guarded("cuStreamSynchronize", device.synchronize, self.handle)

        def wait_for_event(self, event: "Event") -> None:
            guarded("cuStreamWaitEvent", device.wait_event, self.handle, event._event)

        def __del__(self) -> None:
            if hasattr(self, "handle"):
                device.destroy_stream(self.handle)

    class Event:
        def __init__(self, flags: int = 0) -> None:
            assert flags == 1 | 2, "an event must sleep and take no time"
            self._event = guarded("cuEventCreate", device.create_event)

        def record(self, stream: Stream | None = None) -> "Event":
            assert stream is not None
            guarded("cuEventRecord", device.record, self._event, stream.handle)
            return self

        def synchronize(self) -> "Event":
            guarded("cuEventSynchronize", device.synchronize_event, self._event)
            return self

        def __del__(self) -> None:
            if hasattr(self, "_event"):
                device.destroy_event(self._event)

    class Function:
        def __init__(self, source: str, name: str) -> None:
            self._handle = device.compile(source, name)
            self._kinds = parameters_of(source, name)
            self.arg_format = ""

        def prepare(self, arg_types: Sequence[str], texrefs: Any = None) -> "Function":
            self.arg_format = "".join(arg_types)
            return self

        def prepared_async_call(
            self, grid: Any, block: Any, stream: Stream, *args: Any, shared_size: int = 0
        ) -> None:
            assert [_LETTERS[letter] for letter in self.arg_format] == self._kinds
            packed = struct.unpack(self.arg_format, struct.pack(self.arg_format, *args))
            values = [kind(value) for kind, value in zip(self._kinds, packed, strict=True)]
            guarded("cuLaunchKernel", device.launch, self._handle, grid, block, values, stream.handle)

    class Module:
        def __init__(self, image: bytes) -> None:
            self._source = image.decode()

        def get_function(self, name: str) -> Function:
            return Function(self._source, name)

    def copy_in(dest: int, src: Any, stream: Stream | None = None) -> None:
        assert stream is not None
        guarded("cuMemcpyHtoDAsync", device.copy_in_array, dest, src, stream.handle)

    def copy_out(dest: Any, src: int, stream: Stream | None = None) -> None:
        assert stream is not None
        guarded("cuMemcpyDtoHAsync", device.copy_out_array, dest, src, stream.handle)

    def fill(dest: int, data: int, size: int, stream: Stream | None = None) -> None:
        assert stream is not None
        guarded("cuMemsetD8Async", device.fill, dest, data, size, stream.handle)

    return {
        "init": lambda flags=0: None,
        "Device": Device_,
        "Context": Context,
        "Stream": Stream,
        "Event": Event,
        "event_flags": SimpleNamespace(BLOCKING_SYNC=1, DISABLE_TIMING=2),
        "Error": Error,
        "MemoryError": MemoryError,
        "CompileError": CompileError,
        "mem_get_info": lambda: guarded("cuMemGetInfo", device.memory),
        "mem_alloc": DeviceAllocation,
        "pagelocked_empty": pagelocked_empty,
        "memcpy_htod_async": copy_in,
        "memcpy_dtoh_async": copy_out,
        "memset_d8_async": fill,
        "module_from_buffer": Module,
    }


class _Based(np.ndarray[Any, Any]):
    """An array whose `base` is what frees it, as pycuda makes them."""

    _holder: Any

    def __new__(cls, array: Any, base: Any) -> "_Based":
        made: _Based = np.ndarray.__new__(cls, array.shape, array.dtype, buffer=array.data)
        made._holder = base
        return made

    @property
    def base(self) -> Any:
        return self._holder
