"""The ring in front of the gate: whoever writes never waits, and what does not fit is counted.

Bounded by bytes and by number. The most severe leave first, and may take the place of less severe ones, oldest
first; among equals the newcomer is refused. Revisions of one happening have one severity and stay in order.
"""

import threading
from collections import deque
from dataclasses import dataclass

from edge_runtime.protocol import EventRecord


@dataclass(frozen=True, slots=True)
class Waiting:
    """One event in the ring.

    Attributes:
        event: as the rules made it.
        bytes: its size in the ring.
        deadline_ns: boot time at which its time to live ends.
    """

    event: EventRecord
    bytes: int
    deadline_ns: int


class HandOverRing:
    """Events from the frame's thread to the gate's.

    Args:
        max_bytes: all events together.
        max_events: number of events.
    """

    def __init__(self, max_bytes: int, max_events: int) -> None:
        self._max_bytes, self._max_events = max_bytes, max_events
        self._queues: tuple[deque[Waiting], ...] = (deque(), deque(), deque(), deque())
        self._changed = threading.Condition()
        self._bytes = self._count = self._overflowed = 0
        self._closed = False

    def put(self, item: Waiting, severity: int) -> bool:
        """Add an event; False when there is no room for it, or the ring is closed. Overflow is counted."""
        with self._changed:
            if self._closed or not self._make_room(item.bytes, severity):
                self._overflowed += 1
                return False
            self._queues[severity].append(item)
            self._bytes += item.bytes
            self._count += 1
            self._changed.notify()
            return True

    def take(self, most: int, timeout_s: float) -> list[Waiting]:
        """Up to `most` events, the severest first; empty after `timeout_s` without any."""
        with self._changed:
            if not self._count and not self._closed:
                self._changed.wait(timeout_s)
            taken: list[Waiting] = []
            for queue in reversed(self._queues):
                while queue and len(taken) < most:
                    taken.append(self._out(queue))
            return taken

    def take_overflow(self) -> int:
        """Events that did not fit since the last call."""
        with self._changed:
            count, self._overflowed = self._overflowed, 0
            return count

    def count_overflow(self, count: int) -> None:
        """Events that were taken and could not be handed over, or whose count could not be reported yet."""
        with self._changed:
            self._overflowed += count

    def close(self) -> None:
        """Refuse further events; those inside can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether no more events come in."""
        return self._closed

    @property
    def fill(self) -> tuple[int, int]:
        """Events and bytes inside."""
        with self._changed:
            return self._count, self._bytes

    def _make_room(self, size: int, severity: int) -> bool:
        if self._fits(size):
            return True
        below = sum(len(queue) for queue in self._queues[:severity])
        below_bytes = sum(item.bytes for queue in self._queues[:severity] for item in queue) if below else 0
        count_after = self._count - below + 1
        if count_after > self._max_events or self._bytes - below_bytes + size > self._max_bytes:
            return False  # before anything is given up for it
        for queue in self._queues[:severity]:
            while queue and not self._fits(size):
                self._out(queue)
                self._overflowed += 1
        return True

    def _fits(self, size: int) -> bool:
        return self._count < self._max_events and self._bytes + size <= self._max_bytes

    def _out(self, queue: deque[Waiting]) -> Waiting:
        item = queue.popleft()
        self._bytes -= item.bytes
        self._count -= 1
        return item
