"""The keys of the newest decisions, in memory: what was submitted before is known without a look at the disk.

A key is drawn for one decision and is the same in every attempt to submit it, so the ring of decisions is also the
list of what may come again. Two trees with random keys, which every put would have to write, are not needed for it.
"""

from collections import deque
from collections.abc import Iterable

from edge_runtime.outbox.database import Database

TRIM_EACH = 64
"""Receipts that are added before those that left the ring are deleted from the disk, all at once."""

_QUEUED = "SELECT key FROM queue ORDER BY seq DESC LIMIT ?"
_DECIDED = "SELECT n, key FROM decisions ORDER BY n"


class KnownKeys:
    """At most `limit` keys, the oldest of which leave first; about 100 bytes of memory for each.

    Args:
        limit: keys that are kept, those of a transaction that is under way aside.

    Attributes:
        limit: as given.
        keys: whether one was submitted before.
        order: the same, the oldest first.
        last: number of the newest decision.
        trimmed: what `last` was when the disk was last rid of older receipts.
    """

    __slots__ = ("keys", "last", "limit", "order", "trimmed")

    def __init__(self, limit: int) -> None:
        self.limit, self.last, self.trimmed = limit, 0, 0
        self.keys: set[bytes] = set()
        self.order: deque[bytes] = deque()

    def take_back(self, number: int) -> None:
        """The newest `number` of them were not committed."""
        for _ in range(number):
            self.keys.discard(self.order.pop())
        self.last -= number

    def trim(self) -> None:
        """Forget what left the ring; called after a commit."""
        for _ in range(len(self.order) - self.limit):
            self.keys.discard(self.order.popleft())

    def load(self, database: Database) -> None:
        """Read the keys of a database that was just opened, in the order in which they leave the ring.

        Events whose receipt was lost with a damaged page are known by their own rows.

        Raises:
            DatabaseFault: it cannot be read.
        """
        decided = database.execute(_DECIDED)
        queued = [row[0] for row in reversed(database.execute(_QUEUED, (self.limit,)))]
        self._fill(queued, [row[1] for row in decided])
        self.last = self.trimmed = max(self.last, decided[-1][0] if decided else 0)

    def _fill(self, queued: Iterable[bytes], decided: list[bytes]) -> None:
        self.keys = set(decided)
        self.order = deque(key for key in queued if key not in self.keys)
        self.keys.update(self.order)
        self.order.extend(decided)
        self.trim()
