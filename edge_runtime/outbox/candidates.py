"""Queued events in the order in which they give way, read in pages that puts share.

At the byte limit every event that is put evicts others. Each eviction continues where the one before it ended, and
what was queued meanwhile takes its place in the order: as long as one put follows another, also over commits.
Whatever else happens to the queue, or to who has what, begins anew.
"""

from heapq import heapify, heappop, heappush
from typing import Any

from edge_runtime.outbox.database import Database

Candidate = tuple[int, int, int, int, bytes | None]
"""severity, deadline, seq, length of the body, evidence."""

_FIRST_PAGE, _LAST_PAGE = 2, 256
_MOST = 4096
_PAGE = (
    "SELECT severity, deadline, seq, length(body), evidence FROM queue WHERE (severity, deadline, seq) > (?, ?, ?) "
    "ORDER BY severity, deadline, seq LIMIT ?"
)


class Candidates:
    """Least severe first, then nearest to its deadline, then oldest."""

    __slots__ = ("_complete", "_front", "_size", "_upto")

    def __init__(self) -> None:
        self._front: list[Candidate] = []  # a heap of all that is left up to `_upto`
        self._upto = (-1, 0, 0)
        self._complete = False
        self._size = _FIRST_PAGE

    def add(self, candidate: Candidate) -> None:
        """An event that was queued after the last page was read, or one that was taken and stays after all."""
        if self._complete or candidate[:3] <= self._upto:
            heappush(self._front, candidate)

    @property
    def is_small(self) -> bool:
        """Whether it may stay in memory: of a queue that was read to its end it holds all that came since."""
        return len(self._front) <= _MOST

    @property
    def must_read(self) -> bool:
        """Whether `read` has to be called before the next `take`."""
        return not (self._front or self._complete)

    def take(self) -> Candidate | None:
        """The next one, which is not given again; None when there is none."""
        return heappop(self._front) if self._front else None

    def read(self, database: Database) -> None:
        """Read the next page from a database that holds all that was inserted and deleted so far."""
        page: list[Any] = database.execute(_PAGE, (*self._upto, self._size))
        self._front = page
        heapify(self._front)
        self._complete = len(page) < self._size
        if page:
            self._upto = page[-1][:3]
        self._size = min(4 * self._size, _LAST_PAGE)
