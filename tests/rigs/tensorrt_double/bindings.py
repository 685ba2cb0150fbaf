"""`cuda.bindings` over the double's device, so that the runtime's own seam runs unchanged on it.

Names, and how many arguments each takes, are those recorded from the published wheels; a name that they have and
the runtime does not use is not played. Results are tuples whose first item is the code, as the real ones are.
"""

import ctypes
import enum
import json
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from tests.rigs import host_kernel
from tests.rigs.tensorrt_double.catalogue import NAMES
from tests.rigs.tensorrt_double.device import Device, Lost, NoMemory
from tests.rigs.tensorrt_double.strict import NotPlayed

VERSION: Final = "13.0.3"

_IMAGE: Final = b"\x7fELF double\n"
_C_TYPES: Final[dict[str, type[Any]]] = {
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
}


class Result(enum.IntEnum):
    """`CUresult`, as far as it is played."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class TranslationResult(enum.IntEnum):
    """`nvrtcResult`, as far as it is played."""

    NVRTC_SUCCESS = 0
    NVRTC_ERROR_INVALID_INPUT = 3
    NVRTC_ERROR_COMPILATION = 6


_SAID: Final = {
    Result.CUDA_ERROR_OUT_OF_MEMORY: b"out of memory",
    Result.CUDA_ERROR_ILLEGAL_ADDRESS: b"an illegal memory access was encountered",
    Result.CUDA_ERROR_NOT_FOUND: b"named symbol not found",
    Result.CUDA_ERROR_NOT_INITIALIZED: b"initialization error",
}


class Failed(Exception):
    """A call that gives this code."""

    def __init__(self, code: enum.IntEnum) -> None:
        super().__init__(code.name)
        self.code = code


class Handle:
    """A driver's object: `int()` of it is its value."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __int__(self) -> int:
        return self._value


class _Module(ModuleType):
    def __init__(self, name: str, known: dict[str, Any], playing: dict[str, Any]) -> None:
        super().__init__(name)
        self._known, self._playing = known, playing

    def __getattr__(self, name: str) -> Any:
        if name in self._playing:
            return self._playing[name]
        if name in self._known["functions"] or name in self._known["enums"]:
            raise NotPlayed(f"the double does not play {self.__name__}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _Enum:
    """An enum with the recorded names only; the values are the places in the record."""

    def __init__(self, names: list[str]) -> None:
        self.__members__ = {name: place for place, name in enumerate(names)}

    def __getattr__(self, name: str) -> int:
        if name not in self.__members__:
            raise AttributeError(name)
        return self.__members__[name]


def parameters_of(source: str, function: str) -> list[type[Any]]:
    """The ctypes of a kernel's parameters, which a GPU knows from the compiled code."""
    found = re.search(rf"\b{function}\s*\(([^)]*)\)", source)
    if found is None:
        raise Failed(Result.CUDA_ERROR_NOT_FOUND)
    kinds: list[type[Any]] = []
    for parameter in found.group(1).split(","):
        words = parameter.replace("const", "").split()
        kinds.append(ctypes.c_void_p if "*" in parameter else _C_TYPES[words[0]])
    return kinds


class Bindings:
    """The modules `cuda.bindings`, `.driver` and `.nvrtc`.

    Args:
        device: that is played.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        releases = json.loads(NAMES.read_text(encoding="utf-8"))["cuda.bindings"]["releases"]
        record = next(r for r in releases if r["version"] == VERSION)
        self._attributes = record["driver"]["enums"]["CUdevice_attribute"]
        self._sources: dict[int, str] = {}
        self._loaded = 0
        self._kinds: dict[int, list[type[Any]]] = {}
        self._ready = False
        driver: dict[str, Any] = {
            name: self._checked(name, record["driver"]["functions"][name], getattr(self, f"_{name}"), Result)
            for name in record["driver"]["functions"]
            if hasattr(self, f"_{name}")
        }
        driver |= {name: _Enum(names) for name, names in record["driver"]["enums"].items()} | {
            "CUresult": Result
        }
        nvrtc: dict[str, Any] = {
            name: self._checked(
                name, record["nvrtc"]["functions"][name], getattr(self, f"_{name}"), TranslationResult
            )
            for name in record["nvrtc"]["functions"]
            if hasattr(self, f"_{name}")
        }
        nvrtc["nvrtcResult"] = TranslationResult
        self.driver = _Module("cuda.bindings.driver", record["driver"], driver)
        self.nvrtc = _Module("cuda.bindings.nvrtc", record["nvrtc"], nvrtc)
        self.package = ModuleType("cuda.bindings")
        vars(self.package).update(
            __path__=[], __version__=VERSION, driver=self.driver, nvrtc=self.nvrtc, __file__=__file__
        )

    def _checked(
        self, name: str, parameters: list[str], play: Callable[..., Any], codes: type[enum.IntEnum]
    ) -> Callable[..., Any]:
        def call(*arguments: Any) -> tuple[Any, ...]:
            if len(arguments) != len(parameters):
                raise TypeError(
                    f"{name}() takes exactly {len(parameters)} positional arguments ({len(arguments)} given)"
                )
            try:
                given = play(*arguments)
            except NoMemory:
                given = Failed(Result.CUDA_ERROR_OUT_OF_MEMORY)
            except Lost:
                given = Failed(Result.CUDA_ERROR_ILLEGAL_ADDRESS)
            except Failed as failed:
                given = failed
            if isinstance(given, Failed):
                return given.code, None
            values = given if isinstance(given, tuple) else () if given is None else (given,)
            return codes(0), *values

        call.__name__ = name
        return call

    # Device and context

    def _cuInit(self, flags: int) -> None:
        self._ready = True

    def _cuDeviceGet(self, ordinal: int) -> Handle:
        if not self._ready:
            raise Failed(Result.CUDA_ERROR_NOT_INITIALIZED)
        return Handle(ordinal)

    def _cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return self._device.gpu.name.encode().ljust(length, b"\0")[:length]

    def _cuDeviceGetAttribute(self, attribute: int, device: Any) -> int:
        name = self._attributes[attribute].removeprefix("CU_DEVICE_ATTRIBUTE_")
        major, minor = self._device.gpu.compute_capability
        known = {"COMPUTE_CAPABILITY_MAJOR": major, "COMPUTE_CAPABILITY_MINOR": minor}
        known["INTEGRATED"] = int(self._device.gpu.integrated)
        if name not in known:
            raise NotPlayed(f"the double does not play {name}")
        return known[name]

    def _cuDriverGetVersion(self) -> int:
        return self._device.gpu.driver

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> Handle:
        self._device.alive()
        return Handle(1)

    def _cuDevicePrimaryCtxRelease(self, device: Any) -> None:
        """The context is left where another one, or none, becomes current."""

    def _cuCtxSetCurrent(self, context: Any) -> None:
        if context is None:
            self._device.leave()
        else:
            self._device.make_current()

    def _cuGetErrorString(self, code: Any) -> bytes:
        return _SAID.get(Result(int(code)), b"unknown error")

    # Memory

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self._device.memory()

    def _cuMemAlloc(self, nbytes: int) -> Handle:
        self._device.need_context("cuMemAlloc")
        return Handle(self._device.allocate(nbytes, "cuMemAlloc").address)

    def _cuMemFree(self, address: Any) -> None:
        self._device.free(int(address), "cuMemFree")

    def _cuMemHostAlloc(self, nbytes: int, flags: int) -> int:
        self._device.need_context("cuMemHostAlloc")
        made = self._device.allocate(nbytes, "cuMemHostAlloc", host=True)
        made.written = True
        return made.address

    def _cuMemFreeHost(self, address: int) -> None:
        self._device.free(int(address), "cuMemFreeHost")

    def _cuMemcpyHtoDAsync(self, target: Any, source: int, nbytes: int, stream: Any) -> None:
        self._device.copy_in(int(target), int(source), nbytes, int(stream))

    def _cuMemcpyDtoHAsync(self, target: int, source: Any, nbytes: int, stream: Any) -> None:
        self._device.copy_out(int(target), int(source), nbytes, int(stream))

    def _cuMemsetD8Async(self, target: Any, byte: int, nbytes: int, stream: Any) -> None:
        self._device.fill(int(target), byte, nbytes, int(stream))

    # Streams, events, graphs

    def _cuStreamCreate(self, flags: int) -> Handle:
        return Handle(self._device.create_stream())

    def _cuStreamDestroy(self, stream: Any) -> None:
        self._device.destroy_stream(int(stream))

    def _cuStreamSynchronize(self, stream: Any) -> None:
        self._device.synchronize(int(stream))

    def _cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        self._device.wait_event(int(stream), int(event))

    def _cuEventCreate(self, flags: int) -> Handle:
        return Handle(self._device.create_event())

    def _cuEventDestroy(self, event: Any) -> None:
        self._device.destroy_event(int(event))

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        self._device.record(int(event), int(stream))

    def _cuEventSynchronize(self, event: Any) -> None:
        self._device.synchronize_event(int(event))

    def _cuStreamBeginCapture(self, stream: Any, mode: Any) -> None:
        self._device.begin_capture(int(stream))

    def _cuStreamEndCapture(self, stream: Any) -> Handle:
        return Handle(self._device.end_capture(int(stream)))

    def _cuGraphInstantiate(self, graph: Any, flags: int) -> Handle:
        return Handle(int(graph))

    def _cuGraphDestroy(self, graph: Any) -> None:
        """The one that was instantiated lives on."""

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        self._device.launch_graph(int(graph), int(stream))

    def _cuGraphExecDestroy(self, graph: Any) -> None:
        self._device.destroy_graph(int(graph))

    # Kernels

    def _cuModuleLoadData(self, image: Any) -> Handle:
        data = bytes(image)
        if not data.startswith(_IMAGE):
            raise Failed(Result.CUDA_ERROR_INVALID_VALUE)
        self._loaded += 1  # a handle is never given twice
        handle = Handle(self._loaded)
        self._sources[int(handle)] = data[len(_IMAGE) :].decode()
        return handle

    def _cuModuleUnload(self, module: Any) -> None:
        del self._sources[int(module)]

    def _cuModuleGetFunction(self, module: Any, name: bytes) -> Handle:
        source, function = self._sources[int(module)], name.decode()
        kinds = parameters_of(source, function)
        handle = self._device.compile(source, function)
        self._kinds[handle] = kinds
        return Handle(handle)

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        grid, block, (shared, stream, parameters, extra) = rest[:3], rest[3:6], rest[6:]
        if shared or extra:
            raise NotPlayed("the double plays no shared memory and no extra arguments")
        kinds = self._kinds[int(function)]
        places = (ctypes.c_void_p * len(kinds)).from_address(int(parameters))
        values = [kind.from_address(place) for kind, place in zip(kinds, places, strict=True)]
        self._device.launch(int(function), grid, block, values, int(stream))

    # NVRTC

    def _nvrtcCreateProgram(
        self, source: bytes, name: bytes, headers: int, texts: Any, names: Any
    ) -> dict[str, Any]:
        return {"source": source.decode(), "log": ""}

    def _nvrtcCompileProgram(self, program: dict[str, Any], count: int, options: list[bytes]) -> None:
        major, minor = self._device.gpu.compute_capability
        if count != len(options) or f"--gpu-architecture=sm_{major}{minor}".encode() not in options:
            program["log"] = f"the device is sm_{major}{minor}"
            raise Failed(TranslationResult.NVRTC_ERROR_INVALID_INPUT)
        try:
            host_kernel.host_library(program["source"])
        except RuntimeError as error:
            program["log"] = str(error)
            raise Failed(TranslationResult.NVRTC_ERROR_COMPILATION) from error

    def _nvrtcGetProgramLogSize(self, program: dict[str, Any]) -> int:
        return len(program["log"].encode()) + 1

    def _nvrtcGetProgramLog(self, program: dict[str, Any], log: bytearray) -> None:
        log[:] = program["log"].encode() + b"\0"

    def _nvrtcGetCUBINSize(self, program: dict[str, Any]) -> int:
        return len(_IMAGE) + len(program["source"].encode())

    def _nvrtcGetCUBIN(self, program: dict[str, Any], image: bytearray) -> None:
        image[:] = _IMAGE + program["source"].encode()

    def _nvrtcDestroyProgram(self, program: dict[str, Any]) -> None:
        program.clear()

    def _nvrtcGetErrorString(self, code: Any) -> bytes:
        return TranslationResult(int(code)).name.encode()
