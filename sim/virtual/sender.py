"""One virtual device that delivers events: the uplink's own parts over a queue in memory and a light session.

Delivery, courier, secretary, letters, pacing and the retries are those of a device. What is not: paho, the outbox's
process, and the threads that wait for them. Whoever runs a fleet of them tells each when something came and when
time has passed.
"""

import random
from collections import deque
from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.outbox import Submission
from edge_runtime.protocol.delivery import Presence, PresenceState, Receipt
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.wire import WireError
from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.commands import SeenCommands
from edge_runtime.uplink.courier import Courier
from edge_runtime.uplink.delivery import Delivery
from edge_runtime.uplink.letters import Letter, Letters
from edge_runtime.uplink.link import LinkMeter
from edge_runtime.uplink.pacing import Pacer
from edge_runtime.uplink.ports import Hands, Publisher
from edge_runtime.uplink.post import Post
from edge_runtime.uplink.reports import presence
from edge_runtime.uplink.secretary import Secretary
from edge_runtime.uplink.settings import UplinkSettings
from edge_runtime.uplink.workers import Answered, CommandWorker
from sim.virtual.mqtt import Acknowledged, Message
from sim.virtual.queue import VirtualQueue

_RECEIVE_MAXIMUM = 64
"""MQTT 3.1.1 states none: what the uplink takes for its brokers."""


class _Watcher:
    """`Watcher` without a thread: whoever puts an event in tells the courier."""

    def __init__(self) -> None:
        self.armed = False

    def arm(self) -> None:
        self.armed = True

    def disarm(self) -> None:
        self.armed = False


class _Uplink:
    """What one start of the uplink's process holds; a restart begins with another."""

    def __init__(
        self,
        name: str,
        queue: VirtualQueue,
        *,
        settings: UplinkSettings,
        budget: ByteBudget,
        folder: Path,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        link = LinkMeter(settings.half_life_s)
        self.watcher, self.post, self.letters = _Watcher(), Post(name, budget, clock), Letters()
        self.answers: deque[Answered] = deque()
        self.delivery = Delivery(
            name,
            linger_ms=settings.linger,
            retry=settings.retry,
            pacer=Pacer(settings.window, ramp=settings.ramp),
            budget=budget,
            link=link,
            rng=rng,
        )
        self.courier = Courier(
            name,
            outbox=queue,
            watcher=self.watcher,
            delivery=self.delivery,
            post=self.post,
            letters=self.letters,
            settings=settings,
            clock=clock,
            rng=rng,
        )
        hands = Hands()
        self.secretary = Secretary(
            name,
            settings,
            hands=hands,
            letters=self.letters,
            post=self.post,
            courier=self.courier,
            link=link,
            worker=CommandWorker(SeenCommands(folder / f"{name}.json"), hands, self.answers.append),
            clock=clock,
        )


class VirtualSender:
    """A device.

    Args:
        name: its id.
        queue: what its disk would hold.
        settings: of its uplink.
        budget: bytes; shared by the fleet, for counting.
        folder: for ids of commands.
        clock: time.
        rng: for jitter.

    Attributes:
        queue: as given.
        starts: of its uplink.
        unusable: messages that could not be read.
        due_ns: when `work` may have something to do, if nothing else happens.
    """

    def __init__(
        self,
        name: str,
        queue: VirtualQueue,
        *,
        settings: UplinkSettings,
        budget: ByteBudget,
        folder: Path,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.name, self.queue = name, queue
        self._settings, self._budget, self._folder = settings, budget, folder
        self._clock, self._rng = clock, rng
        self._receipts, self._commands = str(Topic(name, Channel.RECEIPT)), str(Topic(name, Channel.COMMAND))
        self._presence = presence(name, f"virtual-{name}")
        self._number = 0
        self._online = False
        self.starts, self.unusable, self.due_ns = 0, 0, 0
        self._uplink = self._begin()

    def _begin(self) -> _Uplink:
        self.starts += 1
        return _Uplink(
            self.name,
            self.queue,
            settings=self._settings,
            budget=self._budget,
            folder=self._folder,
            clock=self._clock,
            rng=self._rng,
        )

    def restart(self) -> None:
        """Lose the power and come back: what the queue lent is free again, nothing else is remembered."""
        self.queue.unlease(None)
        self._online = False
        self._uplink = self._begin()

    def put(self, event: Submission) -> bool:
        """Hand an event to the queue; whether it has it."""
        accepted = self.queue.put(event)
        if accepted and self._uplink.watcher.armed:
            self._uplink.watcher.disarm()
            self._uplink.courier.leasable()
            self.due_ns = 0
        return accepted

    # -- the session -------------------------------------------------------------------------------------------

    def next_will(self) -> Presence:
        """The will of the next session, which has a new number."""
        self._number = self.queue.next_session()
        return self._presence(self._number, PresenceState.OFFLINE, "connection_lost")

    def connected(self, session: Publisher) -> None:
        """A session is there, and subscribed."""
        now_ns, uplink = self._clock.monotonic_ns(), self._uplink
        self._online = True
        uplink.post.connected(session, _RECEIVE_MAXIMUM)
        uplink.courier.connected(_RECEIVE_MAXIMUM, None, now_ns)
        uplink.secretary.connected(self._presence(self._number, PresenceState.ONLINE, "connected"), now_ns)
        self.work()

    def disconnected(self) -> None:
        """The session is over."""
        self._online = False
        self._uplink.post.disconnected()
        self._uplink.courier.disconnected()
        self._uplink.secretary.disconnected()

    @property
    def settled(self) -> bool:
        """Whether the server answers, and has everything."""
        uplink = self._uplink
        return (
            uplink.delivery.open
            and self.queue.queued == 0
            and uplink.letters.next() is None
            and uplink.post.idle
        )

    def report(self) -> None:
        """Say how the ledger stands: the last words before both sides are compared."""
        now_ns = self._clock.monotonic_ns()
        self._uplink.secretary.write_outcomes_now(now_ns)
        self._uplink.secretary.write_health(self._number, (), now_ns)
        self.work()

    # -- what arrives, and time --------------------------------------------------------------------------------

    def heard(self, found: Message | Acknowledged) -> bool:
        """Take in what the broker sent; as `work`."""
        uplink = self._uplink
        if isinstance(found, Acknowledged):
            uplink.post.acknowledged(found.mid, failed=False)
            uplink.letters.acknowledged(found.mid)
            uplink.courier.acknowledged(found.mid, failed=False)
        elif found.topic == self._receipts:
            try:
                receipt = Receipt.decode(found.payload)
            except WireError:
                self.unusable += 1
                return False
            uplink.courier.receipt(receipt, self._clock.monotonic_ns())
            if uplink.delivery.open:  # one that the broker kept through a cut has the time of the cut
                uplink.secretary.server_time(receipt.server_ms)
        elif found.topic == self._commands:
            uplink.secretary.command(found.payload, retained=False)
        return self.work()

    def work(self) -> bool:
        """Do what is due.

        Returns:
            Whether the connection must be renewed, because nothing is receipted any more.
        """
        now_ns, uplink = self._clock.monotonic_ns(), self._uplink
        if not self._online:
            return False
        while uplink.answers:
            uplink.secretary.answered(uplink.answers.popleft(), self._number, (), now_ns)
        barks = uplink.courier.work(now_ns)
        uplink.secretary.work(self._number, (), now_ns)
        times = [at for at in (uplink.courier.wake_ns(now_ns), uplink.secretary.wake_ns()) if at is not None]
        self.due_ns = min(times, default=now_ns)
        return barks

    def say_offline(self) -> None:
        """The word before a clean end."""
        offline = self._presence(self._number, PresenceState.OFFLINE, "stopped")
        self._uplink.letters.put(Letter(Channel.PRESENCE, offline.encode(), retained=True))
        self._uplink.secretary.publish()
