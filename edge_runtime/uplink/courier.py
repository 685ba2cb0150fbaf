"""Carries events from the outbox to the broker, and receipts back. Every call to the outbox is made here."""

import random
from collections.abc import Callable
from typing import TypeVar

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.outbox import OutboxError, OutboxStatus, SyncPoint
from edge_runtime.protocol.delivery import MAX_RANGES, OutcomeRange, Receipt, Sync
from edge_runtime.protocol.topics import Channel
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.delivery import Delivery
from edge_runtime.uplink.letters import Letter, Letters
from edge_runtime.uplink.ports import Queue, Watcher
from edge_runtime.uplink.post import Post
from edge_runtime.uplink.settings import UplinkSettings

_EMPTY_WAKE_NS = NS_PER_S
"""After a wake that found nothing severe enough to lease the outbox is left alone so long."""

AnswerT = TypeVar("AnswerT")


class Courier:
    """Delivery, with its outbox and its part of the session.

    Args:
        device: id.
        outbox: leases belong to this connection.
        watcher: tells when there is something to lease.
        delivery: what is on its way.
        post, letters: where bundles and syncs go.
        settings: for the waits.
        clock: monotonic time.
        rng: for jitter.

    Attributes:
        receipts: that were settled.
        receipts_lost: that the outbox could not take; their events are sent again, and receipted again.
    """

    def __init__(
        self,
        device: str,
        *,
        outbox: Queue,
        watcher: Watcher,
        delivery: Delivery,
        post: Post,
        letters: Letters,
        settings: UplinkSettings,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._device, self._outbox, self._watcher, self._delivery = device, outbox, watcher, delivery
        self._post, self._letters, self._settings = post, letters, settings
        self._clock, self._rng = clock, rng
        self._away_until_ns = 0
        self._online = False
        self._sync_ns: int | None = None
        self._sync_wait_s = settings.sync_retry_s
        self._lease_ns = 0
        self._watching = False
        self.draining = False
        self.outbox_away = False
        self.receipts = 0
        self.receipts_lost = 0

    # -- the session -------------------------------------------------------------------------------------------

    def connected(self, receive_maximum: int, max_packet: int | None, now_ns: int) -> None:
        """A session is there, and subscribed: what is needed first is a sync."""
        self._delivery.connected(receive_maximum, max_packet, now_ns)
        self._online = True
        self._sync_ns, self._sync_wait_s = now_ns, self._settings.sync_retry_s

    def disconnected(self) -> None:
        """The session is over: everything lent goes back."""
        self._online = False
        self._sync_ns = None
        self._give_all_back()

    def next_session(self) -> int | None:
        """A number for the next session; None while the outbox does not answer."""
        return self._ask(self._outbox.next_session)

    # -- what arrives ------------------------------------------------------------------------------------------

    def receipt(self, receipt: Receipt, now_ns: int) -> None:
        """The server's word: first the outbox, then what we remember."""
        if receipt.epoch != self._delivery.epoch:
            return
        settled = self._ask(lambda: self._outbox.settle(receipt.epoch, receipt))
        if settled is None:
            self.receipts_lost += 1
            return
        self.receipts += 1
        self._delivery.receipt(receipt, now_ns)
        self._sync_wait_s = self._settings.sync_retry_s
        # Without credit and with nothing in flight no receipt would come that could give us some.
        stuck = receipt.credit == 0 and self._delivery.in_flight == 0
        self._sync_ns = now_ns + int(self._settings.sync_cap * NS_PER_S) if stuck else None

    def leasable(self) -> None:
        """The watcher says that there is something."""
        self._watching = False

    def acknowledged(self, mid: int, *, failed: bool) -> None:
        """The broker's PUBACK."""
        self._delivery.acknowledged(mid, failed=failed)

    # -- work --------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> bool:
        """Do what is due.

        Returns:
            Whether the connection must be renewed, because nothing is receipted any more.
        """
        if not self._online:
            return False
        bark, ended = self._delivery.tick(now_ns)
        ended += self._delivery.unaffordable()
        if ended:
            self._ask(lambda: self._outbox.unlease(ended))
        if self._sync_ns is not None and now_ns >= self._sync_ns:
            self._sync(now_ns)
        while not self.draining:
            self._fill(now_ns)
            if not self._send(now_ns):
                break
        return bark

    def wake_ns(self, now_ns: int) -> int | None:
        """When `work` may have something to do."""
        if not self._online:
            return None
        delivery_ns = self._delivery.wake_ns(now_ns, may_send=self._post.has_room_for_events)
        times = [at for at in (self._sync_ns, delivery_ns) if at is not None]
        if not self._watching and not self.draining and self._delivery.room()[0] > 0:
            times.append(max(self._lease_ns, self._away_until_ns))
        return min(times) if times else None

    def sync_point(self) -> SyncPoint | None:
        """Where the outbox stands; None while it does not answer."""
        return self._ask(self._outbox.sync_point)

    def outcomes(self) -> list[OutcomeRange] | None:
        """Fates to report; None while the outbox does not answer."""
        return self._ask(lambda: self._outbox.outcomes(MAX_RANGES))

    def status(self) -> OutboxStatus | None:
        """The outbox's status; None while it does not answer."""
        return self._ask(self._outbox.status)

    # -- inside ------------------------------------------------------------------------------------------------

    def _sync(self, now_ns: int) -> None:
        point = self.sync_point()
        self._sync_ns = now_ns + int(self._rng.uniform(1.0, 1.25) * self._sync_wait_s * NS_PER_S)
        if point is None:
            return
        self._sync_wait_s = min(self._settings.sync_cap, 2.0 * self._sync_wait_s)
        sync = Sync(
            device=self._device, epoch=point.epoch, lowest=point.lowest, next=point.next, ledger=point.ledger
        )
        self._letters.put(Letter(Channel.SYNC, sync.encode()))
        self._delivery.synced(point.epoch, now_ns)

    def _fill(self, now_ns: int) -> None:
        events, size = self._delivery.room()
        if self._watching or events < 1 or now_ns < self._lease_ns or now_ns < self._away_until_ns:
            return
        floor = self._delivery.min_severity
        items = self._ask(lambda: self._outbox.lease(events, size, floor))
        if items and items[0].epoch != self._delivery.epoch:
            # The outbox was restarted with another database: numbers of the old one mean nothing there.
            self._give_all_back()
            self._sync_ns = now_ns
        elif items:
            self._delivery.offer(items, now_ns)
        elif items is not None:
            self._watching = True
            self._lease_ns = now_ns + _EMPTY_WAKE_NS if floor else now_ns
            self._watcher.arm()

    def _send(self, now_ns: int) -> bool:
        if not self._post.has_room_for_events:
            return False
        parcel = self._delivery.next_parcel(now_ns)
        if parcel is None:
            return False
        mid = self._post.publish(parcel.channel, parcel.payload, expiry_s=max(1, -(-parcel.left_ms // 1000)))
        if mid is None:
            return False
        self._delivery.sent(parcel, mid, now_ns)
        return True

    def _ask(self, call: Callable[[], AnswerT]) -> AnswerT | None:
        """Ask the outbox, unless it was away a moment ago. When it is, all that it lent is void."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._away_until_ns:
            return None
        try:
            answer = call()
        except OutboxError as error:
            if not self.outbox_away:
                get_logger().warning("the outbox does not answer", why=str(error))
            self.outbox_away = True
            self._away_until_ns = now_ns + int(self._settings.outbox_pause_s * NS_PER_S)
            self._delivery.forget()
            self._watching = False
            if self._online:
                self._sync_ns = self._away_until_ns
            return None
        self.outbox_away = False
        return answer

    def _give_all_back(self) -> None:
        self._delivery.forget()
        self._watching = False
        self._watcher.disarm()
        self._ask(lambda: self._outbox.unlease(None))
