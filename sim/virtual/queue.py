"""The outbox of a virtual device: `Queue` as the uplink knows it, with the same accounts, in memory.

It stands for the disk: a device that is started again finds it as it was. What is accepted ends in one counted
fate, and which keys had which fate is remembered, so that a trial can hold every single one against the server.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.outbox import Health, OutboxStatus, QueuedItem, Settled, Submission, SyncPoint
from edge_runtime.outbox.ranges import runs
from edge_runtime.protocol.delivery import Ledger, OutcomeRange, Receipt, Rejection, RejectionCode
from edge_runtime.protocol.vocabulary import Fate

_REST_S, _LONGEST_REST_S = 1.0, 300.0


@dataclass(slots=True)
class _Queued:
    event: Submission
    ends_ns: int
    tries: int = 0
    rests_until_ns: int = 0


class VirtualQueue:
    """One queue of one device.

    Args:
        epoch: a UUIDv7.
        clock: time.
        capacity: events that fit; a newcomer pushes out the oldest one that is not on its way.

    Attributes:
        ended: keys by fate.
        not_accepted: events that found no room.
    """

    def __init__(self, epoch: str, clock: Clock, capacity: int) -> None:
        self._epoch, self._clock, self._capacity = epoch, clock, capacity
        self._queued: OrderedDict[int, _Queued] = OrderedDict()
        self._lent: set[int] = set()
        self._given_up: dict[Fate, set[int]] = {
            Fate.EXPIRED: set(),
            Fate.EVICTED: set(),
            Fate.REJECTED: set(),
        }
        self._next, self._passed, self._session = 1, 0, 0
        self.ended: dict[Fate, set[bytes]] = {fate: set() for fate in Fate}
        self.not_accepted = 0

    def put(self, event: Submission) -> bool:
        """Accept an event; False where all that is queued is on its way and there is no room."""
        while len(self._queued) >= self._capacity:
            oldest = next((seq for seq in self._queued if seq not in self._lent), None)
            if oldest is None:
                self.not_accepted += 1
                return False
            self._end(oldest, Fate.EVICTED)
        self._queued[self._next] = _Queued(event, self._clock.boottime_ns() + event.ttl_ns)
        self._next += 1
        return True

    @property
    def queued(self) -> int:
        """Events that wait, or are on their way."""
        return len(self._queued)

    @property
    def waiting(self) -> set[bytes]:
        """Keys of what is queued."""
        return {one.event.key for one in self._queued.values()}

    @property
    def ledger(self) -> Ledger:
        """The counts."""
        fates = {fate.value: len(keys) for fate, keys in self.ended.items()}
        return Ledger(accepted=self._next - 1, queued=len(self._queued), **fates)

    # -- as the uplink asks ------------------------------------------------------------------------------------

    def lease(self, max_items: int, max_bytes: int, min_severity: int = 0) -> list[QueuedItem]:
        """Hand out the oldest; what is past its life expires."""
        self._expire()
        found: list[QueuedItem] = []
        now_ns = self._clock.boottime_ns()
        for seq, one in self._leasable(now_ns):
            max_bytes -= len(one.event.body)
            if len(found) == max_items or (found and max_bytes < 0):
                break
            if one.event.severity >= min_severity:
                left_ms = (one.ends_ns - now_ns) // NS_PER_MS
                event = one.event
                found.append(
                    QueuedItem(
                        event.key, seq, event.severity, left_ms, None, one.tries, event.body, self._epoch
                    )
                )
        self._lent.update(item.seq for item in found)
        return found

    def unlease(self, seqs: Sequence[int] | None = None) -> int:
        """Take back what was lent."""
        before = len(self._lent)
        self._lent.difference_update(list(self._lent) if seqs is None else seqs)
        return before - len(self._lent)

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - nobody sleeps in one thread for a thousand devices
        """Whether something can be leased now."""
        return any(True for _ in self._leasable(self._clock.boottime_ns()))

    def settle(self, epoch: str, receipt: Receipt) -> Settled:
        """Take in a receipt."""
        if not epoch == receipt.epoch == self._epoch:
            return Settled(not_found=len(receipt.accepted) + len(receipt.rejected))
        words = [self._reject(word) for word in receipt.rejected if word.seq in self._queued]
        high = min(receipt.high, self._next - 1)
        done = [
            seq
            for seq in self._queued
            if seq <= high or any(first <= seq <= last for first, last in receipt.accepted)
        ]
        for seq in done:
            self._end(seq, Fate.DELIVERED)
        self._passed = max(self._passed, high)
        for numbers in self._given_up.values():
            numbers.difference_update([seq for seq in numbers if seq <= self._passed])
        return Settled(
            delivered=len(done),
            rejected=words.count(Fate.REJECTED),
            expired=words.count(Fate.EXPIRED),
            postponed=words.count(None),
        )

    def sync_point(self) -> SyncPoint:
        """Where it stands."""
        return SyncPoint(self._epoch, next(iter(self._queued), self._next), self._next, self.ledger)

    def outcomes(self, limit: int) -> list[OutcomeRange]:
        """What will never come, as long as no receipt has passed it."""
        self._expire()
        found = [
            OutcomeRange(first=first, last=last, fate=fate)
            for fate, numbers in self._given_up.items()
            for first, last in runs(numbers)
        ]
        return sorted(found, key=lambda one: one.first)[:limit]

    def next_session(self) -> int:
        """Larger than all before."""
        self._session += 1
        return self._session

    def status(self) -> OutboxStatus:
        """For health."""
        size = sum(len(one.event.body) for one in self._queued.values())
        severities = [one.event.severity for one in self._queued.values()]
        return OutboxStatus(
            ledger=self.ledger,
            not_accepted={"full": self.not_accepted} if self.not_accepted else {},
            gate={},
            evidence={},
            bytes=size,
            quota_bytes=size,
            queued_by_severity=tuple(severities.count(level) for level in range(4)),
            held=0,
            held_bytes=0,
            dead_letters=0,
            leased=len(self._lent),
            oldest_age_ms=None,
            state=Health.HEALTHY,
            epoch=self._epoch,
            disk_bytes=0,
        )

    # -- inside ------------------------------------------------------------------------------------------------

    def _leasable(self, now_ns: int) -> Iterator[tuple[int, _Queued]]:
        return (
            (seq, one)
            for seq, one in self._queued.items()
            if seq not in self._lent and one.rests_until_ns <= now_ns
        )

    def _expire(self) -> None:
        now_ns = self._clock.boottime_ns()
        for seq in [
            seq for seq, one in self._queued.items() if one.ends_ns <= now_ns and seq not in self._lent
        ]:
            self._end(seq, Fate.EXPIRED)

    def _reject(self, word: Rejection) -> Fate | None:
        if word.code is not RejectionCode.EXPIRED and not word.permanent:
            one = self._queued[word.seq]
            rest_s = min(_LONGEST_REST_S, _REST_S * 2.0 ** min(one.tries, 20))
            one.tries += 1
            one.rests_until_ns = self._clock.boottime_ns() + int(rest_s * NS_PER_S)
            self._lent.discard(word.seq)
            return None
        fate = Fate.EXPIRED if word.code is RejectionCode.EXPIRED else Fate.REJECTED
        self._end(word.seq, fate)
        return fate

    def _end(self, seq: int, fate: Fate) -> None:
        one = self._queued.pop(seq)
        self._lent.discard(seq)
        self.ended[fate].add(one.event.key)
        if fate in self._given_up:
            self._given_up[fate].add(seq)
