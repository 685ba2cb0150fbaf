"""The lease: the guard's permission to move, which ends by itself.

A memfd of its own that nobody but the guard can write: it is sealed with F_SEAL_FUTURE_WRITE once the guard's
mapping exists, so a child that has the descriptor can neither map it writable nor write(2) to it. The guard renews
it every 10 ms and each time it is good for 40 ms. When the guard is dead, stopped or late nothing has to run for
the permission to end: the time passes.

A lease has an epoch: when the present permission began. Whatever was wished for before that is void.
"""

import os
import struct
import time
from collections.abc import MutableMapping
from typing import NamedTuple

from edge_runtime.guard.block import (
    BOOT_BYTES,
    NAME_BYTES,
    Block,
    SharedMemoryError,
    attach,
    block_bytes,
    boot_id,
    padded,
    shared_memory,
    unpadded,
)

VARIABLE = "EDGE_GUARD_LEASE"
"""Tells a child the lease's descriptor."""

LENGTH_NS = 40_000_000
"""How long one renewal is good for."""

RENEWAL_NS = 10_000_000
"""How often the guard renews it: three renewals may be late before it ends."""

LONGEST_NS = 1_000_000_000
"""A lease that claims to last longer than this is damaged, and no permission."""

_MAGIC = b"EDGELEAS"
_LEASE = struct.Struct(f"<8s{BOOT_BYTES}s{NAME_BYTES}sIIqq")
_BYTES = block_bytes(_LEASE)


class Lease(NamedTuple):
    """One renewal, or the end of the permission.

    Attributes:
        sequence: of the write.
        state: of the guard's state machine, at most 15 characters.
        limits: index of the limits table that applies.
        expires_ns: the permission ends at this time; 0 where there is none.
        epoch_ns: when the permission began that this renews.
    """

    sequence: int
    state: str
    limits: int
    expires_ns: int
    epoch_ns: int

    def valid(self, now_ns: int) -> bool:
        """Whether it permits at this time."""
        return now_ns < self.expires_ns <= now_ns + LONGEST_NS


class LeaseWriter:
    """The guard's side: the only mapping through which the lease can ever be written.

    Args:
        length_ns: what one renewal is good for, in (0, 1 s].

    Raises:
        SharedMemoryError: the length is out of range, or the kernel cannot make or seal the memory.
    """

    def __init__(self, length_ns: int = LENGTH_NS) -> None:
        if not 0 < length_ns <= LONGEST_NS:
            raise SharedMemoryError(f"a lease lasts more than 0 and at most {LONGEST_NS // 1_000_000} ms")
        self._length = length_ns
        self.fd, self._memory = shared_memory("edge-lease", _BYTES, future_write=False)
        self._block = Block(self._memory, 0, _LEASE)
        self._sequence = 0
        self._expires_ns = 0
        self._epoch_ns = 0
        self.revoke("INIT")

    def renew(self, now_ns: int, state: str, limits: int) -> None:
        """Permit for one length from now; after any gap in the permission a new epoch begins.

        Args:
            now_ns: read after whatever justifies the renewal, never before it.
            state: name of the state, 1 to 15 printable ASCII characters.
            limits: index of the limits table, in [0, 2^32).
        """
        if now_ns >= self._expires_ns:
            self._epoch_ns = now_ns
        self._write(now_ns + self._length, state, limits)

    def revoke(self, state: str) -> None:
        """End the permission at once, for whoever looks before it would have ended by itself."""
        self._write(0, state, 0)

    def handover(self) -> tuple[tuple[int, ...], dict[str, str]]:
        """Descriptors to inherit and variables to set for a child that may read the lease."""
        return (self.fd,), {VARIABLE: str(self.fd)}

    def close(self) -> None:
        """Unmap. From now on nobody can write it any more."""
        self._memory.close()
        os.close(self.fd)

    def _write(self, expires_ns: int, state: str, limits: int) -> None:
        self._expires_ns = expires_ns
        self._sequence += 1
        self._block.write(
            self._sequence, _MAGIC, boot_id(), padded(state), limits, 0, expires_ns, self._epoch_ns
        )


class LeaseReader:
    """A child's side.

    Args:
        fd: of the lease; kept until `close`.

    Raises:
        SharedMemoryError: the descriptor is no lease.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._memory = attach(fd, writable=False)
        if len(self._memory) != _BYTES:
            self._memory.close()
            raise SharedMemoryError(f"descriptor {fd} is no lease")
        self._block = Block(self._memory, 0, _LEASE)
        self._last: Lease | None = None

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> "LeaseReader":
        """The lease that the guard gave this process; the variable is taken out.

        Raises:
            SharedMemoryError: the variable is missing, or names no lease.
        """
        told = environment.pop(VARIABLE, "")
        if not (told.isdecimal() and len(told) < 10):
            raise SharedMemoryError(
                f"{VARIABLE} is {told[:40]!r}; the guard sets it to the lease's descriptor"
            )
        return cls(int(told))

    def read(self) -> Lease | None:
        """The newest renewal that could be read whole; None before the first.

        While a write is torn the one before it counts. It ends at its own time, so a guard that stopped in the
        middle of a write ends the permission as any other end of it does.
        """
        whole = self._block.read()
        if whole is not None:
            sequence, fields = whole
            magic, boot, state, limits, _, expires, epoch = fields
            known = 0 if self._last is None else self._last.sequence
            if magic == _MAGIC and boot == boot_id() and sequence >= known and isinstance(state, bytes):
                self._last = Lease(sequence, unpadded(state), int(limits), int(expires), int(epoch))
        return self._last

    def valid(self, now_ns: int | None = None) -> bool:
        """Whether there is permission at this time; read now where none is given."""
        lease = self.read()
        return lease is not None and lease.valid(time.monotonic_ns() if now_ns is None else now_ns)

    def close(self) -> None:
        """Unmap."""
        self._memory.close()
        os.close(self._fd)
