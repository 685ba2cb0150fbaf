"""The MQTT session of ingest: subscribe, hand messages in, publish receipts and commands, acknowledge when told.

Every connection gets a client of its own, so that nothing of an old one (packet numbers, windows) reaches a new
one: an acknowledgement for a message of an earlier connection is dropped, because its number is another's now.
"""

import contextlib
import random
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt
import structlog
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.errors import ConfigError
from edge_runtime.protocol.enrolment import BrokerAddress, BrokerTransport
from edge_runtime.protocol.topics import ROOT
from fleet_server.ingest.client import IngestClient
from fleet_server.ingest.parcels import Arrival

UP = f"{ROOT}/+/up/#"
PRESENCE = f"{ROOT}/+/presence"
SHARED = f"$share/ingest/{UP}"

_KEEPALIVE_S = 30
_CONNECT_S = 10.0
_STOP_S = 5.0
_BACKOFF_BASE_S, _BACKOFF_CAP_S = 0.2, 10.0
_STABLE_NS = 10 * NS_PER_S
_UNSUPPORTED_VERSION = (1, 0x84)
"""CONNACK's code for a protocol version that the broker does not speak, in MQTT 3.1.1 and 5."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Names one message of one connection."""

    connection: int
    number: int
    qos: int


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How to reach the broker.

    Attributes:
        tls: None only for a broker on loopback.
        client_id: another client with the same would be thrown out by this one.
        protocol: `auto`, `5` or `3.1.1`.
        receive_maximum: messages that an MQTT 5 broker may leave unacknowledged here.
        alone: False when other workers share the load, which needs MQTT 5.
    """

    address: BrokerAddress
    tls: ssl.SSLContext | None
    client_id: str
    protocol: str = "auto"
    receive_maximum: int = 500
    alone: bool = True


@dataclass(slots=True)
class SessionCounts:
    """What happened to the session; read by metrics."""

    connects: int = 0
    losses: int = 0
    refused_publishes: int = 0
    unsent: int = 0
    last_reason: str = ""


_NEEDS_MQTT5 = (
    "several ingest workers share the load through MQTT 5, which this broker does not speak: "
    "set ingest.workers to 1"
)


class NeedsMqtt5(ConfigError):
    """Several workers share the load only through MQTT 5, which this broker does not speak."""


class Session:
    """Keeps a connection until it is stopped.

    Args:
        settings: how to reach the broker.
        clock: times arrivals and back-off.
        deliver: called for every message on the network's thread; it must not block. False: it was left out.
        came_up: called after every successful subscription.
        gave_up: called once, when `fatal` was set.

    Attributes:
        fatal: why it will never be up; None while it may be.

    Raises:
        NeedsMqtt5: the settings ask for what this version of MQTT cannot do.
    """

    def __init__(
        self,
        settings: SessionSettings,
        clock: Clock,
        deliver: Callable[[Arrival], bool],
        came_up: Callable[[], object] = lambda: None,
        gave_up: Callable[[], object] = lambda: None,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._deliver, self._came_up, self._gave_up = deliver, came_up, gave_up
        self._protocols = {"5": [5], "3.1.1": [4]}.get(settings.protocol, [5, 4])
        if not settings.alone:
            if settings.protocol == "3.1.1":
                raise NeedsMqtt5(_NEEDS_MQTT5)
            self._protocols = [5]
        self._client: IngestClient | None = None
        self._number = self._left_out = 0
        self._stop = threading.Event()
        self._watch: _Watch | None = None
        self._ended = threading.Event()
        self._up = threading.Event()
        self._thread: threading.Thread | None = None
        self.counts = SessionCounts()
        self.fatal: NeedsMqtt5 | None = None

    @property
    def is_up(self) -> bool:
        """Whether messages can come and go."""
        return self._up.is_set()

    @property
    def speaks_mqtt5(self) -> bool:
        """Of the newest connection."""
        return self._protocols[0] == 5

    def start(self) -> None:
        """Begin to connect, on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._thread.start()

    def wait_up(self, timeout_s: float) -> bool:
        """Wait until it is up, or never will be."""
        return self._up.wait(timeout_s)

    def stop(self) -> None:
        """Disconnect and end; a connection that is only being made is not waited for."""
        self._stop.set()
        self._ended.set()
        watch = self._watch
        if watch is not None:
            watch.answered.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def publish(self, topic: str, payload: bytes) -> bool:
        """Send at QoS 0: a lost receipt costs a resend, and no broker has to store it. False when offline."""
        client = self._client
        if client is None or not self._up.is_set():
            self.counts.unsent += 1
            return False
        return client.publish(topic, payload, qos=0).rc == mqtt.MQTT_ERR_SUCCESS

    def publish_confirmed(self, topic: str, payload: bytes, expiry_s: int, timeout_s: float) -> bool:
        """Send at QoS 1 and wait until the broker has it and did not refuse it.

        Args:
            topic: where to.
            payload: what.
            expiry_s: MQTT 5 brokers forget it after this.
            timeout_s: how long to wait.
        """
        client = self._client
        if client is None or not self._up.is_set():
            return False
        properties = None
        if self.speaks_mqtt5:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            properties.MessageExpiryInterval = max(1, expiry_s)
        until_ns = self._clock.monotonic_ns() + int(timeout_s * NS_PER_S)
        sent = client.publish(topic, payload, qos=1, properties=properties)
        return self._is_taken(client, sent, until_ns)

    def retain_confirmed(self, messages: Sequence[tuple[str, bytes]], timeout_s: float) -> list[bool]:
        """Have the broker keep the newest message of each topic, and wait until it has them.

        They go out together, so that a thousand do not wait for a thousand round trips.

        Args:
            messages: topic and payload; an empty payload has the broker keep none.
            timeout_s: how long to wait for all of them.

        Returns:
            For each of them whether the broker has it and did not refuse it.
        """
        client = self._client
        if client is None or not self._up.is_set():
            return [False] * len(messages)
        until_ns = self._clock.monotonic_ns() + int(timeout_s * NS_PER_S)
        sent = [client.publish(topic, payload, qos=1, retain=True) for topic, payload in messages]
        return [self._is_taken(client, one, until_ns) for one in sent]

    def _is_taken(self, client: IngestClient, sent: mqtt.MQTTMessageInfo, until_ns: int) -> bool:
        try:
            sent.wait_for_publish(max(0, until_ns - self._clock.monotonic_ns()) / NS_PER_S)
        except (RuntimeError, ValueError):
            return False
        if sent.mid in client.refused:  # paho calls a refused message published
            client.refused.discard(sent.mid)
            return False
        return sent.is_published()

    def acknowledge(self, ticket: object) -> None:
        """Tell the broker that a message is done; nothing when its connection is gone."""
        client = self._client
        if client is not None and isinstance(ticket, Ticket) and ticket.connection == self._number:
            client.ack(ticket.number, ticket.qos)

    def redeliver(self) -> None:
        """Connect anew if this connection left messages out.

        They keep their places in the broker's window, and MQTT 5 forbids it to send them again in this connection:
        after as many as the window holds nothing would come any more.
        """
        if self._left_out and self._left_out == self._number:
            self._left_out = 0
            self._ended.set()

    def _run(self) -> None:
        delay = 0.0
        while not self._stop.is_set():
            # full jitter: servers that lost one broker must not come back in step
            if self._stop.wait(random.uniform(0, delay)):  # noqa: S311 - no secret depends on it
                break
            began = self._clock.monotonic_ns()
            answered = self._connection()
            if self.fatal is not None:
                self._gave_up()
                return
            lasted = self._clock.monotonic_ns() - began
            if answered and lasted >= _STABLE_NS:
                delay = _BACKOFF_BASE_S
            else:
                delay = min(_BACKOFF_CAP_S, max(_BACKOFF_BASE_S, delay * 2))

    def _connection(self) -> bool:
        """One connection from its beginning to its end; whether the broker accepted it."""
        self._number += 1
        self._ended.clear()
        self._watch = watch = _Watch(self._number)
        if self._stop.is_set():  # between the question in `_run` and here
            return False
        client = self._new_client(watch)
        address = self._settings.address
        options: dict[str, Any] = {}
        if self.speaks_mqtt5:
            options["properties"] = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            options["properties"].ReceiveMaximum = self._settings.receive_maximum
            options["clean_start"] = True
        try:
            client.connect(address.host, address.port, _KEEPALIVE_S, **options)
        except (OSError, ValueError) as error:
            self.counts.last_reason = type(error).__name__
            return False
        if self._stop.is_set():
            return False
        client.loop_start()
        try:
            watch.answered.wait(_CONNECT_S)
            if watch.accepted:
                self._ended.wait()
            elif not self._stop.is_set():
                self._note_refusal(watch)
        finally:
            self._up.clear()
            self._client = None
            end_loop(client)
        return watch.accepted

    def _new_client(self, watch: "_Watch") -> IngestClient:
        settings, version = self._settings, self._protocols[0]
        websockets = settings.address.transport is BrokerTransport.WEBSOCKETS
        client = IngestClient(
            lambda why: self._loop_ended(watch, why),
            callback_api_version=CallbackAPIVersion.VERSION2,
            client_id=settings.client_id,
            clean_session=None if version == 5 else True,
            protocol=MQTTProtocolVersion(version),
            transport="websockets" if websockets else "tcp",
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = _CONNECT_S
        if websockets:
            client.ws_set_options(path=settings.address.path)
        if settings.tls is not None:
            client.tls_set_context(settings.tls)
        client.on_connect = lambda _c, _u, _f, reason, _p: self._connected(client, watch, reason)
        client.on_disconnect = lambda _c, _u, _f, reason, _p: self._lost(watch, reason)
        client.on_subscribe = lambda _c, _u, _m, reasons, _p: self._subscribed(client, watch, reasons)
        client.on_publish = lambda _c, _u, mid, reason, _p: self._published(client, mid, reason)
        client.on_message = lambda _c, _u, message: self._arrived(watch.connection, message)
        return client

    def _connected(self, client: IngestClient, watch: "_Watch", reason: Any) -> None:
        watch.code = int(reason.value)
        if reason.is_failure:
            self.counts.last_reason = str(reason)
            watch.answered.set()
            return
        if self.speaks_mqtt5:
            client.subscribe([(SHARED, SubscribeOptions(qos=1)), (PRESENCE, SubscribeOptions(qos=1))])
        else:
            client.subscribe([(UP, 1), (PRESENCE, 1)])

    def _subscribed(self, client: IngestClient, watch: "_Watch", reasons: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self.counts.last_reason = "the broker refuses the subscription"
            watch.answered.set()
            return
        self.counts.connects += 1
        watch.accepted = True
        self._client = client
        self._up.set()
        watch.answered.set()
        self._came_up()

    def _lost(self, watch: "_Watch", reason: Any) -> None:
        if watch.connection == self._number and not watch.is_over:
            watch.is_over = True
            if watch.accepted:
                self.counts.losses += 1
                self.counts.last_reason = str(reason)
            watch.answered.set()
            self._up.clear()
            self._ended.set()

    def _loop_ended(self, watch: "_Watch", why: str | None) -> None:
        """The thread of paho has ended; after an error in it paho itself says nothing, and nothing would come."""
        if why is not None:
            structlog.get_logger().error("the session with the broker failed", error=why)
        self._lost(watch, why or "the connection ended")

    def _published(self, client: IngestClient, mid: int, reason: Any) -> None:
        if reason is not None and reason.is_failure:
            self.counts.refused_publishes += 1
            if len(client.refused) < 1000:
                client.refused.add(mid)

    def _arrived(self, connection: int, message: mqtt.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        ticket = Ticket(connection, message.mid, message.qos)
        arrived_ns = self._clock.monotonic_ns()
        is_taken = self._deliver(Arrival(topic, bytes(message.payload), arrived_ns, ticket, message.retain))
        if message.qos and not is_taken:
            self._left_out = connection

    def _note_refusal(self, watch: "_Watch") -> None:
        """A broker without MQTT 5 says so, or hangs up in silence: the next attempt speaks the other version."""
        unsupported = watch.code in _UNSUPPORTED_VERSION
        if unsupported and not self._settings.alone:
            self.fatal = NeedsMqtt5(_NEEDS_MQTT5)
        elif len(self._protocols) > 1 and (unsupported or watch.code is None):
            self._protocols.reverse()


def end_loop(client: mqtt.Client) -> None:
    """Disconnect, and wait for paho's thread.

    paho 2 looks whether its thread is there and then waits for it; one that ends by itself in between, because the
    broker left, is gone by then. Unheeded that would end the thread that keeps the session, for good.
    """
    client.disconnect()
    with contextlib.suppress(AttributeError):
        client.loop_stop()


class _Watch:
    """What became of one connection."""

    def __init__(self, connection: int) -> None:
        self.connection = connection
        self.answered = threading.Event()
        self.accepted = self.is_over = False
        self.code: int | None = None
