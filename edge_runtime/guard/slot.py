"""A slot of the status page: its layout, what a beat is, and how the guard reads one.

A slot is two blocks: the guard's challenge, a number that changes now and then, and the worker's last beat, which
carries the number that stood there when its unit of work was finished. A page that froze, or a process that writes
down an old state, shows it.
"""

import mmap
import os
import struct
import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from edge_runtime.guard.block import BOOT_BYTES, NAME_BYTES, Block, boot_id, padded, unpadded

SETTLE_NS = 1_000_000
"""For this long after a change the old answer is still one: a store reaches another core in far less."""

Clock = Callable[[], int]
"""Nanoseconds of CLOCK_MONOTONIC; tests hand in their own."""

MAGIC = b"EDGEBEAT"
BEAT = struct.Struct(f"<8s{BOOT_BYTES}sI4xQqqqqQQ{NAME_BYTES}s")
CHALLENGE = struct.Struct(f"<8s{BOOT_BYTES}s{NAME_BYTES}sQ")
STRIDE = 256
"""Bytes from slot to slot: whole cache lines, so that what one worker writes another need not fetch."""

NOTHING = -1
"""Stands for no capture time, and for no finished work in a sign of progress."""

_BEAT_AT = 128  # the challenge lies before it, on lines of its own


def beat_block(memory: mmap.mmap, index: int) -> Block:
    """Where the worker of a slot writes."""
    return Block(memory, index * STRIDE + _BEAT_AT, BEAT)


def challenge_block(memory: mmap.mmap, index: int) -> Block:
    """Where the guard writes for the worker of a slot."""
    return Block(memory, index * STRIDE, CHALLENGE)


class Fault(str, Enum):
    """Why what lies in a slot is no beat."""

    EMPTY = "empty"
    """Nothing was written yet."""
    TORN = "torn"
    """No whole write could be read: the writer stopped in the middle, or the memory is damaged."""
    FOREIGN = "foreign"
    """Not a beat of this layout, or of another boot."""
    OTHER_PROCESS = "other_process"
    """The worker that the guard started has another process id."""
    STALE_ECHO = "stale_echo"
    """It answers a challenge that was no longer there when it claims to have been written."""
    FUTURE = "future"
    """Its time lies ahead of the clock."""
    REPLAYED = "replayed"
    """Older than a beat that was read before."""


class Beat(NamedTuple):
    """One finished unit of work, or a sign of progress of a worker that starts.

    Attributes:
        sequence: of the write; each beat has a greater one.
        pid: the worker's process id.
        beat_ns: when it was finished.
        work_sequence: number of the unit, such as a frame's; `NOTHING` in a sign of progress.
        newest_capture_ns: when the newest input was captured; None where nothing is captured.
        deadline_ns: by when the worker will have finished the next one.
        evaluated: mask of the conditions that it looked at.
        tripped: mask of those that hold.
        stage: what it finished, at most 15 characters.
    """

    sequence: int
    pid: int
    beat_ns: int
    work_sequence: int
    newest_capture_ns: int | None
    deadline_ns: int
    evaluated: int
    tripped: int
    stage: str

    @property
    def starting(self) -> bool:
        """Whether it is no more than a sign of progress: nothing was finished or evaluated yet."""
        return self.work_sequence == NOTHING

    def expired(self, now_ns: int, longest_ns: int) -> bool:
        """Whether the next beat is overdue: by the worker's own word, or by the longest gap it may ask for."""
        return now_ns > min(self.deadline_ns, self.beat_ns + longest_ns)


class Reading(NamedTuple):
    """What the guard knows of a worker.

    Attributes:
        beat: the last good one of the process that it expects.
        fault: why what lies in the slot now is none; None if it is one.
    """

    beat: Beat | None
    fault: Fault | None

    def expired(self, now_ns: int, longest_ns: int) -> bool:
        """Whether there is no beat or it is overdue; a page that froze therefore expires."""
        return self.beat is None or self.beat.expired(now_ns, longest_ns)


class SlotReader:
    """Reads one slot and puts the challenge beside it; made by `Page`."""

    def __init__(self, memory: mmap.mmap, index: int, name: str, clock: Clock = time.monotonic_ns) -> None:
        self.index, self.name, self._clock = index, name, clock
        self._block = beat_block(memory, index)
        self._challenge = challenge_block(memory, index)
        self._pid: int | None = None
        self._last: Beat | None = None
        self._written = 0
        self._nonce = 0
        self._before: int | None = None
        self._changed_ns = 0
        self.prepare()

    def prepare(self) -> None:
        """Before a worker is started: forget its predecessor, and take no answer to an older challenge."""
        self._pid, self._last = None, None
        self.challenge()
        self._before = None

    def expect(self, pid: int) -> None:
        """After the start: beats of this process count, and of no other."""
        self._pid = pid

    def challenge(self) -> None:
        """Ask for a new answer from now on."""
        self._before, self._nonce = self._nonce, int.from_bytes(os.urandom(8), "big") >> 1
        self._written += 1
        self._challenge.write(self._written, MAGIC, boot_id(), padded(self.name), self._nonce)
        # After the store. The worker reads the clock before the challenge, so whoever read the old one has an
        # earlier time than this.
        self._changed_ns = self._clock() + SETTLE_NS

    def read(self) -> Reading:
        """The last good beat, and what is wrong with what lies there now."""
        whole = self._block.read()
        if whole is None:
            return Reading(self._last, Fault.EMPTY if self._block.is_blank() else Fault.TORN)
        sequence, fields = whole
        if self._last is not None and sequence == self._last.sequence:
            return Reading(self._last, None)  # judged when it came; only its age is new
        fault = self._fault(sequence, fields)
        if fault is None:
            self._last = _beat(sequence, fields)
        return Reading(self._last, fault)

    def _fault(self, sequence: int, fields: tuple[bytes | int, ...]) -> Fault | None:
        magic, boot, pid, nonce, beat_ns = fields[:5]
        assert isinstance(beat_ns, int)
        if magic != MAGIC or boot != boot_id():
            return Fault.FOREIGN
        if pid != self._pid:
            return Fault.OTHER_PROCESS
        if nonce != self._nonce and not (nonce == self._before and beat_ns < self._changed_ns):
            return Fault.STALE_ECHO
        if beat_ns > self._clock():  # read after the copy, so no beat in it can be later
            return Fault.FUTURE
        if self._last is not None and (sequence < self._last.sequence or beat_ns < self._last.beat_ns):
            return Fault.REPLAYED
        return None


def _beat(sequence: int, fields: tuple[bytes | int, ...]) -> Beat:
    _, _, pid, _, beat, work, capture, deadline, evaluated, tripped, stage = fields
    return Beat(
        sequence=sequence,
        pid=int(pid),
        beat_ns=int(beat),
        work_sequence=int(work),
        newest_capture_ns=None if capture == NOTHING else int(capture),
        deadline_ns=int(deadline),
        evaluated=int(evaluated),
        tripped=int(tripped),
        stage=unpadded(bytes(stage)) if isinstance(stage, bytes) else "",
    )
