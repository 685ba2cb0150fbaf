"""The loop: collect a batch, commit it, send the receipts, acknowledge; keep trying while the database is away.

The order is the whole promise. A receipt leaves only after the commit, an acknowledgement only after the receipt:
whatever dies in between, the device sends the event again and the key makes that harmless.
"""

import threading
from dataclasses import dataclass
from typing import Protocol

import structlog
from sqlalchemy.exc import SQLAlchemyError

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.topics import Channel, Topic
from fleet_server.ingest.batch import Answer, Committed
from fleet_server.ingest.commit import Committer
from fleet_server.ingest.inspection import inspect
from fleet_server.ingest.intake import Intake
from fleet_server.ingest.judgement import Now, Rules
from fleet_server.ingest.metrics import IngestMetrics
from fleet_server.ingest.parcels import Arrival, BundleParcel, DeadParcel, EpochParcel, Parcel
from fleet_server.ingest.receipts import credit, receipts
from fleet_server.ingest.settlement import EpochKey
from fleet_server.settings import IngestSettings
from fleet_server.storage.migrate import reason

_IDLE_S = 0.25
_RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_SENDER_NS = 10 * NS_PER_S
_MAX_MESSAGES = 1000
_MAX_STOPPED = 100_000
_RESUME_FILL = 0.5


class Outlet(Protocol):
    """Where receipts and acknowledgements go: the MQTT session."""

    def publish(self, topic: str, payload: bytes) -> bool:
        """Send, or say that it could not be."""
        ...

    def acknowledge(self, ticket: object) -> None:
        """A message is done."""
        ...

    def redeliver(self) -> None:
        """There is room again for what was left out."""
        ...


@dataclass(frozen=True, slots=True)
class _Taken:
    arrival: Arrival
    parcel: Parcel

    @property
    def events(self) -> int:
        return len(self.parcel.candidates) if isinstance(self.parcel, BundleParcel) else 0


class Worker:
    """Takes messages from the queue to the database.

    Args:
        intake: the queue.
        committer: makes transactions.
        outlet: the session.
        rules: what this server takes.
        settings: sizes and times.
        clock: measures times to live and labels receipts.
        metrics: counts.
    """

    def __init__(
        self,
        intake: Intake,
        committer: Committer,
        outlet: Outlet,
        *,
        rules: Rules,
        settings: IngestSettings,
        clock: Clock,
        metrics: IngestMetrics,
    ) -> None:
        self._intake, self._committer, self._outlet = intake, committer, outlet
        self._rules, self._settings, self._clock, self._metrics = rules, settings, clock, metrics
        self._stopping = threading.Event()
        self._senders: dict[str, int] = {}
        self._stopped: dict[EpochKey, None] = {}
        self._failures = 0
        self._log = structlog.get_logger()

    def stop(self) -> None:
        """Ask the loop to end after what it has taken; callable from any thread."""
        self._intake.close()
        self._stopping.set()

    def run(self) -> None:
        """Work until `stop`. What is not committed then was not acknowledged, and comes again."""
        pending: list[_Taken] = []
        while not (self._stopping.is_set() and not pending and self._intake.waiting == 0):
            pending += self._collect(self._room(pending), _IDLE_S)
            while pending and self._commit(pending[: self._first_batch(pending)]):
                del pending[: self._first_batch(pending)]
            if pending:
                if self._stopping.is_set():
                    return
                self._wait_out(pending)
            self._resume()

    def _room(self, pending: list[_Taken]) -> int:
        return self._settings.batch_events - sum(taken.events for taken in pending)

    def _collect(self, events: int, idle_s: float) -> list[_Taken]:
        """Messages with at most about so many events; it waits a moment for more when there are some."""
        first = self._intake.get(0 if self._stopping.is_set() else idle_s)
        if first is None:
            return []
        now = self._now()
        taken = [self._inspected(first, now)]
        found = taken[0].events
        until_ns = first.arrived_ns + int(self._settings.linger_ms * NS_PER_MS)
        while found < events and len(taken) < _MAX_MESSAGES:
            arrival = self._intake.get(max(0, until_ns - self._clock.monotonic_ns()) / NS_PER_S)
            if arrival is None:
                break
            taken.append(self._inspected(arrival, now))
            found += taken[-1].events
        return taken

    def _inspected(self, arrival: Arrival, now: Now) -> _Taken:
        try:
            return _Taken(arrival, inspect(arrival, self._rules, now))
        except Exception as error:  # noqa: BLE001 - a defect of ours must not make one message stop all others
            self._log.error("a message could not be looked at", error=type(error).__name__)
            text = f"this server could not read it: {type(error).__name__}"
            return _Taken(arrival, DeadParcel("", "unknown", "store_failed", text, arrival.payload))

    def _first_batch(self, pending: list[_Taken]) -> int:
        """How many of the oldest messages fit into one transaction; at least one."""
        events = 0
        for place, taken in enumerate(pending[:_MAX_MESSAGES]):
            events += taken.events
            if events > self._settings.batch_events and place:
                return place
        return min(len(pending), _MAX_MESSAGES)

    def _commit(self, batch: list[_Taken]) -> bool:
        """One transaction and everything that follows from it; False when the database refused."""
        began = self._clock.monotonic_ns()
        try:
            done = self._committer.commit([taken.parcel for taken in batch], self._wall_ms())
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing was said to anybody: try again, aloud
            self._failures += 1
            self._metrics.failed()
            if self._failures == 1:
                why = reason(error) if isinstance(error, SQLAlchemyError) else type(error).__name__
                self._log.error("the database takes nothing; ingest keeps trying", reason=why)
            return False
        if self._failures:
            self._log.info("the database takes events again", failures=self._failures)
        self._failures = 0
        took_s = (self._clock.monotonic_ns() - began) / NS_PER_S
        self._metrics.committed(done.counts, sum(taken.events for taken in batch), took_s)
        self._answer(done)
        for taken in batch:
            self._outlet.acknowledge(taken.arrival.ticket)
            self._intake.done(taken.arrival)
        return True

    def _answer(self, done: Committed) -> None:
        now_ns, now_ms = self._clock.monotonic_ns(), self._wall_ms()
        for answer in done.answers:
            self._senders.pop(answer.device, None)  # again at the end: oldest first
            self._senders[answer.device] = now_ns
        granted = self._credit(now_ns)
        for answer in done.answers:
            for receipt in receipts(answer, granted, now_ms):
                self._send(answer.device, receipt)

    def _credit(self, now_ns: int) -> int:
        while self._senders:
            device, seen_ns = next(iter(self._senders.items()))
            if now_ns - seen_ns < _SENDER_NS:
                break
            del self._senders[device]
        waiting = int(self._intake.fill * self._settings.queue_messages)
        return credit(waiting, self._settings.queue_messages, len(self._senders), self._settings.max_credit)

    def _send(self, device: str, receipt: Receipt) -> None:
        key = (device, receipt.epoch)
        if receipt.credit:
            self._stopped.pop(key, None)
        elif len(self._stopped) < _MAX_STOPPED:
            self._stopped[key] = None
        topic = str(Topic(device, Channel.RECEIPT))
        self._metrics.receipt(sent=self._outlet.publish(topic, receipt.encode()))

    def _wait_out(self, pending: list[_Taken]) -> None:
        """Let the database recover. Whoever sends meanwhile is told to stop; nothing is acknowledged."""
        self._tell_to_stop(pending)
        delay_s = _RETRY_S[min(self._failures, len(_RETRY_S)) - 1]
        until_ns = self._clock.monotonic_ns() + int(delay_s * NS_PER_S)
        while not self._stopping.is_set():
            left_s = (until_ns - self._clock.monotonic_ns()) / NS_PER_S
            if left_s <= 0:
                break
            if len(pending) < self._settings.queue_messages:
                new = self._collect(self._settings.batch_events, left_s)
                self._tell_to_stop(new)
                pending += new
            else:
                self._stopping.wait(left_s)
        # what waited long may have expired by now
        now = self._now()
        pending[:] = [self._inspected(taken.arrival, now) for taken in pending]

    def _tell_to_stop(self, taken: list[_Taken]) -> None:
        for one in taken:
            parcel = one.parcel
            if isinstance(parcel, EpochParcel) and (parcel.device, parcel.epoch) not in self._stopped:
                self._nudge((parcel.device, parcel.epoch), 0)

    def _resume(self) -> None:
        """Let those go on who were told to stop, once there is room; a few at a time."""
        has_room = not self._failures and self._intake.fill < _RESUME_FILL
        if has_room and not self._stopping.is_set():  # a queue that was closed leaves everything out
            self._outlet.redeliver()
        if self._stopped and has_room:
            granted = self._credit(self._clock.monotonic_ns())
            for key in list(self._stopped)[:_MAX_MESSAGES]:
                self._nudge(key, granted)
        self._metrics.stopped.set(len(self._stopped))

    def _nudge(self, key: EpochKey, granted: int) -> None:
        """A receipt that settles nothing and only says how much may come."""
        for receipt in receipts(Answer(*key, high=0), granted, self._wall_ms()):
            self._send(key[0], receipt)

    def _now(self) -> Now:
        wall = self._clock.wall()
        return Now(self._clock.monotonic_ns(), wall.unix_ns // NS_PER_MS, wall.synced)

    def _wall_ms(self) -> int:
        return self._clock.wall().unix_ns // NS_PER_MS
