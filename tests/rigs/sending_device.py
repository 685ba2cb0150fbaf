"""A device that sends until everything is receipted, as the uplink does: a window, resends, syncs, reconnects.

It believes receipts alone. What it was told is compared with the server's database at the end.
"""

import contextlib
import threading
import time
from collections.abc import Sequence

import paho.mqtt.client as mqtt

from edge_runtime.protocol.delivery import BundleItem, Receipt, Rejection
from edge_runtime.protocol.topics import Channel
from fleet_server.ingest.session import end_loop
from tests.rigs.brokers import Broker
from tests.rigs.deliveries import DeviceRig

_RESEND_S = 1.0


class SendingDevice:
    """One device with events to send.

    Args:
        broker: where to.
        rig: makes its messages.
        items: what to send.
        bundle: events in one message.
        window: messages in flight.

    Attributes:
        delivered: sequence numbers that a receipt accepted.
        rejected: by sequence number.
        credits: credit of each receipt.
        receipts: number of receipts.
    """

    def __init__(
        self,
        broker: Broker,
        rig: DeviceRig,
        items: Sequence[BundleItem],
        *,
        bundle: int = 20,
        window: int = 10,
    ) -> None:
        self.rig, self._broker, self._bundle, self._window = rig, broker, bundle, window
        self._lock = threading.Lock()
        self._open = {item.seq: item for item in items}
        self._flying: dict[int, float] = {}
        self.delivered: set[int] = set()
        self.rejected: dict[int, Rejection] = {}
        self.credits: list[int] = []
        self.high = 0
        self._credit = window
        self._client: mqtt.Client | None = None
        self._up = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def receipts(self) -> int:
        """How many came."""
        return len(self.credits)

    @property
    def left(self) -> int:
        """Events without a fate."""
        return len(self._open)

    def start(self) -> "SendingDevice":
        """Begin to connect and send."""
        self._thread.start()
        return self

    def finish(self, timeout: float = 60.0) -> bool:
        """Whether every event got its fate in time; it disconnects."""
        deadline = time.monotonic() + timeout
        while self._open and time.monotonic() < deadline:
            time.sleep(0.02)
        self._stop.set()
        self._thread.join(10)
        return not self._open

    def _run(self) -> None:
        while not self._stop.is_set():
            client = self._broker.client(self.rig.name)
            client.on_connect = self._connected
            client.on_message = lambda _c, _u, message: self._receipt(Receipt.decode(bytes(message.payload)))
            client.on_disconnect = lambda *_: self._up.clear()
            client.reconnect_delay_set(60, 60)
            with contextlib.suppress(OSError, ValueError):
                client.connect(self._broker.host, self._broker.port, 10)
                client.loop_start()
                if self._up.wait(5):
                    self._send_while_up(client)
            end_loop(client)
            self._up.clear()
            time.sleep(0.05)

    def _connected(self, client: mqtt.Client, _u: object, _f: object, reason: object, _p: object) -> None:
        if getattr(reason, "is_failure", True):
            return
        client.subscribe(self.rig.topic(Channel.RECEIPT), 1)
        with self._lock:
            self._flying.clear()
        topic, payload = self.rig.sync(min(self._open, default=self.rig.next))
        client.publish(topic, payload, qos=1)
        self._up.set()

    def _send_while_up(self, client: mqtt.Client) -> None:
        while self._up.is_set() and not self._stop.is_set() and self._open:
            items = self._next_bundle()
            if not items:
                time.sleep(0.002)
                continue
            topic, payload = self.rig.bundle(*items)
            client.publish(topic, payload, qos=1)

    def _next_bundle(self) -> list[BundleItem]:
        now = time.monotonic()
        with self._lock:
            for seq, sent in list(self._flying.items()):
                if now - sent > _RESEND_S:
                    del self._flying[seq]
            if len(self._flying) >= max(1, min(self._window, self._credit)) * self._bundle:
                return []
            chosen = []
            for seq, item in self._open.items():
                if seq not in self._flying:
                    chosen.append(item)
                    self._flying[seq] = now
                    if len(chosen) == self._bundle:
                        break
            return chosen

    def _receipt(self, receipt: Receipt) -> None:
        if receipt.epoch != self.rig.epoch:
            return
        with self._lock:
            self.credits.append(receipt.credit)
            self._credit = receipt.credit
            refused = {rejection.seq: rejection for rejection in receipt.rejected}
            for seq, rejection in refused.items():
                if rejection.permanent and self._open.pop(seq, None) is not None:
                    self.rejected[seq] = rejection
                self._flying.pop(seq, None)
            self.high = max(self.high, receipt.high)
            done = [seq for seq in self._open if seq <= self.high]
            for first, last in receipt.accepted:
                done += [seq for seq in range(first, last + 1) if seq in self._open]
            for seq in done:
                if self._open.pop(seq, None) is not None:
                    self.delivered.add(seq)
                self._flying.pop(seq, None)
