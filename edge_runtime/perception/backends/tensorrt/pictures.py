"""Page-locked memory of pictures: filled by the threads that prepare, allocated and freed by the device's thread.

The memory is gone when the model is closed, and an array that points there would crash the process. So arrays never
leave this module: a picture is written and read under its lock.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.tensorrt._cuda import HostMemory


@dataclass(slots=True)
class _Picture:
    """One number's memory; a lock of its own lets a frame be copied in while another is copied on."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    memory: HostMemory | None = None


class PictureMemory:
    """Page-locked memory by number. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pictures: list[_Picture] = []

    def number(self) -> int:
        """A number that has no memory yet."""
        with self._lock:
            self._pictures.append(_Picture())
            return len(self._pictures) - 1

    def size(self, number: int) -> int:
        """Bytes that it has; 0 where it has none."""
        with self._pictures[number].lock:
            memory = self._pictures[number].memory
            return 0 if memory is None else memory.nbytes

    @contextmanager
    def use(self, number: int) -> Iterator[HostMemory]:
        """Its memory, which stays for as long as the block runs.

        Raises:
            BackendError: it has none: the model was closed.
        """
        with self._pictures[number].lock:
            memory = self._pictures[number].memory
            if memory is None:
                raise BackendError("the picture's memory is gone: the model was closed")
            yield memory

    def replace(self, number: int, memory: HostMemory | None) -> HostMemory | None:
        """Give it other memory, or none; what it had before, which is then nobody's."""
        with self._pictures[number].lock:
            before, self._pictures[number].memory = self._pictures[number].memory, memory
            return before

    def clear(self) -> None:
        """No picture has memory any more."""
        with self._lock:
            numbers = range(len(self._pictures))
        for number in numbers:
            self.replace(number, None)
