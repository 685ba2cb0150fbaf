"""The status page: how workers show the guard that they finished something.

A memfd that the guard makes and hands to its children, one slot per worker. A slot says what was finished last and
when, by when the next unit will be finished, and which conditions the worker evaluated. There is one way to beat:
`SlotWriter.finished`, after a unit of work. A beat from a timer or a thread stayed alive through 12 of 12 busy
loops and 12 of 12 blocked C calls when it was tried, so the first thread that beats is the only one that may.
Before its first beat a worker may say how far its start is: that gives it more time, up to a bound, and is nothing
else.

The page keeps accidents apart, not attackers: whoever has the descriptor can write every slot. What it writes into
another's slot carries a wrong process id and is no beat.
"""

import contextlib
import fcntl
import os
import struct
import threading
import time
from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

from edge_runtime.guard.block import (
    LARGEST,
    SharedMemoryError,
    attach,
    boot_id,
    padded,
    shared_memory,
    unpadded,
)
from edge_runtime.guard.slot import (
    MAGIC,
    NOTHING,
    STRIDE,
    Beat,
    Clock,
    Fault,
    Reading,
    SlotReader,
    beat_block,
    challenge_block,
)

__all__ = [
    "VARIABLE",
    "Beat",
    "Fault",
    "Handover",
    "Page",
    "PageError",
    "Reading",
    "SlotReader",
    "SlotWriter",
]

VARIABLE = "EDGE_GUARD_PAGE"
"""Tells a child where its slot is: descriptor and slot, as `7:2`."""

MAX_SLOTS = 64


class PageError(SharedMemoryError):
    """A slot cannot be used as asked."""


class Handover(NamedTuple):
    """What a child is given at its start: descriptors to inherit and variables to set."""

    pass_fds: tuple[int, ...]
    environment: dict[str, str]


class Page:
    """The guard's side.

    Args:
        names: of the workers, different ones, 1 to 64; each 1 to 15 printable ASCII characters.
        clock: for the times of challenges.

    Raises:
        SharedMemoryError: the names cannot be used, or the kernel cannot make the memory.
    """

    def __init__(self, names: Sequence[str], clock: Clock = time.monotonic_ns) -> None:
        if not 0 < len(names) <= MAX_SLOTS or len(set(names)) < len(names):
            raise PageError(f"a status page has 1 to {MAX_SLOTS} slots with different names")
        [padded(name) for name in names]
        self.fd, self._memory = shared_memory("edge-status", STRIDE * len(names), future_write=True)
        self._slots = {name: SlotReader(self._memory, at, name, clock) for at, name in enumerate(names)}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the slots, in their order."""
        return tuple(self._slots)

    def slot(self, name: str) -> SlotReader:
        """The reader of one worker's slot, always the same one.

        Raises:
            PageError: there is no such slot.
        """
        found = self._slots.get(name)
        if found is None:
            raise PageError(f"no slot is called {name!r}; there are {', '.join(self._slots)}")
        return found

    def handover(self, name: str) -> Handover:
        """What to give the worker of this slot."""
        return Handover((self.fd,), {VARIABLE: f"{self.fd}:{self.slot(name).index}"})

    def close(self) -> None:
        """Unmap; workers that have it keep theirs."""
        self._memory.close()
        os.close(self.fd)


class SlotWriter:
    """A worker's side of its slot: it says what was finished, and nothing else.

    The slot belongs to one process, which a lock on it proves: a successor cannot write beside a predecessor that
    cannot be killed. It belongs to the thread that beats first: a live thread must not hide a stuck one.

    Args:
        fd: of the page; kept until `close`.
        index: of the slot.
        clock: times the beats.

    Raises:
        PageError: no such slot, or another process writes it.
        SharedMemoryError: the descriptor is no page.
    """

    def __init__(self, fd: int, index: int, clock: Clock = time.monotonic_ns) -> None:
        self._fd, self._clock = fd, clock
        self._memory = attach(fd, writable=True)
        try:
            if not 0 <= index < len(self._memory) // STRIDE:
                raise PageError(f"the status page has no slot {index}")
            self._challenge = challenge_block(self._memory, index)
            self.name = self._named()
            self._claim(index)
        except BaseException:
            self._memory.close()
            raise
        self._block = beat_block(self._memory, index)
        earlier = self._block.read()
        self._sequence = 0 if earlier is None else earlier[0]
        self._work = 0
        self._nonce = 0
        self._boot, self._pid = boot_id(), os.getpid()
        self._thread: int | None = None

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> "SlotWriter | None":
        """The slot that the guard gave this process; None where it runs without one.

        The variable is taken out and the descriptor closed on exec: they are about this process, not its children.

        Raises:
            SharedMemoryError: the variable is there and does not name a slot that can be written.
        """
        told = environment.pop(VARIABLE, "")
        if not told:
            return None
        fd, _, index = told.partition(":")
        if not (fd.isdecimal() and index.isdecimal() and len(told) < 20):
            raise PageError(
                f"{VARIABLE} is {told[:40]!r}; the guard sets it to a descriptor and a slot, as 7:2"
            )
        with contextlib.suppress(OSError):  # attaching says what is wrong with it
            os.set_inheritable(int(fd), False)  # noqa: FBT003 - the call takes no keyword
        return cls(int(fd), int(index))

    def finished(
        self,
        stage: str,
        newest_capture_ns: int | None,
        deadline_ns: int,
        evaluated: int,
        tripped: int,
        *,
        work_sequence: int | None = None,
    ) -> None:
        """Say that a unit of work is done; call it right after the work, from the thread that did it.

        Args:
            stage: what was finished, 1 to 15 printable ASCII characters.
            newest_capture_ns: when the newest input was captured; None where nothing is captured.
            deadline_ns: by when the next unit will be finished, on the same clock.
            evaluated: mask of the conditions that were looked at; what is not in it counts as tripped.
            tripped: mask of those that hold.
            work_sequence: number of the unit where it has one, such as a frame's; counted from 1 otherwise.

        Raises:
            PageError: another thread or process than the first that called; a value out of its range.
        """
        beat_ns = self._clock()  # before the challenge is read, see SlotReader.challenge
        self._check_caller()
        self._work = self._work + 1 if work_sequence is None else work_sequence
        capture = NOTHING if newest_capture_ns is None else newest_capture_ns
        if not (0 <= deadline_ns <= LARGEST and NOTHING <= capture <= LARGEST and 0 <= self._work <= LARGEST):
            raise PageError("times and numbers of a beat lie in [0, 2^63)")
        if evaluated >> 64 or tripped >> 64:
            raise PageError("masks of conditions have 64 bits")
        self._write(stage, beat_ns, self._work, capture, deadline_ns, evaluated, tripped)

    def starting(self, stage: str) -> None:
        """Say that a start got on: its time begins anew, up to the longest that the guard allows for all of it.

        It is no beat, evaluates nothing, and may be called by any thread. Call it when a step is done, not while
        one is under way.

        Args:
            stage: the step that is done, 1 to 15 printable ASCII characters.

        Raises:
            PageError: something was finished before, or another process writes the slot.
        """
        beat_ns = self._clock()
        self._check_process()
        if self._thread is not None:
            raise PageError(f"the slot {self.name!r} has beaten: its start is over")
        self._write(stage, beat_ns, NOTHING, NOTHING, 0, 0, 0)

    def close(self) -> None:
        """Let the slot go; the last beat stays in it and grows old."""
        self._memory.close()
        os.close(self._lock)
        os.close(self._fd)

    def _write(self, stage: str, beat_ns: int, *fields: int) -> None:
        asked = self._challenge.read()
        if asked is not None:  # torn: the guard is writing a new one, the next beat answers it
            self._nonce = int(asked[1][3])
        # The number is used up even if packing fails below: no two writes share one.
        self._sequence += 1
        self._block.write(
            self._sequence, MAGIC, self._boot, self._pid, self._nonce, beat_ns, *fields, padded(stage)
        )

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise PageError(
                f"the slot {self.name!r} belongs to process {self._pid}; a fork must not beat for it"
            )

    def _check_caller(self) -> None:
        self._check_process()
        caller = threading.get_ident()
        if self._thread is None:
            self._thread = caller
        elif caller != self._thread:
            raise PageError(
                f"the slot {self.name!r} belongs to the thread that beat first; only its work counts"
            )

    def _named(self) -> str:
        asked = self._challenge.read()
        if asked is None or asked[1][0] != MAGIC or asked[1][1] != boot_id():
            raise PageError("the descriptor is no status page of this guard")
        return unpadded(bytes(asked[1][2])) if isinstance(asked[1][2], bytes) else ""

    def _claim(self, index: int) -> None:
        # The lock lies on a description of our own: the inherited one is shared by all workers. It ends when the
        # process has really ended, not when it was told to.
        try:
            self._lock = os.open(f"/proc/self/fd/{self._fd}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise PageError(f"the slot {self.name!r} cannot be locked: {error.strerror}") from error
        try:
            fcntl.fcntl(self._lock, fcntl.F_OFD_SETLK, _exclusive(index * STRIDE, STRIDE))
        except OSError as error:
            os.close(self._lock)
            raise PageError(
                f"the slot {self.name!r} is still held by another process; wait until it has ended"
            ) from error


def _exclusive(start: int, length: int) -> bytes:
    """`struct flock` of a lock for writing."""
    return struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
