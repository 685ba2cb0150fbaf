"""The uplink's loop: one thread that owns all state, an inbox that everybody else writes to, and a clock.

It waits for the next message or the next deadline, takes in what came, and does what is due. It calls the outbox,
which answers at once or is unavailable; all that may block for long runs in other threads.
"""

import queue
import random
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.protocol.delivery import PresenceState, Receipt
from edge_runtime.protocol.operation import TWO_PLACES
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES, WireError
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.budget import UPDATES_FILE, UPLINK_FILE, ByteBudget
from edge_runtime.uplink.commands import SeenCommands
from edge_runtime.uplink.courier import Courier
from edge_runtime.uplink.delivery import OVERHEAD_BYTES, Delivery
from edge_runtime.uplink.letters import Letter, Letters
from edge_runtime.uplink.line import Line
from edge_runtime.uplink.link import LinkMeter
from edge_runtime.uplink.memory import BrokerMemory
from edge_runtime.uplink.pacing import Pacer
from edge_runtime.uplink.ports import Hands, LinkIdentity, Queue
from edge_runtime.uplink.post import Post
from edge_runtime.uplink.reports import presence
from edge_runtime.uplink.secretary import Secretary
from edge_runtime.uplink.session import MqttSession
from edge_runtime.uplink.session_records import Acknowledged, Arrived, Connected, SessionEvent, Subscribed
from edge_runtime.uplink.settings import UplinkSettings
from edge_runtime.uplink.update_files import FoundReports
from edge_runtime.uplink.updates_desk import UpdatesDesk
from edge_runtime.uplink.workers import Answered, CommandWorker, Leasable, OutboxWatcher, Renewal, Renewed

MAX_INBOX = 4096
"""Messages that wait for the engine; a server that sends more faster than they are read loses the rest, counted."""

_LONGEST_WAIT_NS = 5 * NS_PER_S
_BATCH = 256


@dataclass(frozen=True, slots=True)
class FromSession:
    """Something happened in a session."""

    session: MqttSession
    event: SessionEvent


@dataclass(frozen=True, slots=True)
class Stop:
    """The process was asked to end."""


Message = FromSession | Leasable | Answered | Renewed | FoundReports | Stop


class Uplink:
    """The whole uplink but for evidence.

    Args:
        identity: who this device is.
        settings: see there.
        outbox: a connection to the outbox; leases belong to it.
        watched: another one, that may block in `wait`.
        directory: for the budget, ids of commands and what is known of brokers; exists.
        updates: folder in which the desired state is left for updates, and their reports are found.
        hands: what the composition handed in.
        clock: time.
        rng: for jitter.

    Attributes:
        identity: as it is now; a renewal changes it.
        budget: bytes of the day, shared with whoever else uses the link.
        updates: the desired state and reports of updates.
        counts: what was received and could not be used, by kind; and messages the inbox had no room for.
    """

    def __init__(
        self,
        identity: LinkIdentity,
        settings: UplinkSettings,
        *,
        outbox: Queue,
        watched: Queue,
        directory: Path,
        updates: Path,
        hands: Hands,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.identity, self._settings, self._hands, self._clock = identity, settings, hands, clock
        self._inbox: queue.Queue[Message] = queue.Queue(MAX_INBOX)
        self._stop = threading.Event()
        self._overrun = threading.Event()
        self.counts: Counter[str] = Counter()
        device = identity.device
        self.budget = ByteBudget(
            directory / UPLINK_FILE,
            settings.daily_bytes,
            settings.critical_overdraft,
            clock,
            beside=updates / UPDATES_FILE,
        )
        self._presence = presence(device, clock.wall().boot_id)
        self._link = LinkMeter(settings.half_life_s)
        self._post, self._letters = Post(device, self.budget, clock), Letters()
        self._watcher = OutboxWatcher(watched, self.tell)
        self._delivery = Delivery(
            device,
            linger_ms=settings.linger,
            retry=settings.retry,
            pacer=Pacer(settings.window, ramp=settings.ramp),
            budget=self.budget,
            link=self._link,
            rng=rng,
        )
        self._courier = Courier(
            device,
            outbox=outbox,
            watcher=self._watcher,
            delivery=self._delivery,
            post=self._post,
            letters=self._letters,
            settings=settings,
            clock=clock,
            rng=rng,
        )
        self._seen = SeenCommands(directory / "commands.json")
        self._secretary = Secretary(
            device,
            settings,
            hands=hands,
            letters=self._letters,
            post=self._post,
            courier=self._courier,
            link=self._link,
            worker=CommandWorker(self._seen, hands, self.tell),
            clock=clock,
        )
        self.updates = UpdatesDesk(
            device,
            updates,
            post=self._post,
            letters=self._letters,
            settings=settings,
            tell=self.tell,
            rng=rng,
        )
        self._line = Line(
            settings, BrokerMemory(directory / "brokers.json"), self._presence, self._from_session, rng
        )
        self._renewal = Renewal(hands, self.tell)
        self._told: tuple[bool, str | None, str | None] | None = None
        self._number_ns = 0
        self._subscribed = False
        self._limits = Connected(1, None)

    # -- from other threads ------------------------------------------------------------------------------------

    def tell(self, message: Message) -> None:
        """Put a message into the inbox; never blocks."""
        try:
            self._inbox.put_nowait(message)
        except queue.Full:
            self.counts["inbox_full"] += 1
            # What the server says comes again. Without a word of this side's own the engine would wait for ever.
            if not (isinstance(message, FromSession) and isinstance(message.event, Arrived)):
                self._overrun.set()

    def stop(self) -> None:
        """Ask for a clean end; `run` returns within the settings' `stop_s`."""
        self._stop.set()
        self.tell(Stop())

    @property
    def online(self) -> bool:
        """Whether there is a session and the server has answered in it."""
        return self._subscribed and self._delivery.open

    @property
    def trouble(self) -> str | None:
        """Why there is no session, a sentence; None while there is one."""
        return self._line.trouble

    @property
    def attempts(self) -> int:
        """To connect, since the process began."""
        return self._line.attempts

    @property
    def sessions(self) -> int:
        """That were established, since the process began."""
        return self._line.sessions

    @property
    def delivery_floor(self) -> int:
        """The least severity that is sent now: 3 once the day's bytes are spent, else 0."""
        return self._delivery.min_severity

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until `stop`.

        Raises:
            TooManyHanging: the system never returns from network calls; only a new process helps.
        """
        while not self._stop.is_set():
            self._take_in(self._wait_s())
            self._work(self._clock.monotonic_ns())
            self._tell_line()
            self._hands.turned(self.online)
        self._say_goodbye()
        self._watcher.stop()
        self.updates.stop()

    def _tell_line(self) -> None:
        """Tell the composition how the line stands, where that is news."""
        online = self.online
        why = None if online else (self.trouble or "the broker answers, the server does not yet")
        now = (online, why, self._renewal.trouble)
        if now != self._told:
            self._told = now
            self._hands.line(*now)

    def _wait_s(self) -> float:
        now = self._clock.monotonic_ns()
        connect = self._line.wake_ns()
        parts = (
            None if connect is None else max(connect, self._number_ns),
            self._courier.wake_ns(now),
            self._silent_ns() if self._subscribed else None,
            self._secretary.wake_ns(),
            self.updates.wake_ns(spent=self._delivery.min_severity > 0),
        )
        times = [now + _LONGEST_WAIT_NS, *(part for part in parts if part is not None)]
        return max(0.0, (min(times) - now) / NS_PER_S)

    def _take_in(self, wait_s: float) -> None:
        try:
            self._handle(self._inbox.get(timeout=wait_s) if wait_s > 0 else self._inbox.get_nowait())
            for _ in range(_BATCH):
                self._handle(self._inbox.get_nowait())
        except queue.Empty:
            return

    def _connect(self, now: int) -> None:
        if self._line.tick(now) is not None:
            self._session_over()
        if self._line.wants_attempt(now) and now >= self._number_ns:
            number = self._courier.next_session()
            if number is not None:
                self._line.begin(self.identity, number, now)
            else:  # no number, no session: a birth must be newer than every will
                self._number_ns = now + int(self._settings.outbox_pause_s * NS_PER_S)

    def _work(self, now: int) -> None:
        self._connect(now)
        if self._renewal.begin_if_due(self.identity, now, asked=self._secretary.renewal_asked):
            self._secretary.renewal_asked = False
        if self._overrun.is_set():
            self._overrun.clear()
            get_logger().warning("more came than could be read; connecting anew")
            self._end_session("the inbox was full", now)
            return
        if not self._subscribed:
            return
        if self._courier.work(now):
            get_logger().warning("no receipt for too long; connecting anew")
            self._end_session("no receipt for too long", now)
            return
        if (silent_ns := self._silent_ns()) is not None and now >= silent_ns:
            get_logger().warning("the broker acknowledges nothing; connecting anew")
            self._end_session("no acknowledgement for too long", now)
            return
        self._secretary.work(self._line.number, self.sentences(), now)
        self.updates.work(now, spent=self._delivery.min_severity > 0)

    def _silent_ns(self) -> int | None:
        """When the broker has acknowledged nothing for too long; None while nothing waits for it."""
        oldest_ns = self._post.oldest_ns
        return None if oldest_ns is None else oldest_ns + int(self._settings.silence_s * NS_PER_S)

    def sentences(self) -> tuple[str, ...]:
        """What is worse than it should be, for health; no content of events."""
        found = [*self._hands.degraded(), *self._secretary.outbox_sentences()]
        if self._line.alarm(self._clock.monotonic_ns()):
            found.append(TWO_PLACES)
        if self._courier.outbox_away:
            found.append("the outbox does not answer")
        if self._delivery.min_severity:
            found.append("the byte budget of the day is spent; only critical events are sent")
        if self._post.refused:
            found.append("the broker refused publications; see its permissions of this device")
        troubles = (self.budget.trouble, self._seen.trouble, self._renewal.trouble, self.updates.trouble)
        return (*found, *(trouble for trouble in troubles if trouble is not None))

    # -- what arrives ------------------------------------------------------------------------------------------

    def _from_session(self, session: MqttSession, event: SessionEvent) -> None:
        self.tell(FromSession(session, event))

    def _handle(self, message: Message) -> None:
        now = self._clock.monotonic_ns()
        if isinstance(message, FromSession):
            if self._line.is_mine(message.session):
                self._handle_session(message.session, message.event, now)
        elif isinstance(message, Leasable):
            self._courier.leasable()
        elif isinstance(message, Answered):
            self._secretary.answered(message, self._line.number, self.sentences(), now)
        elif isinstance(message, Renewed):
            self._renewed(message, now)
        elif isinstance(message, FoundReports):
            self.updates.found(message)

    def _handle_session(self, session: MqttSession, event: SessionEvent, now: int) -> None:
        if isinstance(event, Arrived):
            self._arrived(event, now)
        elif isinstance(event, Acknowledged):
            self._post.acknowledged(event.mid, failed=event.failed)
            self._letters.acknowledged(event.mid)
            self._courier.acknowledged(event.mid, failed=event.failed)
            self.updates.acknowledged(event.mid, now, failed=event.failed)
            if event.failed:
                get_logger().warning("the broker refused a publication", why=event.text)
        elif isinstance(event, Connected):
            self._line.connected(self.identity, event, now)
            self._post.connected(session, event.receive_maximum)
            self._limits = event
            session.subscribe(f"{Topic(self.identity.device, Channel.RECEIPT)}".rsplit("/", 1)[0] + "/#")
        elif isinstance(event, Subscribed):
            self._begin_session(event, now)
        else:
            self._line.ended(event, now)
            self._session_over()

    def _begin_session(self, event: Subscribed, now: int) -> None:
        if not event.granted:
            self._end_session("the broker refused the subscription to this device's topics", now)
            return
        self._subscribed = True
        self._courier.connected(self._limits.receive_maximum, self._limits.max_packet, now)
        birth = self._presence(self._line.number, PresenceState.ONLINE, "connected")
        self._secretary.connected(birth, now)
        self.updates.connected()
        get_logger().info("connected", session=self._line.number)

    def _arrived(self, message: Arrived, now: int) -> None:
        self.budget.note(len(message.payload) + OVERHEAD_BYTES)
        topic = Topic.parse(message.topic)
        if topic is None or topic.device != self.identity.device or len(message.payload) > MAX_PAYLOAD_BYTES:
            self.counts["unusable"] += 1
        elif topic.channel is Channel.COMMAND:
            self._secretary.command(message.payload, retained=message.retained)
        elif topic.channel is Channel.DESIRED:
            self.updates.desired(message.payload)
        elif topic.channel is Channel.RECEIPT and not message.retained:
            try:
                receipt = Receipt.decode(message.payload)
            except WireError as error:
                self.counts[f"receipt_{error.fault.value}"] += 1
                get_logger().warning("a receipt cannot be read", why=str(error))
                return
            self._courier.receipt(receipt, now)
            if self._delivery.open:  # one that the broker kept would make a command present that is long over
                self._secretary.server_time(receipt.server_ms)
        else:
            self.counts["unexpected"] += 1

    # -- the session -------------------------------------------------------------------------------------------

    def _end_session(self, why: str, now: int) -> None:
        self._line.renew(why, now)
        self._session_over()

    def _session_over(self) -> None:
        self._subscribed = False
        self._post.disconnected()
        self._courier.disconnected()
        self._secretary.disconnected()
        self.updates.disconnected()

    def _renewed(self, event: Renewed, now: int) -> None:
        identity = self._renewal.finished(event)
        if identity is not None:
            self.identity = identity
            self._end_session("the certificate was renewed", now)

    # -- the end -----------------------------------------------------------------------------------------------

    def _say_goodbye(self) -> None:
        """Outcomes, ledger and presence, within the bound; what is in flight is sent again another time."""
        bound = int(self._settings.stop_s * NS_PER_S)
        deadline = self._clock.monotonic_ns() + bound
        self._courier.draining = True
        self._await_session(deadline - bound // 2)
        if self._subscribed:
            self._secretary.write_outcomes_now(self._clock.monotonic_ns())
            self._flush(deadline - bound // 4)
            # the ledger as it ended: without it the server would show the one of the last report for days
            self._secretary.write_health(self._line.number, self.sentences(), self._clock.monotonic_ns())
            offline = self._presence(self._line.number, PresenceState.OFFLINE, "stopped")
            self._letters.put(Letter(Channel.PRESENCE, offline.encode(), retained=True))
            self._flush(deadline)
        self._line.close()
        self._session_over()

    def _await_session(self, until: int) -> None:
        """A session that is just being made may still take the last words."""
        while not self._subscribed and self._line.comes_by(until):
            now = self._clock.monotonic_ns()
            if now >= until:
                return
            self._take_in((min(until, now + NS_PER_S // 10) - now) / NS_PER_S)
            self._connect(self._clock.monotonic_ns())

    def _flush(self, deadline: int) -> None:
        while self._subscribed:
            self._secretary.publish()
            now = self._clock.monotonic_ns()
            settled = self._letters.next() is None and self._post.idle and self._delivery.in_flight == 0
            if settled or now >= deadline:
                return
            self._take_in((min(deadline, now + NS_PER_S // 10) - now) / NS_PER_S)
