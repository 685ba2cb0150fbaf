"""One session against brokers that break the protocol: it ends with a sentence, never with a traceback."""

import contextlib
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.uplink import LinkIdentity
from edge_runtime.uplink.engine import MAX_INBOX
from edge_runtime.uplink.session import MqttSession
from edge_runtime.uplink.session_records import Ended, SessionEvent, Target
from edge_runtime.uplink.workers import Leasable
from sim.ports import free_port
from tests.rigs.brokers import wait_until
from tests.rigs.uplinks import ThreadedUplink

CONNACK_311 = b"\x20\x02\x00\x00"
CONNACK_5 = b"\x20\x03\x00\x00\x00"


class Rogue:
    """Answers each connect with bytes of its choice; `reply` gets the connection after the CONNECT was read."""

    def __init__(self, reply: Callable[[socket.socket], None]) -> None:
        self._reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = BrokerAddress(host="127.0.0.1", port=self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(4096)
                    self._reply(connection)


def target(rogue: Rogue, *, mqtt5: bool) -> Target:
    return Target(
        client_id="dev-1",
        address=rogue.address,
        tls=None,
        mqtt5=mqtt5,
        proxy=None,
        will_topic="fleet/v1/dev-1/presence",
        will=b"w",
        keepalive_s=30,
        connect_timeout_s=1.0,
        will_delay_s=0,
        session_expiry_s=0,
    )


@contextlib.contextmanager
def session(rogue: Rogue, *, mqtt5: bool) -> Iterator["queue.Queue[SessionEvent]"]:
    events: queue.Queue[SessionEvent] = queue.Queue()
    made = MqttSession(target(rogue, mqtt5=mqtt5), lambda _session, event: events.put(event))
    made.start()
    try:
        yield events
    finally:
        made.close()
        rogue.close()
        assert wait_until(lambda: not made.hangs, 10), "the session's thread and its socket outlive the test"


def ending(events: "queue.Queue[SessionEvent]") -> Ended:
    while True:
        event = events.get(timeout=5)
        if isinstance(event, Ended):
            return event


@pytest.mark.parametrize("mqtt5", [False, True])
@pytest.mark.parametrize(
    "junk",
    [
        b"\xff" * 64,
        b"\x30\x02\xff\xff",
        b"\x30\x03\x00\x09a",
        b"\x32\x05\x00\x02\xff\xfe\x00",
        b"\x40\x00",
        b"\x40\x01\x00",
        b"\x90\x01\x00",
        b"\x30\x80\x80\x80\x80\x80",
        b"\x30\x08\x00\x01a\xff\xff\xff\xff\xff",
        b"\x00\x00",
        b"\xf0\x05hello",
    ],
)
def test_malformed_packets_end_the_session_in_a_sentence(mqtt5: bool, junk: bytes) -> None:
    connack = CONNACK_5 if mqtt5 else CONNACK_311

    def reply(connection: socket.socket) -> None:
        connection.sendall(connack)
        connection.sendall(junk)

    with session(Rogue(reply), mqtt5=mqtt5) as events:
        ended = ending(events)
        assert ended.text
        assert "\n" not in ended.text


@pytest.mark.parametrize(
    "junk", [b"", b"\x20\x02\x00\x05", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x20\x01\x00"]
)
def test_what_is_no_connack_is_no_session(junk: bytes) -> None:
    with session(Rogue(lambda connection: connection.sendall(junk)), mqtt5=False) as events:
        first = events.get(timeout=5)
        assert isinstance(first, Ended)


@pytest.mark.parametrize(
    ("mqtt5", "connack"), [(False, b"\x20\x02\x00\x05"), (True, b"\x20\x03\x00\x87\x00")]
)
def test_a_device_that_is_not_let_in_is_told_what_to_do(mqtt5: bool, connack: bytes) -> None:
    with session(Rogue(lambda connection: connection.sendall(connack)), mqtt5=mqtt5) as events:
        ended = ending(events)
    assert ended.refused
    assert not ended.unsupported
    assert "if the fleet revoked this device, enrol it again with a new token" in ended.text


def test_a_broker_that_drops_mqtt_5_suggests_the_older_version() -> None:
    with session(Rogue(lambda connection: None), mqtt5=True) as events:
        assert ending(events).unsupported
    with session(Rogue(lambda connection: connection.sendall(b"\x20\x02\x00\x01")), mqtt5=True) as events:
        assert ending(events).unsupported


def test_nobody_listens() -> None:
    rogue = Rogue(lambda connection: None)
    rogue.address = BrokerAddress(host="127.0.0.1", port=free_port())
    with session(rogue, mqtt5=True) as events:
        ended = ending(events)
        assert not ended.unsupported
        assert "refused" in ended.text.lower()


def test_a_broker_that_never_answers_is_given_up_and_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        who = LinkIdentity(
            "dev-1", BrokerAddress(host="127.0.0.1", port=silent.getsockname()[1]), None, lambda: None
        )
        with ThreadedUplink(tmp_path, who, connect_timeout_s=0.1, cap_s=0.1) as device:
            assert wait_until(lambda: device.uplink.attempts >= 6, 10)
            assert not device.uplink.online
            assert device.uplink.trouble is not None


def test_an_identity_that_cannot_be_used_is_said_and_tried_again(tmp_path: Path) -> None:
    def tls() -> ssl.SSLContext:
        raise EdgeRuntimeError("the identity is damaged: enrol again")

    who = LinkIdentity("dev-1", BrokerAddress(host="127.0.0.1", port=free_port()), None, tls)
    with ThreadedUplink(tmp_path, who, cap_s=0.1) as device:
        assert wait_until(lambda: device.uplink.attempts >= 3)
        assert "enrol again" in (device.uplink.trouble or "")


def test_an_inbox_that_is_full_loses_and_counts(tmp_path: Path) -> None:
    who = LinkIdentity("dev-1", BrokerAddress(host="127.0.0.1", port=free_port()), None, lambda: None)
    device = ThreadedUplink(tmp_path, who)
    for _ in range(MAX_INBOX + 100):
        device.uplink.tell(Leasable())
    assert device.uplink.counts["inbox_full"] == 100
    with device:
        assert wait_until(lambda: device.uplink.attempts >= 1)


def test_who_publishes_while_the_session_ends_is_told_that_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The socket through which a publication wakes paho is closed in the session's thread, in two steps."""
    queue_packet, reset = mqtt.Client._packet_queue, mqtt.Client._reset_sockets
    publishing, closing = threading.Event(), threading.Event()

    def late(client: mqtt.Client, command: int, *arguments: Any) -> Any:
        if command == mqtt.PUBLISH:
            publishing.set()
            closing.wait(0.5)
        return queue_packet(client, command, *arguments)

    def slow(client: mqtt.Client, *arguments: Any, **names: Any) -> None:
        pair = client._sockpairW
        if pair is not None:
            pair.close()
            closing.set()
            time.sleep(0.1)
        reset(client, *arguments, **names)

    monkeypatch.setattr(mqtt.Client, "_packet_queue", late)
    monkeypatch.setattr(mqtt.Client, "_reset_sockets", slow)

    def reply(connection: socket.socket) -> None:
        connection.sendall(CONNACK_5)
        assert publishing.wait(5)  # and hangs up

    rogue = Rogue(reply)
    accepted = threading.Event()
    made = MqttSession(target(rogue, mqtt5=True), lambda _session, _event: accepted.set())
    made.start()
    assert accepted.wait(5)
    made.publish("fleet/v1/dev-1/up/bundle", b"an event")  # whatever it says, it does not raise
    assert wait_until(lambda: not made.hangs)
    assert made.publish("fleet/v1/dev-1/up/bundle", b"an event") is None
    assert not made.subscribe("fleet/v1/dev-1/down/#")
    made.close()
    rogue.close()
