"""What is on its way: leased events, bundles in flight, and when each must be tried again. No I/O.

The outbox is the only truth about what still has to go. Here lies only what it lent: on every end of a session
all of it is given back, so that no broker's memory of an earlier session, and no gap before a dead link was
noticed, can lose or block an event.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.outbox import QueuedItem
from edge_runtime.protocol.delivery import MAX_BUNDLE_BYTES, MAX_BUNDLE_ITEMS, Receipt
from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES
from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.bundles import CRITICAL, Answered, Leased, Parcel, choose, pack
from edge_runtime.uplink.link import LinkMeter
from edge_runtime.uplink.pacing import WINDOW, Pacer
from edge_runtime.uplink.watchdog import ALONE_AFTER, ReceiptWatchdog, RetrySettings, retry_ns

MAX_LEASED = 4 * WINDOW * MAX_BUNDLE_ITEMS
"""Events lent at once, those included that wait for another try: at most 5 MiB at 64 KiB a bundle."""

_LEASED_AHEAD = 3
"""Bundles' worth of events leased at once while the window takes as many: each lease waits for a commit. What waits
for the window longer than for that is left in the outbox, where something more severe may still overtake it."""

_MAX_REMEMBERED_TRIES = 4 * MAX_LEASED
_MAX_LEASED_BYTES = 4 * WINDOW * MAX_BUNDLE_BYTES
_BROKE_NS = 60 * NS_PER_S
OVERHEAD_BYTES = 128
"""What MQTT, TLS and TCP add to one payload, roughly; for the byte budget."""


@dataclass(slots=True)
class _Flight:
    mid: int
    seqs: set[int]
    bytes: int
    sent_ns: int
    overdue_ns: int
    again_ns: int  # when its events may be sent again, should no receipt come


class Delivery:
    """The state of delivery in this process.

    Args:
        device: id in the bundles.
        linger_ms: how long an event may wait for company; one of the top severity never waits.
        retry: when to send again, when to give up on a connection.
        pacer, budget, link: parts that are used, and reported, elsewhere too.
        rng: for jitter.

    Attributes:
        epoch: of the outbox; None until it was asked.
        bundles_sent: since the process began.
        refused: bundles that the broker acknowledged with a failure.
    """

    def __init__(
        self,
        device: str,
        *,
        linger_ms: int,
        retry: RetrySettings,
        pacer: Pacer,
        budget: ByteBudget,
        link: LinkMeter,
        rng: random.Random,
    ) -> None:
        self._device, self._linger_ns, self._retry = device, linger_ms * NS_PER_MS, retry
        self._pacer, self._budget, self._link, self._rng = pacer, budget, link, rng
        self._watchdog = ReceiptWatchdog(retry)
        self._pool: dict[int, Leased] = {}
        self._pool_bytes = 0
        self._flying: dict[int, Leased] = {}
        self._flights: dict[int, _Flight] = {}
        self._tries: dict[int, int] = {}
        self._max_payload = MAX_PAYLOAD_BYTES
        self._asked = self._sync_open = False
        self._too_little: int | None = None
        self._server_ahead_ms: int | None = None  # its wall clock before our monotonic one
        self.epoch: str | None = None
        self.bundles_sent = 0
        self.refused = 0

    # -- sessions ----------------------------------------------------------------------------------------------

    def connected(self, receive_maximum: int, max_packet: int | None, now_ns: int) -> None:
        """A session began. Nothing is sent before the server answered this session's sync."""
        self._pacer.connected(receive_maximum, now_ns)
        self._max_payload = min(
            MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES if max_packet is None else max_packet - OVERHEAD_BYTES
        )

    def synced(self, epoch: str, now_ns: int) -> None:
        """A sync went out; the receipt that answers it opens the window."""
        if epoch != self.epoch:
            self._tries.clear()
        self.epoch = epoch
        self._asked = True
        self._watchdog.waiting(now_ns)

    def forget(self) -> None:
        """The session or the outbox ended: what was lent is no longer ours. Tries are remembered."""
        self._pool.clear()
        self._flying.clear()
        self._flights.clear()
        self._pool_bytes = 0
        self._asked = self._sync_open = False
        self._watchdog.reset()
        self._link.idle()

    @property
    def open(self) -> bool:
        """Whether the server has answered in this session."""
        return self._sync_open

    @property
    def in_flight(self) -> int:
        """Bundles that wait for a receipt."""
        return len(self._flights)

    # -- from the outbox ---------------------------------------------------------------------------------------

    def room(self) -> tuple[int, int]:
        """Events and bytes to lease now; nothing while what can be sent at once waits already."""
        if not self._sync_open or self._pacer.window == 0:
            return 0, 0
        fresh = [entry for entry in self._pool.values() if not entry.tries]
        bundles = min(_LEASED_AHEAD, self._pacer.window - self.in_flight) if self._pacer.free else 1
        events = max(1, bundles) * MAX_BUNDLE_ITEMS - len(fresh)
        events = min(events, MAX_LEASED - len(self._pool) - len(self._flying))
        bytes_left = max(1, bundles) * MAX_BUNDLE_BYTES - sum(len(entry.item.body) for entry in fresh)
        if self._pool_bytes > _MAX_LEASED_BYTES or events <= 0 or bytes_left <= 0:
            return 0, 0
        return events, bytes_left

    @property
    def min_severity(self) -> int:
        """What is worth leasing: once the day's bytes are spent, only the top severity."""
        left = self._budget.left()
        if left is None or (self._too_little is not None and left > self._too_little):
            self._too_little = None  # another day
        short = left is not None and left <= OVERHEAD_BYTES
        return CRITICAL if short or self._too_little is not None else 0

    def offer(self, items: Iterable[QueuedItem], now_ns: int) -> None:
        """Events that the outbox lent."""
        for item in items:
            if item.seq in self._pool or item.seq in self._flying:
                continue  # the outbox was restarted and forgot that we have it
            entry = Leased(item, now_ns, now_ns, self._tries.get(item.seq, 0))
            if entry.tries >= ALONE_AFTER:
                entry.due_ns = now_ns + retry_ns(self._retry, entry.tries, self._rng)
            self._put(entry)

    # -- to the broker -----------------------------------------------------------------------------------------

    def next_parcel(self, now_ns: int) -> Parcel | None:
        """The bundle to publish now, or None. It is claimed from the byte budget; `sent` must follow."""
        if self.epoch is None or not self._sync_open or self.in_flight >= self._pacer.window:
            return None
        due = [entry for entry in self._pool.values() if entry.due_ns <= now_ns]
        if not self._ripe(due, now_ns):
            return None
        chosen = choose(due, ALONE_AFTER)
        if not chosen or (chosen[0].item.severity < CRITICAL and self._pacer.ready_ns(now_ns) > now_ns):
            return None
        critical = chosen[0].item.severity >= CRITICAL
        left = self._budget.left(critical=critical)
        affordable = self._max_payload if left is None else min(self._max_payload, left - OVERHEAD_BYTES)
        server_ms = self._server_ms(now_ns)
        parcel = pack(chosen, self._device, self.epoch, now_ns, max_payload=affordable, server_ms=server_ms)
        if parcel is None and affordable == self._max_payload:
            # larger than the broker takes: it waits, and expires if that never changes
            chosen[0].due_ns = now_ns + int(self._retry.cap_s * NS_PER_S)
            return None
        if parcel is None or not self._budget.claim(len(parcel.payload) + OVERHEAD_BYTES, critical=critical):
            self._postpone(chosen, now_ns, critical=critical)
            return None
        return parcel

    def unaffordable(self) -> list[int]:
        """Sequence numbers to give back: lent, and less severe than the day's budget still pays for."""
        floor = self.min_severity
        if floor == 0:
            return []
        given_up = [seq for seq, entry in self._pool.items() if entry.item.severity < floor]
        for seq in given_up:
            self._take(seq)
        return given_up

    def sent(self, parcel: Parcel, mid: int, now_ns: int) -> None:
        """A parcel was handed to the broker's connection."""
        tries = max(entry.tries for entry in parcel.entries) + 1
        # The place in the window is free again after the first wait, however long the events' own next wait is.
        overdue_ns = now_ns + retry_ns(self._retry, 1, self._rng)
        again_ns = (
            max(overdue_ns, now_ns + retry_ns(self._retry, tries, self._rng)) if tries > 1 else overdue_ns
        )
        seqs = {entry.item.seq for entry in parcel.entries}
        for entry in parcel.entries:
            self._take(entry.item.seq)
            self._flying[entry.item.seq] = entry
        self._flights[mid] = _Flight(mid, seqs, len(parcel.payload), now_ns, overdue_ns, again_ns)
        self._pacer.sent(now_ns)
        self._link.sent(now_ns)
        if tries <= ALONE_AFTER:  # one that was never receipted says nothing about the connection
            self._watchdog.waiting(now_ns)
        self.bundles_sent += 1

    def acknowledged(self, mid: int, *, failed: bool) -> None:
        """The broker's word on a bundle. A success means nothing yet; a failure will never get a receipt."""
        if failed and mid in self._flights:
            self.refused += 1
            self._land(self._flights.pop(mid))

    # -- from the server ---------------------------------------------------------------------------------------

    def receipt(self, receipt: Receipt, now_ns: int) -> bool:
        """Take in a receipt.

        Returns:
            Whether it is for the present epoch, so that the outbox should settle it.
        """
        if receipt.epoch != self.epoch:
            return False
        if self._asked:  # one that the broker kept through a cut comes before, with the time of the cut
            self._sync_open = True
            self._server_ahead_ms = receipt.server_ms - now_ns // NS_PER_MS
        self._pacer.receipt(receipt.credit)
        answered = Answered(receipt)
        for seq in [seq for seq in self._pool if seq in answered]:
            self._take(seq)
            self._tries.pop(seq, None)
        for flight in list(self._flights.values()):
            settled = answered.among(flight.seqs)
            for seq in settled:
                self._flying.pop(seq, None)
                self._tries.pop(seq, None)
            if len(settled) == len(flight.seqs):
                del self._flights[flight.mid]
                self._link.receipted(flight.sent_ns, flight.bytes, now_ns, idle=not self._flights)
            else:
                flight.seqs -= settled
        self._watchdog.receipt(now_ns, more=bool(self._flights))
        return True

    # -- time --------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> tuple[bool, list[int]]:
        """Look at the clock.

        Returns:
            Whether the connection must be renewed, and sequence numbers to give back because their life ended.
        """
        for flight in [flight for flight in self._flights.values() if flight.overdue_ns <= now_ns]:
            del self._flights[flight.mid]
            self._link.missed(now_ns)
            self._land(flight)
        ended = [seq for seq, entry in self._pool.items() if entry.left_ms(now_ns) == 0]
        for seq in ended:
            self._take(seq)
        return self._watchdog.barks(now_ns), ended

    def wake_ns(self, now_ns: int, *, may_send: bool) -> int | None:
        """When `tick` or, where it may send, `next_parcel` has something to do, if nothing else happens."""
        times = [flight.overdue_ns for flight in self._flights.values()]
        if (due := self._watchdog.due_ns()) is not None:
            times.append(due)
        if may_send and self._pool and self.in_flight < self._pacer.window:
            soonest = min(entry.due_ns for entry in self._pool.values())
            ready = self._pacer.ready_ns(now_ns)
            times.append(max(ready, soonest, min(self._ripe_at(entry) for entry in self._pool.values())))
        return min(times) if times else None

    # -- inside ------------------------------------------------------------------------------------------------

    def _server_ms(self, now_ns: int) -> int | None:
        return None if self._server_ahead_ms is None else self._server_ahead_ms + now_ns // NS_PER_MS

    def _postpone(self, entries: list[Leased], now_ns: int, *, critical: bool) -> None:
        """The day's bytes do not pay for these: critical events look again later, others are given back."""
        if not critical:
            self._too_little = self._budget.left()
        for entry in entries:
            entry.due_ns = now_ns + _BROKE_NS

    def _ripe_at(self, entry: Leased) -> int:
        if entry.item.severity >= CRITICAL or entry.tries:
            return entry.due_ns
        return entry.leased_ns + self._linger_ns

    def _ripe(self, due: list[Leased], now_ns: int) -> bool:
        """Whether what is due makes a full bundle, or one of it has waited for company long enough."""
        return (
            len(due) >= MAX_BUNDLE_ITEMS
            or any(self._ripe_at(entry) <= now_ns for entry in due)
            or sum(len(entry.item.body) for entry in due) >= 3 * MAX_BUNDLE_BYTES // 4
        )

    def _land(self, flight: _Flight) -> None:
        """A bundle that no receipt answered: its events wait for their next try."""
        for seq in flight.seqs:
            entry = self._flying.pop(seq, None)
            if entry is None:
                continue
            entry.unreceipted += 1
            entry.due_ns = flight.again_ns
            if len(self._tries) < _MAX_REMEMBERED_TRIES:
                self._tries[seq] = entry.unreceipted
            self._put(entry)

    def _put(self, entry: Leased) -> None:
        self._pool[entry.item.seq] = entry
        self._pool_bytes += len(entry.item.body)

    def _take(self, seq: int) -> None:
        entry = self._pool.pop(seq, None)
        if entry is not None:
            self._pool_bytes -= len(entry.item.body)
