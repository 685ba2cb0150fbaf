"""The flight ring: what the guard saw and did, in shared memory, written without a system call.

A memfd of fixed slots. The guard writes, one reader in another process takes the entries out and puts them on disk:
a disk that is slow or full never costs the guard a turn. What is not taken in time is overwritten, and counted by
the reader. Entry number n lies in slot (n - 1) mod slots; each is a block of its own (`block.py`), so that one that
is read while it is written is seen to be torn.
"""

import contextlib
import mmap
import os
import struct
from collections.abc import MutableMapping
from enum import IntEnum
from typing import NamedTuple

from edge_runtime.guard.block import Block, SharedMemoryError, attach, block_bytes, shared_memory

VARIABLE = "EDGE_GUARD_RING"
"""Tells a child the ring's descriptor."""

SLOTS = 4096
"""More than an hour at one entry a second."""

LARGEST_PAYLOAD = 220
"""Bytes of one entry."""

LARGEST_KIND = (1 << 16) - 1

_ENTRY = struct.Struct(f"<qHH{LARGEST_PAYLOAD}s")  # time, kind, length of the payload, payload
_STRIDE = block_bytes(_ENTRY)  # 256: whole cache lines


class Kind(IntEnum):
    """What an entry is about; the payload of each is compact JSON in UTF-8."""

    CHANGE = 1
    """A change of state: `before`, `state`, `causes`, `latch`."""
    TURN = 2
    """Once a second: `state`, `mode`, `permit`, `tripped`, `not_evaluated`, `late_worst_us`, `turns`."""
    WORKER = 3
    """A process came to another phase: `name`, `phase`, `pid`, `exit`."""
    ACT = 4
    """What somebody asked for: `ask`; of an acknowledgement `by`, `note` and `latch`; or why it was `refused`."""


class RingEntry(NamedTuple):
    """One entry.

    Attributes:
        sequence: its number, from 1; there are no gaps but what was lost.
        kind: see `Kind`; one that is not in it comes from a newer guard.
        at_ns: its time, CLOCK_MONOTONIC.
        payload: at most `LARGEST_PAYLOAD` bytes.
    """

    sequence: int
    kind: int
    at_ns: int
    payload: bytes


class RingWriter:
    """The guard's side: the only mapping through which the ring can ever be written.

    Args:
        slots: how many entries it holds, at least 2.

    Raises:
        SharedMemoryError: the kernel cannot make or seal the memory.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        if slots < 2:
            raise SharedMemoryError("a flight ring has at least 2 slots")
        self.fd, self._memory = shared_memory("edge-flight", slots * _STRIDE, future_write=False)
        self._slots, self._sequence = slots, 0

    def handover(self) -> tuple[tuple[int, ...], dict[str, str]]:
        """Descriptors to inherit and variables to set for the child that reads it."""
        return (self.fd,), {VARIABLE: str(self.fd)}

    def append(self, kind: int, at_ns: int, payload: bytes) -> None:
        """Write the next entry over the oldest one.

        Args:
            kind: in [0, 2^16).
            at_ns: its time.
            payload: at most `LARGEST_PAYLOAD` bytes.

        Raises:
            ValueError: a kind or a payload out of its range.
        """
        if not 0 <= kind <= LARGEST_KIND or len(payload) > LARGEST_PAYLOAD:
            raise ValueError(f"an entry has a kind below 2^16 and at most {LARGEST_PAYLOAD} bytes")
        self._sequence += 1
        _block(self._memory, self._sequence, self._slots).write(
            self._sequence, at_ns, kind, len(payload), payload
        )

    def close(self) -> None:
        """Unmap; a reader keeps its own mapping, and what is in it."""
        self._memory.close()
        os.close(self.fd)


class RingReader:
    """The side of the one who takes entries out.

    Args:
        fd: of the ring; kept until `close`.
        after: number of the last entry that was taken before, by an earlier process; None where none was. Then it
            begins with the oldest that is there, and nothing counts as lost before it.

    Attributes:
        lost: entries that were overwritten, or damaged, before they could be taken.

    Raises:
        SharedMemoryError: the descriptor is no ring.
    """

    def __init__(self, fd: int, after: int | None = None) -> None:
        self._fd = fd
        self._memory = attach(fd, writable=False)
        self._slots, odd = divmod(len(self._memory), _STRIDE)
        if odd or self._slots < 2:
            self._memory.close()
            raise SharedMemoryError(f"descriptor {fd} is no flight ring")
        self._next = 1 if after is None else after + 1
        self._counts = after is not None
        self.lost = 0

    @classmethod
    def from_environment(
        cls, environment: MutableMapping[str, str] = os.environ, after: int | None = None
    ) -> "RingReader | None":
        """The ring that the guard gave this process; None where it runs without one.

        The variable is taken out and the descriptor closed on exec: they are about this process, not its children.

        Raises:
            SharedMemoryError: the variable is there, and names no ring.
        """
        told = environment.pop(VARIABLE, "")
        if not told:
            return None
        if not (told.isdecimal() and len(told) < 10):
            raise SharedMemoryError(
                f"{VARIABLE} is {told[:40]!r}; the guard sets it to the flight ring's descriptor"
            )
        with contextlib.suppress(OSError):  # attaching says what is wrong with it
            os.set_inheritable(int(told), False)  # noqa: FBT003 - the call takes no keyword
        return cls(int(told), after)

    def take(self, limit: int) -> list[RingEntry]:
        """The next entries in their order, at most so many; an empty list where there is no new one."""
        found: list[RingEntry] = []
        while len(found) < limit:
            entry = self._at(self._next)
            if entry is None:
                # Torn for good, if what comes after it is written; else the guard is writing it just now.
                follower = self._at(self._next + 1)
                if follower is None or follower.sequence <= self._next:
                    break
                self._skip_to(self._next + 1)
            elif entry.sequence < self._next:
                break
            elif entry.sequence > self._next:
                self._skip_to(entry.sequence - self._slots + 1)
            else:
                found.append(entry)
                self._next += 1
                self._counts = True
        return found

    def close(self) -> None:
        """Unmap."""
        self._memory.close()
        os.close(self._fd)

    def _at(self, sequence: int) -> RingEntry | None:
        """What lies in the slot of an entry, whichever it is; None if it is torn, blank or damaged."""
        whole = _block(self._memory, sequence, self._slots).read()
        if whole is None:
            return None
        found, (at_ns, kind, length, payload) = whole
        assert isinstance(payload, bytes)
        return RingEntry(found, int(kind), int(at_ns), payload[: int(length)])

    def _skip_to(self, sequence: int) -> None:
        if self._counts:
            self.lost += sequence - self._next
        self._next = sequence


def _block(memory: mmap.mmap, sequence: int, slots: int) -> Block:
    return Block(memory, (sequence - 1) % slots * _STRIDE, _ENTRY)
