"""Who has which event in flight. Leases live in memory: they end with the connection, and with this process."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

RETRY_BASE_MS = 1_000
RETRY_CAP_MS = 300_000
SEVERITIES = 4


@dataclass(slots=True)
class Leases:
    """Events that are not to be handed out: on their way, or resting after the server put them off.

    Attributes:
        owners: by sequence number, whose connection has it.
        severities: by sequence number, of everything leased or resting.
        resting: sequence numbers that wait before they are tried again.
        tries: attempts that were returned as tried; forgotten with the process.
        handed: sequence numbers of queued events that were handed out since the file was opened.
        scan_from: by severity, below which nothing can be handed out.
    """

    owners: dict[int, object] = field(default_factory=dict)
    severities: dict[int, int] = field(default_factory=dict)
    resting: dict[int, int] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    handed: set[int] = field(default_factory=set)
    scan_from: list[int] = field(default_factory=lambda: [1] * SEVERITIES)
    _ready: list[tuple[int, int]] = field(default_factory=list)

    def __contains__(self, seq: int) -> bool:
        """Whether an event is on its way or resting."""
        return seq in self.severities

    def __len__(self) -> int:
        """Number of events on their way or resting."""
        return len(self.severities)

    def take(self, owner: object, seq: int, severity: int) -> None:
        """An owner has it from now on."""
        self.owners[seq] = owner
        self.handed.add(seq)
        self.severities[seq] = severity

    def give_back(self, seqs: Iterable[int], *, tried: bool = False) -> int:
        """They may be handed out again; how many were leased."""
        number = 0
        for seq in seqs:
            if seq not in self.owners:
                continue
            del self.owners[seq]
            number += 1
            severity = self.severities.pop(seq)
            self.scan_from[severity] = min(self.scan_from[severity], seq)
            if tried:
                self.tries[seq] = self.tries.get(seq, 0) + 1
        return number

    def of(self, owner: object) -> list[int]:
        """What an owner has."""
        return [seq for seq, holder in self.owners.items() if holder is owner]

    def rest(self, seq: int, severity: int, now_ms: int, tries: int) -> None:
        """The server put it off: 1 s, doubled with each try, at most 5 minutes, so that the tail is not starved."""
        self.owners.pop(seq, None)
        ready = now_ms + min(RETRY_CAP_MS, RETRY_BASE_MS << min(tries - 1, 20))
        self.severities[seq] = severity
        self.resting[seq] = ready
        heapq.heappush(self._ready, (ready, seq))

    def wake(self, now_ms: int) -> None:
        """Those that have rested long enough may be handed out again."""
        while self._ready and self._ready[0][0] <= now_ms:
            ready, seq = heapq.heappop(self._ready)
            if self.resting.get(seq) != ready:
                continue  # ended, or put off again, meanwhile
            del self.resting[seq]
            severity = self.severities.pop(seq)
            self.scan_from[severity] = min(self.scan_from[severity], seq)

    def end(self, seqs: Iterable[int]) -> None:
        """They are no longer queued."""
        for seq in seqs:
            self.tries.pop(seq, None)
            self.handed.discard(seq)
            if self.severities.pop(seq, None) is not None:
                self.owners.pop(seq, None)
                self.resting.pop(seq, None)

    def clear(self) -> None:
        """Forget everything: the database is another one."""
        for table in (self.owners, self.severities, self.resting, self.tries):
            table.clear()
        self._ready.clear()
        self.handed.clear()
        self.scan_from = [1] * SEVERITIES
