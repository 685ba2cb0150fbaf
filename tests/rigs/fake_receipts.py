"""A peer that plays the fleet server over a real broker: it commits to memory, receipts, and misbehaves on request.

It is written apart from the fleet server's ingest, from the protocol alone, so that the device's side is tested
against what the protocol says.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as mqtt

from edge_runtime.clock import NS_PER_MS, Clock, SystemClock
from edge_runtime.protocol.delivery import EventBundle, Outcomes, Presence, Receipt, Rejection, Sync
from edge_runtime.protocol.operation import Command, CommandResult, Health, HeldList
from edge_runtime.protocol.topics import Channel, Topic
from fleet_server.ingest.session import end_loop
from tests.rigs.brokers import Broker, wait_until


@dataclass
class Books:
    """What the peer knows of one device's epoch.

    Attributes:
        rows: committed bodies by key.
        attempts: how often each sequence number arrived.
        settled: sequence numbers that are committed, refused or reported as gone.
    """

    rows: dict[bytes, bytes] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    settled: set[int] = field(default_factory=set)
    high: int = 0

    def settle(self, seqs: Any) -> None:
        self.settled.update(seq for seq in seqs if seq > self.high)
        while self.high + 1 in self.settled:
            self.high += 1
            self.settled.discard(self.high)


def _ranges(seqs: Iterable[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for seq in sorted(seqs):
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return tuple(found[:512])


class ReceiptingPeer:
    """The server's part. Its state outlives its connection, as a database would.

    Attributes:
        credit: stated in every receipt.
        silent: commits and sends no receipts; `deaf` does not even commit.
        ignore: sequence numbers that it never commits nor receipts, as if they crashed it.
        refuse: sequence number to a rejection.
        bundles: (topic, bundle, bytes on the wire) in order of arrival.
    """

    def __init__(self, broker: Broker, clock: Clock | None = None) -> None:
        self._broker, self._clock = broker, clock or SystemClock()
        self._lock = threading.Lock()
        self._client: mqtt.Client | None = None
        self._ready = threading.Event()
        self.credit = 20
        self.silent = False
        self.deaf = False
        self.ignore: Callable[[int], bool] = lambda _seq: False
        self.refuse: dict[int, Rejection] = {}
        self.books: dict[tuple[str, str], Books] = defaultdict(Books)
        self.bundles: list[tuple[str, EventBundle, int]] = []
        self.syncs: list[Sync] = []
        self.outcomes: list[Outcomes] = []
        self.health: list[Health] = []
        self.held: list[HeldList] = []
        self.results: list[CommandResult] = []
        self.presences: list[Presence] = []
        self.defects: list[str] = []

    def start(self) -> "ReceiptingPeer":
        """Connect and subscribe; reconnects by itself."""
        client = self._broker.client("fleet-ingest", "fleet-ingest-peer")
        client.on_connect = self._on_connect
        client.on_subscribe = lambda *_: self._ready.set()
        client.on_message = self._on_message
        client.reconnect_delay_set(1, 1)
        client.connect(self._broker.host, self._broker.port, 20)
        client.loop_start()
        self._client = client
        assert self._ready.wait(10), "the peer could not subscribe"
        return self

    def stop(self) -> None:
        """Disconnect; what was committed stays."""
        if self._client is not None:
            end_loop(self._client)
            self._client = None
            self._ready.clear()

    def send(self, device: str, channel: Channel, payload: bytes, *, retain: bool = False) -> None:
        """Publish anything to a device."""
        assert self._client is not None
        self._client.publish(str(Topic(device, channel)), payload, qos=1, retain=retain)

    def command(self, command: Command, *, retain: bool = False) -> None:
        """Publish a command."""
        self.send(command.device, Channel.COMMAND, command.encode(), retain=retain)

    def now_ms(self) -> int:
        """The server's wall clock."""
        return self._clock.wall().unix_ns // NS_PER_MS

    def send_retained_nothing(self, device: str) -> None:
        """Make the broker forget what it keeps on a device's command topic."""
        self.send(device, Channel.COMMAND, b"", retain=True)

    def rows(self, device: str) -> dict[bytes, bytes]:
        """Everything committed from a device, over all epochs."""
        with self._lock:
            return {
                k: b
                for (name, _), books in self.books.items()
                if name == device
                for k, b in books.rows.items()
            }

    def presence(self, device: str) -> list[Presence]:
        """What a device's presence topic said, in order of arrival."""
        return [found for found in self.presences if found.device == device]

    def wait_rows(self, device: str, count: int, timeout: float = 10.0) -> bool:
        """Whether so many rows were committed in time."""
        return wait_until(lambda: len(self.rows(device)) >= count, timeout)

    def receipt(self, device: str, epoch: str, seqs: Iterable[int] = ()) -> Receipt:
        """The receipt of what was settled now: all that is settled may be more than one receipt holds."""
        books = self.books[device, epoch]
        return Receipt(
            epoch=epoch,
            high=books.high,
            accepted=_ranges(seq for seq in seqs if seq > books.high),
            rejected=tuple(self.refuse.values()),
            credit=self.credit,
            server_ms=self.now_ms(),
        )

    def _on_connect(self, client: mqtt.Client, *_: Any) -> None:
        client.subscribe([("fleet/v1/+/up/#", 1), ("fleet/v1/+/presence", 1)])

    def _on_message(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        topic = Topic.parse(message.topic)
        if topic is None:
            self.defects.append(message.topic)
            return
        try:
            with self._lock:
                self._take(topic, bytes(message.payload))
        except ValueError as error:
            self.defects.append(f"{message.topic}: {error}")

    def _take(self, topic: Topic, payload: bytes) -> None:
        device, channel = topic.device, topic.channel
        if self.deaf:
            return
        if channel.is_events:
            self._commit(device, str(topic), EventBundle.decode(payload), len(payload))
        elif channel is Channel.SYNC:
            sync = Sync.decode(payload)
            self.syncs.append(sync)
            self._answer(device, sync.epoch, sorted(self.books[device, sync.epoch].settled))
        elif channel is Channel.OUTCOME:
            report = Outcomes.decode(payload)
            self.outcomes.append(report)
            for gone in report.ranges:
                self.books[device, report.epoch].settle(range(gone.first, gone.last + 1))
            self._answer(device, report.epoch, ())
        elif channel is Channel.HEALTH:
            self.health.append(Health.decode(payload))
        elif channel is Channel.HELD:
            self.held.append(HeldList.decode(payload))
        elif channel is Channel.RESULT:
            self.results.append(CommandResult.decode(payload))
        elif channel is Channel.PRESENCE:
            self.presences.append(Presence.decode(payload))

    def _commit(self, device: str, topic: str, bundle: EventBundle, size: int) -> None:
        if bundle.device != device:
            self.defects.append(f"{topic}: bundle of {bundle.device}")
            return
        self.bundles.append((topic, bundle, size))
        books = self.books[device, bundle.epoch]
        taken = []
        for item in bundle.items:
            books.attempts[item.seq] += 1
            if self.ignore(item.seq):
                continue
            if item.seq not in self.refuse:
                if books.rows.setdefault(item.key, item.body) != item.body:
                    self.defects.append(f"another body under the key of {item.seq}")
                taken.append(item.seq)
            elif self.refuse[item.seq].permanent:
                taken.append(item.seq)
        books.settle(taken)
        if taken or any(item.seq in self.refuse for item in bundle.items):
            self._answer(device, bundle.epoch, taken)

    def _answer(self, device: str, epoch: str, seqs: Iterable[int]) -> None:
        if not self.silent and self._client is not None:
            receipt = self.receipt(device, epoch, seqs)
            self._client.publish(str(Topic(device, Channel.RECEIPT)), receipt.encode(), qos=1)
