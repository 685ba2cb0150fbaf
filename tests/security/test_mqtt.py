"""A stolen key and nobody's key at the broker of a running server: refused, counted, and the service stays up."""

import contextlib
import os
import socket
import time
import zlib
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from edge_runtime.protocol.delivery import PresenceState
from edge_runtime.protocol.topics import Channel
from edge_runtime.protocol.vocabulary import Fate
from fleet_server.storage import open_store
from fleet_server.storage.device_tables import PresenceRow
from sim.road import Server
from tests.rigs.bare_mqtt import (
    CONNACK,
    PUBACK,
    PUBREC,
    BareClient,
    bare,
    connect,
    packet,
    publish,
    subscribe,
    text,
)
from tests.rigs.brokers import accepts
from tests.rigs.parties import Operator, Party, admitted
from tests.rigs.roads import children, wait_for

BOMB_LENGTH = b"\xff\xff\xff\x7f"
"""A remaining length of 256 MiB."""


@pytest.fixture
def operator(server: Server) -> Operator:
    return Operator(server)


@pytest.fixture
def owner(server: Server) -> Party:
    """Who must not be harmed."""
    return Party.enrolled(server)


@pytest.fixture
def thief(server: Server) -> Party:
    """Who has the key of another device."""
    return Party.enrolled(server)


def presence_of(operator: Operator, device: str) -> tuple[int, str] | None:
    store = open_store(operator.server.database)
    try:
        with store.read() as session:
            found = session.get(PresenceRow, device)
            return None if found is None else (found.session, found.state)
    finally:
        store.close()


def dead_letters(operator: Operator, device: str) -> list[Any]:
    found: list[Any] = operator.get("/v1/dead-letters", device=device)["dead_letters"]
    return found


def subscribe_anew(server: Server, witness: Party) -> None:
    """Have ingest begin a new session: whatever the broker kept comes to it again."""
    for worker in children(server, "fleet_server.ingest"):
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
            worker.wait(10)
    witness.deliver()


def test_no_will_and_no_retained_message_poisons_what_others_read_later(
    server: Server, operator: Operator, owner: Party, thief: Party
) -> None:
    owner.send(owner.rig.presence(7), retain=True)
    assert wait_for(lambda: presence_of(operator, owner.name) == (7, "online"))
    lies = [owner.rig.presence(1 << 40, PresenceState.OFFLINE), owner.rig.outcomes((1, 1 << 40, Fate.LOST))]
    lies += [(owner.rig.topic(channel), b"{}") for channel in (Channel.COMMAND, Channel.RECEIPT)]
    for topic, payload in [*lies, (owner.rig.topic(Channel.PRESENCE), b"")]:
        for qos in (0, 1, 2):
            with thief.bare() as client:
                client.send(publish(topic, payload, qos=qos, retain=True))
                client.packet(0.2)
            with thief.bare(will=(topic, payload), will_qos=qos, will_retain=True):
                pass
    # on its own topics it may leave what it likes, and harms itself alone
    own = [thief.rig.bundle(thief.rig.item()), thief.rig.sync(1), thief.rig.outcomes((3, 9, Fate.LOST))]
    thief.send(*own, (thief.rig.topic(Channel.PRESENCE), b"\xc1" * 100_000), retain=True)
    for size in (40_000, 65_535):
        with thief.bare(will=(thief.rig.topic(Channel.HEALTH), os.urandom(size)), will_retain=True):
            pass
    subscribe_anew(server, owner)
    assert presence_of(operator, owner.name) == (7, "online")
    with owner.bare() as client:
        client.send(subscribe(f"fleet/v1/{owner.name}/down/#"))
        client.send(publish(*owner.rig.sync(1)))
        seen: list[tuple[int, bytes]] = []
        assert wait_for(lambda: heard(client, seen, owner.rig.topic(Channel.RECEIPT)), 20)
    others = [
        body for kind, body in seen if kind >> 4 == 3 and owner.rig.topic(Channel.COMMAND).encode() in body
    ]
    assert others == []
    assert wait_for(
        lambda: {"malformed"} <= {letter["code"] for letter in dead_letters(operator, thief.name)}
    )
    assert dead_letters(operator, owner.name) == []


def heard(client: BareClient, seen: list[tuple[int, bytes]], topic: str) -> bool:
    """Whether a message on a topic has come by now; all that came is kept."""
    found = client.packet(0.5)
    if found is not None:
        seen.append(found)
    return any(kind >> 4 == 3 and topic.encode() in body for kind, body in seen)


def test_what_a_broker_keeps_of_a_replaced_key_does_not_lock_its_owner_out(
    server: Server, operator: Operator, owner: Party, name: str
) -> None:
    stolen = Party.enrolled(server, name)
    stolen.send(stolen.rig.presence(1 << 52), retain=True)
    assert wait_for(lambda: presence_of(operator, name) == (1 << 52, "online"))
    operator.post(f"/v1/devices/{name}/revoke", {"reason": "stolen"})
    token = operator.post("/v1/invitations", {"device": name})["token"]
    waiting = admitted(server, name, token, state="pending")
    assert waiting.name == name
    operator.post(f"/v1/devices/{name}/approve", {})
    subscribe_anew(server, owner)  # the thief's message comes again before the owner is born
    assert not accepts(server.broker[1], stolen.credentials)
    assert presence_of(operator, name) == (0, "online")


FILTERS = (
    "#",
    "+/#",
    "$share/g/fleet/v1/+/up/#",
    "$SYS/#",
    "$JS.API.>",
    "$JS/API/#",
    "$MQTT/#",
    "fleet/v1/+/down/#",
)


def test_no_subscription_hears_anybody_else(operator: Operator, owner: Party, thief: Party) -> None:
    with thief.bare() as client:
        for number, found in enumerate((*FILTERS, f"fleet/v1/{owner.name}/#", "fleet/v1/+/presence"), 10):
            for qos in (0, 1, 2):
                client.send(subscribe(found, qos=qos, mid=number))
        client.send(subscribe(f"fleet/v1/{thief.name}/down/#", mid=99))
        owner.send(owner.rig.presence(1), owner.rig.sync(1))
        owner.deliver()
        client.send(publish(*thief.rig.sync(1)))
        seen: list[tuple[int, bytes]] = []
        assert wait_for(lambda: heard(client, seen, thief.rig.topic(Channel.RECEIPT)), 20), "it hears its own"
    assert [body for kind, body in seen if kind >> 4 == 3 and owner.name.encode() in body] == []


def mqtt_garbage(topic: str) -> list[tuple[bool, bytes]]:
    """Whether a good CONNECT comes first, and what nobody should send."""
    own = text(topic)
    return [
        (False, b""),
        (False, b"\x10"),
        (False, connect("x")[:9]),
        (False, connect("x", level=9)),
        (False, connect("x", name=b"HTTP")),
        (False, connect("x", name=b"")),
        (False, connect(b"\xff\xfe")),
        (False, connect("x" * 60_000)),
        (False, connect("", clean=False)),
        (False, connect("x", will=("#", b"w"))),
        (False, connect("x", will=(b"\xff", b"w"))),
        (False, connect("x", will=("", b""))),
        (False, connect("x", user=b"fleet-ingest")),
        (False, publish(topic, b"x")),
        (False, b"\x00\x00"),
        (False, b"\x10" + BOMB_LENGTH),
        (False, b"\x10\xff\xff\xff\xff\xff\xff"),
        (False, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        (False, os.urandom(4096)),
        (True, connect("y")),
        (True, b"\x32" + BOMB_LENGTH + own + b"\x00\x01" + bytes(4096)),
        (True, publish(topic, bytes(300_000))),
        (True, publish(b"fleet/v1/\xff\xfe", b"x")),
        (True, publish(b"fleet/v1/\x00", b"x")),
        (True, publish("fleet/v1/+/up/health", b"x")),
        (True, publish("", b"x")),
        (True, publish("x" * 65_535, b"x")),
        (True, publish(topic, b"x", qos=3)),
        (True, publish(topic, b"x", mid=0)),
        (True, packet(0x32, own)),
        (True, packet(0x32, b"\xff\xff")),
        (True, packet(0x82, b"\x00\x01")),
        (True, packet(0x80, b"\x00\x01" + text("a") + b"\x01")),
        (True, subscribe(b"\xff\xfe")),
        (True, subscribe("a/#/b")),
        (True, subscribe("/".join("a" * 3000))),
        (True, packet(0x40, b"\x99\x99") + packet(0x62, b"\x99\x99") + packet(0xA2, b"\x00\x01")),
        (True, packet(0xF0, b"")),
        (True, packet(0x20, b"\x00\x00")),
        (True, packet(0xE0, b"surplus")),
    ]


def test_malformed_packets_cost_one_connection_and_nobody_else(
    server: Server, operator: Operator, owner: Party, thief: Party
) -> None:
    topic = thief.rig.topic(Channel.HEALTH)
    with owner.bare() as witness:
        for connects, garbage in mqtt_garbage(topic):
            with bare(server.broker[1], thief.credentials) as client:
                if connects:
                    assert client.opened(), garbage[:20]
                client.send(garbage)
                client.packet(0.1)
        witness.send(packet(0xC0, b""))
        assert witness.packet(10) == (0xD0, b""), "a session beside it goes on"
    owner.deliver()
    assert dead_letters(operator, owner.name) == []


def deep(depth: int, kind: str) -> bytes:
    """Msgpack of nested lists or maps."""
    return (b"\x91" if kind == "list" else b"\x81\xa1a") * depth + b"\xc0"


def poison(rig: Any) -> Iterator[tuple[str, bytes]]:
    """Payloads that no decoder likes, on every channel that a device may write."""
    bomb = msgpack.packb({"v": [1, 0], "device": rig.name, "x": b""})
    payloads = [
        b"",
        b"\xc1",
        b"\x78\x9c" + bytes(100),
        deep(100_000, "list"),
        deep(60_000, "map"),
        b"\x80" + bytes(130_000),
        b"\xdf\xff\xff\xff\xff" + bomb,
        b"\xde\xff\xff" + bomb,
        msgpack.packb({"v": [9, 9], "device": rig.name}),
        msgpack.packb({"v": [1, 0], "device": "dev-of-nobody", "epoch": "x" * 100_000}),
        msgpack.packb({"v": [1, 0], "device": "'; DROP TABLE events; --", "n": 1 << 63}),
        zlib.compress(msgpack.packb({"v": [1, 0], "x": bytes(16 << 20)}), 9),
    ]
    for channel in Channel:
        if channel.value.startswith("up/") or channel is Channel.PRESENCE:
            for payload in payloads:
                yield rig.topic(channel), payload


def test_payloads_that_are_none_are_dead_letters_and_stop_nothing(
    operator: Operator, owner: Party, thief: Party
) -> None:
    messages = list(poison(thief.rig))
    thief.send(*messages)
    owner.deliver()
    found = dead_letters(operator, thief.name)
    codes = {letter["code"] for letter in found}
    assert codes <= {"malformed", "unknown_version", "wrong_device", "invalid", "too_large"}
    assert len(found) >= 50
    assert dead_letters(operator, owner.name) == []


def test_a_flood_beyond_the_credit_leaves_room_for_others(
    operator: Operator, owner: Party, thief: Party
) -> None:
    """Nobody waits for receipts: 2,000 bundles and as much rubbish at once."""
    with thief.bare() as client:
        for number in range(2000):
            client.send(publish(*thief.rig.bundle(thief.rig.item()), qos=1, mid=1 + number % 60_000))
            client.send(publish(thief.rig.topic(Channel.HEALTH), b"\xc1" * 1000, qos=0))
            if number == 1000:
                owner.deliver(60)
        owner.deliver(60)
    assert operator.get("/v1/health")["ready"]["ready"]


def test_replayed_and_copied_bundles_store_one_event(operator: Operator, owner: Party, thief: Party) -> None:
    topic, payload = owner.rig.bundle(owner.rig.item(event={"rule": f"once-{owner.name}"}))
    for _ in range(5):
        owner.send((topic, payload), (topic, payload))
    thief.send((thief.rig.topic(Channel.EVENTS_WARNING), payload))
    owner.deliver()
    assert wait_for(lambda: bool(dead_letters(operator, thief.name)))
    assert [letter["code"] for letter in dead_letters(operator, thief.name)] == ["wrong_device"]
    found = operator.get("/v1/events", rule=f"once-{owner.name}")["events"]
    assert [event["device"] for event in found] == [owner.name]


def test_quality_2_is_one_event(operator: Operator, owner: Party) -> None:
    rule = f"twice-{owner.name}"
    message = publish(*owner.rig.bundle(owner.rig.item(event={"rule": rule})), qos=2, mid=5)
    with owner.bare() as client:
        client.send(message)
        assert client.packet(10) == (PUBREC, b"\x00\x05")
        client.send(packet(0x62, b"\x00\x05"))
        assert client.packet(10) == (0x70, b"\x00\x05")
    assert wait_for(lambda: len(operator.get("/v1/events", rule=rule)["events"]) == 1)


def test_names_of_sessions_are_nobodys_and_a_taken_one_gives_nothing_away(
    operator: Operator, owner: Party, thief: Party
) -> None:
    with owner.bare(client_id="own-name", clean=False) as client:
        client.send(subscribe(f"fleet/v1/{owner.name}/down/#"))
        assert client.packet() is not None
        with thief.bare(client_id="own-name", clean=False) as other:
            assert client.is_closed(15), "one session, one connection"
            owner.send(owner.rig.sync(1))
            owner.deliver()
            other.send(publish(*thief.rig.sync(1)))
            seen: list[tuple[int, bytes]] = []
            assert wait_for(lambda: heard(other, seen, "") or any(kind == PUBACK for kind, _ in seen))
            wait_for(lambda: heard(other, seen, owner.name), 1)
    assert [body for kind, body in seen if kind >> 4 == 3] == []
    with bare(owner.server.broker[1], thief.credentials) as client:
        client.send(connect("", clean=True))
        assert client.packet() == (CONNACK, b"\x00\x00")
    owner.deliver()


@pytest.mark.parametrize("count", [200, pytest.param(3000, marks=pytest.mark.trial)])
def test_a_storm_of_connections_without_a_certificate_keeps_nobody_out(
    server: Server, operator: Operator, owner: Party, count: int
) -> None:
    """Silent, talking nonsense, or with TLS that shows no certificate: at the broker and at the API."""
    ports = (server.broker[1], int(server.url.rpartition(":")[2]))
    with contextlib.ExitStack() as stack:
        for number in range(count):
            for port in ports:
                try:
                    peer = stack.enter_context(
                        socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.9", 0))
                    )
                except OSError:
                    continue
                with contextlib.suppress(OSError):
                    peer.sendall((b"", b"\x16\x03\x01\x02\x00\x01", os.urandom(64), connect("x"))[number % 4])
            if number % 20 == 0:
                with (
                    contextlib.suppress(OSError),
                    bare(ports[0], None, owner.credentials.authority) as client,
                ):
                    client.send(connect("nobody"))
        began = time.monotonic()
        owner.deliver(60)
        assert operator.get("/v1/health")["ready"]["ready"], time.monotonic() - began
