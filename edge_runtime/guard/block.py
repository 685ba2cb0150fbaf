"""A block of shared memory that one process writes and others read: sequence, body, checksum, sequence.

What is assumed of CPython and the machine: nothing about order. A slice assignment to an mmap is a memcpy, which
may store and load its bytes in any order and any width; arm64 may show another core's stores in any order as well,
and the interpreter lock of one process is no barrier for another. So no word of a block is trusted alone, and no
"ready" flag is read first. A reader copies the whole block into memory of its own and looks at that copy only: both
sequences must be equal and the CRC-32 must fit everything before it. A copy that mixes two writes fails one of
them; it is copied again, a bounded number of times. The only thing assumed is that stores become visible at all.
"""

import fcntl
import mmap
import os
import struct
import zlib
from functools import lru_cache

from edge_runtime.errors import EdgeRuntimeError

TRIES = 8
"""How often a torn block is copied again before it counts as torn: a copy takes less than a microsecond."""

BOOT_BYTES = 16
NAME_BYTES = 16
"""Names in shared memory: ASCII, at most 15 characters, padded with NUL."""

LARGEST = (1 << 63) - 1
"""Of any time or number here, so that it fits a signed 64-bit word."""

F_SEAL_FUTURE_WRITE = 0x0010
"""linux/fcntl.h; Python's fcntl does not name it. Linux 5.1."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_SEALED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_ENDS = struct.Struct("<Q")
_CHECK = struct.Struct("<I4xQ")  # CRC-32, padding, the sequence again
_OVERHEAD = _ENDS.size + _CHECK.size


class SharedMemoryError(EdgeRuntimeError):
    """Memory that the guard shares cannot be made, found, or used as asked."""

    exit_code = 2


class Block:
    """One block inside a mapping.

    Args:
        memory: the mapping; writable only on the writer's side.
        offset: bytes from its start.
        body: layout of what lies between the two sequences, little endian.
    """

    __slots__ = ("_body", "_end", "_memory", "_offset")

    def __init__(self, memory: mmap.mmap, offset: int, body: struct.Struct) -> None:
        self._memory, self._offset, self._body = memory, offset, body
        self._end = offset + block_bytes(body)

    def write(self, sequence: int, *fields: bytes | int) -> None:
        """Replace the block; only its one writer may do this.

        Args:
            sequence: greater than that of the last write, in [1, 2^63).
            fields: as the body's layout asks for them.
        """
        head = _ENDS.pack(sequence) + self._body.pack(*fields)
        self._memory[self._offset : self._end] = head + _CHECK.pack(zlib.crc32(head), sequence)

    def read(self) -> tuple[int, tuple[bytes | int, ...]] | None:
        """Sequence and fields of one whole write; None if each of `TRIES` copies was torn or never written."""
        for _ in range(TRIES):
            whole = parse(self._memory[self._offset : self._end], self._body)
            if whole is not None:
                return whole
        return None

    def is_blank(self) -> bool:
        """Whether nothing was ever written here."""
        return not any(self._memory[self._offset : self._end])


def parse(copy: bytes, body: struct.Struct) -> tuple[int, tuple[bytes | int, ...]] | None:
    """What a private copy of a block says; None if it is torn or blank."""
    checked = len(copy) - _CHECK.size
    (head,) = _ENDS.unpack_from(copy)
    crc, tail = _CHECK.unpack_from(copy, checked)
    if head != tail or head == 0 or crc != zlib.crc32(copy[:checked]):
        return None
    return head, body.unpack_from(copy, _ENDS.size)


def block_bytes(body: struct.Struct) -> int:
    """Bytes of a block with this body."""
    return _OVERHEAD + body.size


def shared_memory(name: str, size: int, *, future_write: bool) -> tuple[int, mmap.mmap]:
    """A new memfd of fixed size with a writable mapping of it.

    Nobody can shrink it: a reader of a shortened mapping dies by SIGBUS.

    Args:
        name: shown in /proc only.
        size: bytes.
        future_write: whether others, given the descriptor, may write too. If not, only this mapping ever can: new
            writable mappings and write(2) fail with EPERM for everybody, this process included.

    Raises:
        SharedMemoryError: the kernel has no memfd or no such seal.
    """
    fd = -1
    try:
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        memory = mmap.mmap(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALED_SIZE | (0 if future_write else F_SEAL_FUTURE_WRITE))
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise SharedMemoryError(
            f"cannot make the guard's shared memory: {error.strerror}; Linux 5.1 or later is needed"
        ) from error
    return fd, memory


def attach(fd: int, *, writable: bool) -> mmap.mmap:
    """Map memory whose descriptor this process was given, all of it.

    Raises:
        SharedMemoryError: the descriptor is not open, not such memory, or sealed against writing.
    """
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    try:
        return mmap.mmap(fd, os.fstat(fd).st_size, flags=mmap.MAP_SHARED, prot=protection)
    except (OSError, ValueError) as error:
        raise SharedMemoryError(f"descriptor {fd} is not memory that the guard shares: {error}") from error


def padded(name: str) -> bytes:
    """A name as it lies in shared memory.

    Raises:
        SharedMemoryError: it is empty, longer than 15 characters, or not printable ASCII.
    """
    if not 0 < len(name) < NAME_BYTES or not (name.isascii() and name.isprintable()):
        raise SharedMemoryError(f"{name!r}: a name in shared memory is 1 to 15 printable ASCII characters")
    return name.encode("ascii").ljust(NAME_BYTES, b"\0")


def unpadded(data: bytes) -> str:
    """The name again; what is not ASCII, which no writer of ours leaves, is shown as a replacement character."""
    return data.rstrip(b"\0").decode("ascii", "replace")


@lru_cache(maxsize=1)
def boot_id() -> bytes:
    """The kernel's random id of this boot, 16 bytes; zeros where it cannot be read."""
    try:
        with open(_BOOT_ID, encoding="utf-8") as file:
            return bytes.fromhex(file.read().replace("-", ""))
    except (OSError, ValueError):
        return bytes(BOOT_BYTES)
