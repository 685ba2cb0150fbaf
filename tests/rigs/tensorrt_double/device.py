"""The device that the double plays: contexts, copies, kernels and executions on tracked memory and lazy streams."""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tests.rigs import host_kernel
from tests.rigs.tensorrt_double.faults import Faults, Gpu
from tests.rigs.tensorrt_double.memory import Allocation, Lost, NoMemory
from tests.rigs.tensorrt_double.streams import DeviceStreams


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is alive."""

    device: tuple[Allocation, ...]
    host: tuple[Allocation, ...]
    streams: int
    events: int
    functions: int
    graphs: int
    contexts: int

    @property
    def device_bytes(self) -> int:
        """Of device memory."""
        return sum(a.nbytes for a in self.device)

    @property
    def empty(self) -> bool:
        """Whether nothing is alive."""
        return not (self.device or self.host or self.streams or self.events or self.graphs or self.contexts)

    def __str__(self) -> str:
        held = [
            f"{a.nbytes} bytes of {'host' if a.host else 'device'} memory ({a.owner})"
            for a in self.device + self.host
        ]
        held += [f"{n} {what}" for n, what in ((self.streams, "streams"), (self.events, "events")) if n]
        held += [f"{self.contexts} retained contexts"] if self.contexts else []
        return ", ".join(held) or "nothing"


class Device(DeviceStreams):
    """One GPU of one process. A call that a real one answers with garbage or a crash is a `Misuse`.

    Args:
        gpu: which one.
        faults: what goes wrong.
    """

    def __init__(self, gpu: Gpu, faults: Faults) -> None:
        super().__init__(gpu, faults)
        self._free_to_go = threading.Event()
        self._current: dict[int, int] = {}
        self._functions: dict[int, tuple[ctypes.CDLL, str]] = {}

    def release(self) -> None:
        """Ends a hang."""
        self._free_to_go.set()

    def make_current(self) -> None:
        """Retains the primary context on this thread."""
        self.alive()
        with self._lock:
            self._current[threading.get_ident()] = self._current.get(threading.get_ident(), 0) + 1

    def leave(self) -> None:
        """Releases it on this thread."""
        with self._lock:
            ident = threading.get_ident()
            if not self._current.get(ident):
                raise self.misuse("a context is released on a thread that has not retained it")
            self._current[ident] -= 1
            if not self._current[ident]:
                del self._current[ident]

    def need_context(self, what: str) -> None:
        """Misuse where this thread has no context."""
        if not self._current.get(threading.get_ident()):
            raise self.misuse(
                f"{what}: no CUDA context is current on thread {threading.current_thread().name}"
            )

    def _contiguous(self, array: npt.NDArray[Any], what: str) -> int:
        if not array.flags.c_contiguous:
            raise self.misuse(f"{what}: the host array is not contiguous")
        return int(array.ctypes.data)

    def _host(self, address: int, nbytes: int, what: str) -> None:
        made = self.find(address)
        if made is None or not made.host:
            raise self.misuse(
                f"{what}: the host memory is not page-locked, so the copy would not be asynchronous"
            )
        if address + nbytes > made.end:
            raise self.misuse(f"{what}: {nbytes} bytes go beyond the page-locked memory of {made.nbytes}")

    def copy_in_array(self, address: int, host: npt.NDArray[Any], stream: int) -> None:
        """Array to device, when its turn comes."""
        self.copy_in(address, self._contiguous(host, "copy_in"), host.nbytes, stream)

    def copy_out_array(self, host: npt.NDArray[Any], address: int, stream: int) -> None:
        """Device to array, when its turn comes."""
        self.copy_out(self._contiguous(host, "copy_out"), address, host.nbytes, stream)

    def copy_in(self, address: int, source: int, nbytes: int, stream: int) -> None:
        """Host to device, when its turn comes."""
        self._host(source, nbytes, "copy_in")
        self.piece(address, nbytes, "copy_in")

        def work() -> None:
            target = self.piece(address, nbytes, "copy_in, when its turn came")
            target[:] = self.piece(source, nbytes, "copy_in, its host memory")
            self._written(address)

        self.enqueue(stream, "copy_in", work)

    def copy_out(self, target: int, address: int, nbytes: int, stream: int) -> None:
        """Device to host, when its turn comes."""
        self._host(target, nbytes, "copy_out")
        self.piece(address, nbytes, "copy_out")

        def work() -> None:
            made = self.find(address)
            if made is not None and not made.written:
                raise self.misuse(f"copy_out: nobody wrote to {made.owner} before it was read")
            source = self.piece(address, nbytes, "copy_out, when its turn came")
            self.piece(target, nbytes, "copy_out, its host memory")[:] = source

        self.enqueue(stream, "copy_out", work)

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Sets bytes, when its turn comes."""
        self.piece(address, nbytes, "fill")

        def work() -> None:
            self.piece(address, nbytes, "fill, when its turn came")[:] = byte
            self._written(address)

        self.enqueue(stream, "fill", work)

    def compile(self, source: str, function: str) -> int:
        """The kernel, compiled for the host."""
        self.alive()
        library = host_kernel.host_library(source)
        if not hasattr(library, function):
            raise LookupError(f"the kernel source has no function {function}")
        handle = next(self._handles)
        self._functions[handle] = (library, function)
        return handle

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        stream: int,
    ) -> None:
        """Runs the kernel on the host, when its turn comes."""
        found = self._functions.get(function)
        if found is None:
            raise self.misuse(f"launch: {function:#x} is no function")
        library, name = found
        values = tuple(type(argument)(argument.value) for argument in arguments)  # CUDA copies them now
        pointers = [
            int(v.value) for v in values if isinstance(v, ctypes.c_void_p | ctypes.c_uint64) and v.value
        ]
        for pointer in pointers:
            self.piece(pointer, 1, f"launch of {name}")

        def work() -> None:
            for pointer in pointers:
                self.piece(pointer, 1, f"launch of {name}, when its turn came")
            host_kernel.launch(library, name, grid, block, values)
            for pointer in pointers:
                made = self.find(pointer)
                assert made is not None
                self._check_guard(made, f"launch of {name}")
                made.written = True

        self.enqueue(stream, f"launch of {name}", work)

    def execution(self) -> int:
        """Counts an execution that begins on the device; plays the loss and the hang of it."""
        number = self.count.next("execution")
        if self.faults.lost_from < 0 or 0 < self.faults.lost_from <= number:
            self.lost = True
            raise Lost("the device is lost")
        if self.faults.hang_from < 0 or 0 < self.faults.hang_from <= number:
            self._free_to_go.wait(self.faults.hang_seconds)
        return number

    def ledger(self) -> Ledger:
        """What is alive now."""
        with self._lock:
            live = list(self._live.values())
            return Ledger(
                tuple(a for a in live if not a.host),
                tuple(a for a in live if a.host),
                len(self._streams),
                len(self._events),
                len(self._functions),
                len(self._graphs),
                sum(self._current.values()),
            )


__all__ = ["Allocation", "Device", "Ledger", "Lost", "NoMemory"]
