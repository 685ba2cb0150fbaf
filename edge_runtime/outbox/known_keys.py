"""The keys of the newest decisions, in memory: what was submitted before is known without a look at the disk.

A key is drawn for one decision and is the same in every attempt to submit it, so the ring of decisions is also the
list of what may come again. Two trees with random keys, which every put would have to write, are not needed for it.
"""

from collections import deque
from collections.abc import Iterable

from edge_runtime.outbox.books import Books
from edge_runtime.outbox.database import Database
from edge_runtime.outbox.ring import Ring, all_decisions, read_places

_QUEUED = "SELECT key FROM queue ORDER BY seq DESC LIMIT ?"


class KnownKeys:
    """At most `limit` keys, the oldest of which leave first; about 100 bytes of memory for each.

    Args:
        limit: keys that are kept, those of a transaction that is under way aside.

    Attributes:
        limit: as given.
        keys: whether one was submitted before; those of a transaction that is under way are in it.
        order: those that are committed, the oldest first.
        ring: where they and their receipts are on the disk.
    """

    __slots__ = ("keys", "limit", "order", "ring")

    def __init__(self, limit: int) -> None:
        self.limit, self.ring = limit, Ring(limit)
        self.keys: set[bytes] = set()
        self.order: deque[bytes] = deque()

    def keep(self, keys: Iterable[bytes]) -> None:
        """These are committed; forget what leaves the ring for them."""
        self.order.extend(keys)
        self._trim()

    def _trim(self) -> None:
        for _ in range(len(self.order) - self.limit):
            self.keys.discard(self.order.popleft())

    def load(self, database: Database) -> Books | None:
        """Read the keys of a database that was just opened, in the order in which they leave the ring.

        Events whose receipt was lost with a damaged page are known by their own rows.

        Returns:
            The books that the ring's newest place holds; None where it has none yet.

        Raises:
            DatabaseFault: it cannot be read, or a place of the ring is damaged.
        """
        places = read_places(database)
        queued = [row[0] for row in reversed(database.execute(_QUEUED, (self.limit,)))]
        decided = [key for key, _ in all_decisions(places)]
        self._fill(queued, decided[-self.limit :])  # an older one may be there a second time
        self.ring.load(places)
        return places[-1].books if places else None

    def _fill(self, queued: Iterable[bytes], decided: list[bytes]) -> None:
        self.keys = set(decided)
        self.order = deque(key for key in queued if key not in self.keys)
        self.keys.update(self.order)
        self.order.extend(decided)
        self._trim()
