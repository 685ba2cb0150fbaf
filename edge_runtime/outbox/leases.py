"""Who has which event in flight. Leases live in memory: they end with the connection, and with this process."""

import heapq
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from edge_runtime.outbox.order import Order, Place

RETRY_BASE_MS = 1_000
RETRY_CAP_MS = 300_000

_Lent = tuple[int, object, Place]


@dataclass(slots=True)
class Leases:
    """Events that are not to be handed out: on their way, or resting after the server put them off.

    Attributes:
        order: all other queued events.
        owners: by sequence number, whose connection has it.
        places: by sequence number, of everything leased or resting.
        resting: sequence numbers that wait before they are tried again.
        tries: attempts that were returned as tried; forgotten with the process.
        handed: sequence numbers of queued events that were handed out since the file was opened.
    """

    order: Order = field(default_factory=Order)
    owners: dict[int, object] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    resting: dict[int, int] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    handed: set[int] = field(default_factory=set)
    _ready: list[tuple[int, int]] = field(default_factory=list)

    def __contains__(self, seq: int) -> bool:
        """Whether an event is on its way or resting."""
        return seq in self.places

    def __len__(self) -> int:
        """Number of events on their way or resting."""
        return len(self.places)

    def take(self, owner: object, seq: int, place: Place) -> None:
        """An owner has it from now on; it was taken from the order."""
        self.owners[seq] = owner
        self.handed.add(seq)
        self.places[seq] = place

    def untake(self, seqs: Iterable[int]) -> None:
        """A lease was not kept: the order has them again by its own undo."""
        for seq in seqs:
            self.owners.pop(seq, None)
            self.places.pop(seq, None)

    def give_back(
        self, seqs: Iterable[int], *, tried: bool = False, ended: Container[int] = ()
    ) -> list[_Lent]:
        """They may be handed out again; what was leased of them, for `restore`.

        Args:
            seqs: which.
            tried: count it as an attempt.
            ended: events that this transaction has ended: they are returned, and handed out no more.
        """
        found: list[_Lent] = []
        for seq in seqs:
            if seq not in self.owners:
                continue
            place = self.places.pop(seq)
            found.append((seq, self.owners.pop(seq), place))
            if seq not in ended:
                self.order.add(*place)
            if tried:
                self.tries[seq] = self.tries.get(seq, 0) + 1
        return found

    def restore(self, lent: Iterable[_Lent], *, tried: bool) -> None:
        """They were not given back after all: the order lost them again by its own undo."""
        for seq, owner, place in lent:
            self.owners[seq], self.places[seq] = owner, place
            if tried:
                self.tries[seq] -= 1

    def of(self, owner: object) -> list[int]:
        """What an owner has."""
        return [seq for seq, holder in self.owners.items() if holder is owner]

    def rest(self, seq: int, place: Place, now_ms: int, tries: int) -> None:
        """The server put it off: 1 s, doubled with each try, at most 5 minutes, so that the tail is not starved."""
        if seq not in self.places:
            self.order.remove(*place)
        self.owners.pop(seq, None)
        ready = now_ms + min(RETRY_CAP_MS, RETRY_BASE_MS << min(tries - 1, 20))
        self.places[seq] = place
        self.resting[seq] = ready
        heapq.heappush(self._ready, (ready, seq))

    def wake(self, now_ms: int) -> None:
        """Those that have rested long enough may be handed out again."""
        while self._ready and self._ready[0][0] <= now_ms:
            ready, seq = heapq.heappop(self._ready)
            if self.resting.get(seq) != ready:
                continue  # ended, or put off again, meanwhile
            del self.resting[seq]
            self.order.add(*self.places.pop(seq))

    def end(self, seqs: Iterable[int]) -> None:
        """They are no longer queued."""
        self.handed.difference_update(seqs)
        if self.tries:
            for seq in seqs:
                self.tries.pop(seq, None)
        for seq in seqs if self.places else ():
            if self.places.pop(seq, None) is not None:
                self.owners.pop(seq, None)
                self.resting.pop(seq, None)

    def clear(self, order: Order) -> None:
        """Forget everything: the database is another one, whose order this is."""
        for table in (self.owners, self.places, self.resting, self.tries):
            table.clear()
        self._ready.clear()
        self.handed.clear()
        self.order = order
