"""Who has which event in flight. Leases live in memory: they end with the connection, and with this process."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

RETRY_BASE_MS = 1_000
RETRY_CAP_MS = 300_000
SEVERITIES = 4

Place = tuple[int, int, int]
"""severity, deadline, seq: where an event stands in the order in which events are handed out."""

_BEGINNING = (-1, 0)


@dataclass(slots=True)
class Leases:
    """Events that are not to be handed out: on their way, or resting after the server put them off.

    Attributes:
        owners: by sequence number, whose connection has it.
        places: by sequence number, of everything leased or resting.
        resting: sequence numbers that wait before they are tried again.
        tries: attempts that were returned as tried; forgotten with the process.
        handed: sequence numbers of queued events that were handed out since the file was opened.
        scan_from: by severity, the deadline and the sequence number before which nothing can be handed out.
    """

    owners: dict[int, object] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    resting: dict[int, int] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    handed: set[int] = field(default_factory=set)
    scan_from: list[tuple[int, int]] = field(default_factory=lambda: [_BEGINNING] * SEVERITIES)
    _ready: list[tuple[int, int]] = field(default_factory=list)

    def __contains__(self, seq: int) -> bool:
        """Whether an event is on its way or resting."""
        return seq in self.places

    def __len__(self) -> int:
        """Number of events on their way or resting."""
        return len(self.places)

    def take(self, owner: object, place: Place) -> None:
        """An owner has it from now on."""
        seq = place[2]
        self.owners[seq] = owner
        self.handed.add(seq)
        self.places[seq] = place

    def can_hand_out(self, severity: int, deadline: int, seq: int) -> None:
        """An event stands here that nobody has: it was queued, or returned."""
        self.scan_from[severity] = min(self.scan_from[severity], (deadline, seq))

    def give_back(self, seqs: Iterable[int], *, tried: bool = False) -> int:
        """They may be handed out again; how many were leased."""
        number = 0
        for seq in seqs:
            if seq not in self.owners:
                continue
            del self.owners[seq]
            number += 1
            self.can_hand_out(*self.places.pop(seq))
            if tried:
                self.tries[seq] = self.tries.get(seq, 0) + 1
        return number

    def of(self, owner: object) -> list[int]:
        """What an owner has."""
        return [seq for seq, holder in self.owners.items() if holder is owner]

    def rest(self, place: Place, now_ms: int, tries: int) -> None:
        """The server put it off: 1 s, doubled with each try, at most 5 minutes, so that the tail is not starved."""
        seq = place[2]
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
            self.can_hand_out(*self.places.pop(seq))

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

    def clear(self) -> None:
        """Forget everything: the database is another one."""
        for table in (self.owners, self.places, self.resting, self.tries):
            table.clear()
        self._ready.clear()
        self.handed.clear()
        self.scan_from = [_BEGINNING] * SEVERITIES
