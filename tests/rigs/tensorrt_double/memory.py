"""Memory of the double's device: every piece is tracked, and every address is checked before it is used.

Addresses are real ones of this process, in one area that is not used twice before its end, so that a kernel
compiled for the host runs on them and a stale address is known. Behind each piece lies a page that nobody may
touch.
"""

import bisect
import itertools
import mmap
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tests.rigs.tensorrt_double.faults import Count, Faults, Gpu, Misuse

_AREA: Final = 1 << 36
_NORESERVE: Final = 0x4000
_PAGE: Final = mmap.PAGESIZE


class NoMemory(Exception):
    """CUDA_ERROR_OUT_OF_MEMORY."""


class Lost(Exception):
    """The device is gone; every later call fails the same way."""


@dataclass(slots=True, eq=False)
class Allocation:
    """One piece of memory.

    Attributes:
        address: of its first byte.
        nbytes: as asked for.
        owner: what asked for it, for the ledger.
        host: page-locked host memory.
        written: somebody wrote to it; until then it holds garbage.
    """

    address: int
    nbytes: int
    owner: str
    host: bool = False
    written: bool = False
    array: npt.NDArray[np.uint8] | None = None

    @property
    def end(self) -> int:
        return self.address + self.nbytes


class DeviceMemory:
    """What of a device is memory, and what goes wrong on it.

    Args:
        gpu: which one.
        faults: what goes wrong.
    """

    def __init__(self, gpu: Gpu, faults: Faults) -> None:
        self.gpu = gpu
        self.faults = faults
        self.count = Count()
        self.misuses: list[str] = []
        self.lost = False
        self.peak_bytes = 0
        self._handles = itertools.count(0x1000, 0x10)
        self._lock = threading.RLock()
        self._starts: list[int] = []
        self._live: dict[int, Allocation] = {}
        self._map = mmap.mmap(-1, _AREA, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        self._base = np.frombuffer(self._map, np.uint8).ctypes.data
        self._next = 0
        self._freed_host: deque[tuple[int, int]] = deque(maxlen=16)

    def drain(self) -> None:
        """The thread waits for all streams."""
        raise NotImplementedError

    def misuse(self, text: str) -> Misuse:
        """Notes it, so that nobody can swallow it; raise what comes back."""
        self.misuses.append(text)
        return Misuse(text)

    def alive(self) -> None:
        """Raises Lost once the device is lost."""
        if self.lost:
            raise Lost("the device is lost")

    @property
    def capacity(self) -> int:
        """Bytes that may be allocated."""
        return self.faults.memory_bytes or self.gpu.memory_bytes

    @property
    def used(self) -> int:
        """Bytes of device memory that are allocated; on a board also those of the host."""
        with self._lock:
            kinds = self._live.values()
            return sum(a.nbytes for a in kinds if self.gpu.integrated or not a.host)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        self.alive()
        return max(0, self.capacity - self.used), self.gpu.memory_bytes

    def allocate(self, nbytes: int, owner: str, *, host: bool = False) -> Allocation:
        """Memory that holds garbage."""
        self.alive()
        if nbytes <= 0:
            raise self.misuse(f"an allocation of {nbytes} bytes ({owner})")
        with self._lock:
            if self.used + nbytes > self.capacity:
                raise NoMemory(f"{nbytes} bytes ({owner}) do not fit beside {self.used} of {self.capacity}")
            size = -(-nbytes // _PAGE) * _PAGE + _PAGE  # a page behind it that nobody may touch
            if self._next + size > _AREA:
                self._next = 0  # the oldest addresses are forgotten
                self._freed_host.clear()
            while (hit := self._overlap(self._base + self._next, size)) is not None:
                self._next = hit.address - self._base + -(-hit.nbytes // _PAGE) * _PAGE + _PAGE
            address = self._base + self._next
            self._next += size
            made = Allocation(address, nbytes, owner, host)
            made.array = self._bytes(address, nbytes)
            self._live[address] = made
            bisect.insort(self._starts, address)
            self.peak_bytes = max(self.peak_bytes, self.used)
            return made

    def _overlap(self, address: int, size: int) -> Allocation | None:
        place = bisect.bisect_right(self._starts, address + size - 1) - 1
        if place < 0:
            return None
        found = self._live[self._starts[place]]
        return found if found.end > address else None

    def find(self, address: int) -> Allocation | None:
        """The live allocation that holds an address."""
        with self._lock:
            found = self._overlap(address, 1)
            return found if found is not None and found.address <= address else None

    def free(self, address: int, what: str = "free") -> None:
        """Frees what starts at an address, after all work that waits."""
        with self._lock:
            made = self._live.get(address)
            if made is None:
                inside = self.find(address)
                said = (
                    f"{address:#x} is inside {inside.owner}"
                    if inside
                    else f"{address:#x} is not allocated (freed twice?)"
                )
                raise self.misuse(f"{what}: {said}")
        if not self.lost:
            self.drain()
        with self._lock:
            self._check_guard(made, what)
            del self._live[address]
            self._starts.remove(address)
            size = -(-made.nbytes // _PAGE) * _PAGE + _PAGE
            made.array = None
            if made.host:
                self._freed_host.append((address, made.nbytes))
            self._map.madvise(mmap.MADV_DONTNEED, address - self._base, size)

    def _bytes(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """Keeps the area alive, also for who holds an array longer than the device."""
        return np.frombuffer(self._map, np.uint8, nbytes, address - self._base)

    def written_after_free(self) -> None:
        """Notes a misuse where somebody wrote to page-locked memory after it was freed; knows the last few."""
        for address, nbytes in self._freed_host:
            if self._bytes(address, nbytes).any():
                self.misuse(f"{nbytes} bytes of page-locked memory were written to after they were freed")
        self._freed_host.clear()

    def _check_guard(self, made: Allocation, what: str) -> None:
        size = -(-made.nbytes // _PAGE) * _PAGE + _PAGE - made.nbytes
        behind = self._bytes(made.end, size)
        if behind.any():
            behind[:] = 0
            raise self.misuse(f"{what}: something wrote behind the end of {made.owner} ({made.nbytes} bytes)")

    def piece(self, address: int, nbytes: int, what: str) -> npt.NDArray[np.uint8]:
        """The bytes at an address, checked."""
        made = self.find(address)
        if made is None:
            known = self._base <= address < self._base + self._next
            why = "was freed or never allocated" if known else "is no device address"
            raise self.misuse(f"{what}: {address:#x} {why}")
        if address + nbytes > made.end:
            place = f"{nbytes} bytes at offset {address - made.address}"
            raise self.misuse(f"{what}: {place} go beyond {made.owner} of {made.nbytes} bytes")
        assert made.array is not None
        offset = address - made.address
        return made.array[offset : offset + nbytes]

    def _written(self, address: int) -> None:
        made = self.find(address)
        if made is not None:
            made.written = True

    def hold(self, thing: Any, nbytes: int, owner: str) -> Allocation:
        """Device memory that lives as long as a Python object, as an engine's weights do."""
        made = self.allocate(nbytes, owner)
        made.written = True
        weakref.finalize(thing, self._drop, made.address).atexit = False
        return made

    def _drop(self, address: int) -> None:
        with self._lock:
            alive = address in self._live
        if alive:
            self.free(address, "destroy")
