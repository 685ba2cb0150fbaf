"""The order of the queue, in memory: for each severity a heap of what nobody has, nearest deadline first.

It serves what is handed out, what gives way and what runs out, which all begin with the nearest deadline. An
index on the disk would cost each put a page and each eviction two; this is read once, when the file is opened. An
event is one integer of about 50 bytes, which sorts by its deadline and then by its number.
"""

from collections import Counter
from collections.abc import Container, Iterable
from heapq import heapify, heappop, heappush

from edge_runtime.outbox.database import Database, Row

SEVERITIES = 4

Place = tuple[int, int]
"""severity, and what `entry_of` makes of an event."""

_LENGTH_BITS, _SEQ_BITS = 32, 64
_CROP = 1 << _LENGTH_BITS
_SEQ_SHIFT = _LENGTH_BITS + 1
_DEADLINE_SHIFT = _SEQ_SHIFT + _SEQ_BITS
_LENGTH_MASK, _SEQ_MASK = _CROP - 1, (1 << _SEQ_BITS) - 1
_LOAD = "SELECT severity, deadline, seq, length(body), evidence IS NOT NULL FROM queue"


def entry_of(deadline: int, seq: int, length: int, *, crop: bool) -> int:
    """An event as one integer.

    Args:
        deadline: milliseconds of the queue's time.
        seq: its number, below 2^64.
        length: of its body, below 2^32.
        crop: whether it has evidence.
    """
    return (deadline << _DEADLINE_SHIFT) | (seq << _SEQ_SHIFT) | (_CROP if crop else 0) | length


def seq_of(entry: int) -> int:
    """Its number."""
    return (entry >> _SEQ_SHIFT) & _SEQ_MASK


def length_of(entry: int) -> int:
    """Length of its body."""
    return entry & _LENGTH_MASK


def has_crop(entry: int) -> bool:
    """Whether it has evidence."""
    return bool(entry & _CROP)


def bound_of(deadline: int) -> int:
    """Above every entry with this deadline, and at most every one with a later one."""
    return (deadline + 1) << _DEADLINE_SHIFT


class Order:
    """What is queued and neither handed out nor resting. Changes since `begin` can be taken back."""

    __slots__ = ("_changes", "_forgotten", "_gone", "_heaps", "_met")

    def __init__(self) -> None:
        self._heaps: list[list[int]] = [[] for _ in range(SEVERITIES)]
        self._gone: set[int] = set()  # numbers of events that ended while they were in a heap
        self._changes: list[tuple[int, int, int]] = []  # severity, entry, 1 for added and -1 for taken
        self._forgotten: list[int] = []
        self._met: list[int] = []  # of the gone, those that left the heap

    def load(self, database: Database, without: Container[int] = ()) -> None:
        """Begin with what a database holds.

        Args:
            database: to read.
            without: numbers of events that somebody has.

        Raises:
            DatabaseFault: it cannot be read.
        """
        heaps: list[list[int]] = [[] for _ in range(SEVERITIES)]
        for severity, deadline, seq, length, crop in database.execute(_LOAD):
            if seq not in without:
                heaps[severity].append(entry_of(deadline, seq, length, crop=bool(crop)))
        for heap in heaps:
            heapify(heap)
        self._heaps, self._gone = heaps, set()
        self.begin()

    def begin(self) -> None:
        """From here on changes can be taken back."""
        if self._changes or self._forgotten:  # what was met was taken as well
            self._changes.clear()
            self._forgotten.clear()
            self._met.clear()

    def undo(self) -> None:
        """Take back what changed since `begin`."""
        net: Counter[tuple[int, int]] = Counter()
        for severity, entry, change in self._changes:
            net[severity, entry] += change
        for severity, heap in enumerate(self._heaps):
            added = {entry for (level, entry), change in net.items() if level == severity and change > 0}
            taken = [entry for (level, entry), change in net.items() if level == severity and change < 0]
            if added or taken:
                heap[:] = [entry for entry in heap if entry not in added] + taken
                heapify(heap)
        self._gone = (self._gone | set(self._met)) - set(self._forgotten)
        self.begin()

    def add(self, severity: int, entry: int) -> None:
        """An event that nobody has: it was queued, or returned."""
        heappush(self._heaps[severity], entry)
        self._changes.append((severity, entry, 1))

    def queue(self, rows: Iterable[Row]) -> None:
        """Events that were queued, as their rows. As `add` of each, in less than half the time."""
        heaps, note = self._heaps, self._changes.append
        for seq, _, severity, _, deadline, _, crop, _, body in rows:
            entry = (deadline << _SEQ_BITS | seq) << _SEQ_SHIFT | len(body)
            if crop is not None:
                entry |= _CROP
            heappush(heaps[severity], entry)
            note((severity, entry, 1))

    def first(self, severity: int) -> int | None:
        """The event of a severity whose deadline is nearest; None without one."""
        heap = self._heaps[severity]
        while heap:
            if not self._gone or seq_of(heap[0]) not in self._gone:
                return heap[0]
            seq = seq_of(self.take(severity))
            self._gone.discard(seq)
            self._met.append(seq)
        return None

    def take(self, severity: int) -> int:
        """The event that `first` named, which leaves the order; there must be one."""
        entry = heappop(self._heaps[severity])
        self._changes.append((severity, entry, -1))
        return entry

    def forget(self, seq: int) -> None:
        """An event that is in the order has ended; its number is never used again."""
        self._gone.add(seq)
        self._forgotten.append(seq)

    def remove(self, severity: int, entry: int) -> None:
        """Take out one event, wherever it stands; that is not taken back."""
        heap = self._heaps[severity]
        if entry in heap:
            heap.remove(entry)
            heapify(heap)

    def runs_out(self, now_ms: int) -> bool:
        """Whether anything is past its deadline."""
        bound = bound_of(now_ms)
        firsts = (self.first(severity) for severity in range(SEVERITIES))
        return any(entry is not None and entry < bound for entry in firsts)

    def past(self, time_ms: int) -> int:
        """How many are past their deadline at a time of the queue."""
        bound, gone = bound_of(time_ms), self._gone
        return sum(entry < bound and seq_of(entry) not in gone for heap in self._heaps for entry in heap)

    def counts(self) -> list[int]:
        """How many there are of each severity."""
        if not self._gone:
            return [len(heap) for heap in self._heaps]
        return [sum(seq_of(entry) not in self._gone for entry in heap) for heap in self._heaps]
