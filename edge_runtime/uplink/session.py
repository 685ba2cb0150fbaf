"""One MQTT session: a fresh paho client for every connect, its callbacks turned into plain records.

A client is never used for a second connect: paho would resend what it still remembers, wait with a back-off that
has no jitter, and keep a window that belongs to a session that is gone. All waiting is done elsewhere.
"""

import contextlib
import ssl
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import paho.mqtt.client as mqtt
import socks  # type: ignore[import-untyped]
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edge_runtime.protocol.enrolment import BrokerTransport
from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES
from edge_runtime.uplink.session_records import (
    Acknowledged,
    Arrived,
    Connected,
    Ended,
    SessionEvent,
    Subscribed,
    Target,
)

_NOT_AUTHORIZED = 0x87
_UNSUPPORTED_VERSION = 0x84
_TAKEN_OVER = 0x8E
_RECEIVE_MAXIMUM_311 = 64
"""MQTT 3.1.1 has no Receive Maximum: what its brokers take by default."""

_OWN_RECEIVE_MAXIMUM = 64
_LOOP_S = 1.0
_FAREWELL = 3
"""Rounds of the loop after `close`: what is still unsent then waits behind a link that is dead."""

_MAX_QUEUED = 64


class MqttSession:
    """Connects once, works in a thread of its own, and tells what happens until it is closed.

    Args:
        target: see there.
        tell: called with (this session, event) from the session's threads; must not block.
    """

    def __init__(self, target: Target, tell: Callable[["MqttSession", SessionEvent], None]) -> None:
        self._target = target
        self._tell = tell
        self._connected = False
        self._over = threading.Event()
        self._using, self._torn_down = threading.Lock(), False
        self._sockets: list[ssl.SSLSocket] = []
        self._client = self._make_client()
        self._thread = threading.Thread(target=self._work, name="uplink-session", daemon=True)

    @property
    def mqtt5(self) -> bool:
        """Whether it speaks MQTT 5."""
        return self._target.mqtt5

    def start(self) -> None:
        """Begin to connect; returns at once."""
        self._thread.start()

    @property
    def hangs(self) -> bool:
        """Whether its thread still runs, closed or not."""
        return self._thread.is_alive()

    def subscribe(self, topic: str) -> bool:
        """Subscribe at QoS 1; a `Subscribed` follows. False where the connection is gone."""
        with self._using:
            if self._torn_down:
                return False
            code, _ = self._client.subscribe(topic, qos=1)
        return code == mqtt.MQTT_ERR_SUCCESS

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, expiry_s: int | None = None
    ) -> int | None:
        """Publish at QoS 1.

        Args:
            topic: where to.
            payload: what.
            retain: whether the broker keeps it for later subscribers.
            expiry_s: after which the broker need not deliver it any more (MQTT 5).

        Returns:
            The id that its `Acknowledged` will carry, or None: not connected, or paho would only queue it.
        """
        properties = None
        if expiry_s is not None and self._target.mqtt5:
            properties = _properties(PacketTypes.PUBLISH)
            properties.MessageExpiryInterval = max(1, min(expiry_s, 0xFFFFFFFF))
        with self._using:
            if self._torn_down or not self._client.is_connected():
                return None  # paho takes a publication while offline, and sends it whenever
            sent = self._client.publish(topic, payload, qos=1, retain=retain, properties=properties)
        return sent.mid if sent.rc == mqtt.MQTT_ERR_SUCCESS else None

    def close(self) -> None:
        """End it; a connected one says goodbye, so that its will is not published. Nothing is told any more."""
        self._over.set()
        with self._using:
            if not self._torn_down:
                with contextlib.suppress(OSError, ValueError, RuntimeError):
                    self._client.disconnect()

    # -- inside ------------------------------------------------------------------------------------------------

    def _make_client(self) -> mqtt.Client:
        target = self._target
        websockets = target.address.transport is BrokerTransport.WEBSOCKETS
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=target.client_id,
            clean_session=None if target.mqtt5 else False,
            protocol=MQTTProtocolVersion.MQTTv5 if target.mqtt5 else MQTTProtocolVersion.MQTTv311,
            transport="websockets" if websockets else "tcp",
            reconnect_on_failure=False,
        )
        client.suppress_exceptions = False
        client.connect_timeout = target.connect_timeout_s
        if target.tls is not None:
            client.tls_set_context(_keeping(target.tls, self._sockets))
        if websockets:
            client.ws_set_options(path=target.address.path)
        if target.proxy is not None:
            client.proxy_set(**_proxy_arguments(target.proxy))
        will_properties = None
        if target.mqtt5:
            will_properties = _properties(PacketTypes.WILLMESSAGE)
            will_properties.WillDelayInterval = target.will_delay_s
        client.will_set(target.will_topic, target.will, qos=1, retain=True, properties=will_properties)
        client.max_queued_messages_set(_MAX_QUEUED)
        client.max_inflight_messages_set(_MAX_QUEUED)  # the window is kept by whoever publishes
        # With it paho leaves all writing to the thread in `_work`; else `publish` would write from the engine's.
        client.on_socket_register_write = lambda *_: None
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        return client

    def _work(self) -> None:
        target = self._target
        properties = None
        if target.mqtt5:
            properties = _properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = target.session_expiry_s
            properties.ReceiveMaximum = _OWN_RECEIVE_MAXIMUM
            properties.MaximumPacketSize = MAX_PAYLOAD_BYTES + 4096
        try:
            self._client.connect(
                target.address.host,
                target.address.port,
                target.keepalive_s,
                clean_start=False if target.mqtt5 else mqtt.MQTT_CLEAN_START_FIRST_ONLY,
                properties=properties,
            )
            if self._over.is_set():
                self._client.disconnect()
            farewell = _FAREWELL
            while farewell > 0 and self._client.loop(_LOOP_S) == mqtt.MQTT_ERR_SUCCESS:
                farewell -= self._over.is_set()
        except (OSError, ValueError) as error:  # socks, TLS and WebSocket errors are OSError
            self._end(Ended(_sentence(error)))
        except Exception as error:  # noqa: BLE001 - paho raises whatever its parser meets in a malformed packet
            self._end(self._unread(f"the broker sent what cannot be read: {type(error).__name__}"))
        else:
            self._end(self._unread("the connection ended"))
        finally:
            self._tear_down()

    def _tear_down(self) -> None:
        with self._using:  # who publishes wakes paho through a socket that is closed here
            self._torn_down = True
            if (left := self._client.socket()) is not None:
                left.close()
            # paho closes the pair with which it wakes itself in its finalizer only; the collector may be late
            with contextlib.suppress(AttributeError):  # a private name, the same in every release of paho 2
                self._client._reset_sockets()
            for made in self._sockets:
                made.close()

    def _unread(self, text: str) -> Ended:
        # before the broker's yes anything odd may mean that it does not speak this version
        unsupported = self._target.mqtt5 and not self._connected
        return Ended(text, reached=True, answered=self._connected, unsupported=unsupported)

    def _on_connect(
        self, _client: mqtt.Client, _data: Any, _flags: mqtt.ConnectFlags, reason: Any, properties: Any
    ) -> None:
        if reason.is_failure:
            unsupported = (
                reason.value in (_UNSUPPORTED_VERSION, 0x01) or "protocol version" in str(reason).lower()
            )
            text = f"the broker refused: {reason}"
            if reason.value == _NOT_AUTHORIZED:
                text += "; if the fleet revoked this device, enrol it again with a new token"
            self._end(Ended(text, answered=True, refused=True, unsupported=unsupported))
            return
        self._connected = True
        default = 65_535 if self._target.mqtt5 else _RECEIVE_MAXIMUM_311
        self._say(
            Connected(
                getattr(properties, "ReceiveMaximum", default), getattr(properties, "MaximumPacketSize", None)
            )
        )

    def _on_disconnect(
        self, _client: mqtt.Client, _data: Any, _flags: mqtt.DisconnectFlags, reason: Any, _properties: Any
    ) -> None:
        taken_over = self._target.mqtt5 and reason.value == _TAKEN_OVER
        if self._connected:
            self._end(Ended(f"the connection ended: {reason}", answered=True, taken_over=taken_over))
        else:
            text = "the broker closed the connection before it answered"
            self._end(Ended(text, reached=True, unsupported=self._target.mqtt5))

    def _on_subscribe(
        self, _client: mqtt.Client, _data: Any, _mid: int, reasons: list[Any], _properties: Any
    ) -> None:
        self._say(Subscribed(bool(reasons) and not any(reason.is_failure for reason in reasons)))

    def _on_publish(self, _client: mqtt.Client, _data: Any, mid: int, reason: Any, _properties: Any) -> None:
        self._say(Acknowledged(mid, bool(reason.is_failure), str(reason)))

    def _on_message(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        self._say(Arrived(topic, bytes(message.payload[: MAX_PAYLOAD_BYTES + 1]), bool(message.retain)))

    def _end(self, ended: Ended) -> None:
        if not self._over.is_set():
            self._over.set()
            self._tell(self, ended)

    def _say(self, event: SessionEvent) -> None:
        if not self._over.is_set():
            self._tell(self, event)


def _properties(packet: int) -> Properties:
    return Properties(packet)  # type: ignore[no-untyped-call]


def _keeping(context: ssl.SSLContext, made: list[ssl.SSLSocket]) -> ssl.SSLContext:
    """The context, with every socket that it makes in `made`: paho drops one whose handshake failed, unclosed."""

    class Kept(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the signature of ssl
            made.append(self)
            super().do_handshake(block)

    context.sslsocket_class = Kept
    return context


def _proxy_arguments(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "proxy_type": socks.HTTP,
        "proxy_addr": parts.hostname,
        "proxy_port": parts.port,
        "proxy_username": None if parts.username is None else unquote(parts.username),
        "proxy_password": None if parts.password is None else unquote(parts.password),
    }


def _sentence(error: Exception) -> str:
    """An error of the network as one line without addresses of objects or credentials."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted: {error.verify_message}"
    if isinstance(error, socks.ProxyError):
        return f"the proxy refused: {error.msg}"
    return f"no connection: {getattr(error, 'strerror', None) or type(error).__name__}"
