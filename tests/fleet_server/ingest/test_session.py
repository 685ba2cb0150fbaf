"""The MQTT session with real brokers: it finds the version, comes back, and confuses no packet numbers."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge_runtime.clock import SystemClock
from edge_runtime.protocol.enrolment import BrokerAddress
from fleet_server.ingest.client import without_properties
from fleet_server.ingest.parcels import Arrival
from fleet_server.ingest.session import NeedsMqtt5, Session, SessionSettings, Ticket, end_loop
from tests.rigs.bare_mqtt import bare, length, packet, text
from tests.rigs.brokers import KINDS, Broker, connected, running_broker
from tests.rigs.ingest_process import wait_for

UP, RECEIPT, COMMAND = "fleet/v1/dev-1/up/ev/0", "fleet/v1/dev-1/down/rcpt", "fleet/v1/dev-1/down/cmd"


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with running_broker(request.param, tmp_path / "broker", ["dev-1"]) as started:
        yield started


class Rig:
    """A session and what it delivered."""

    def __init__(self, broker: Broker, party: str = "fleet-ingest", **settings: object) -> None:
        self.arrivals: list[Arrival] = []
        self.is_full = self.is_broken = False
        self.session = Session(
            SessionSettings(
                BrokerAddress(host=broker.host, port=broker.port),
                broker.parties[party].client_context(),
                "fleet-ingest-test",
                **settings,  # type: ignore[arg-type]
            ),
            SystemClock(),
            self._deliver,
        )

    def payloads(self) -> list[bytes]:
        return [arrival.payload for arrival in self.arrivals]

    def _deliver(self, arrival: Arrival) -> bool:
        if self.is_broken:
            self.is_broken = False
            raise KeyError("what a device sent")
        if not self.is_full:
            self.arrivals.append(arrival)
        return not self.is_full


@pytest.fixture
def rig(broker: Broker) -> Iterator[Rig]:
    made = Rig(broker)
    made.session.start()
    assert made.session.wait_up(15)
    yield made
    made.session.stop()


def test_it_finds_the_version_that_the_broker_speaks(rig: Rig, broker: Broker) -> None:
    assert rig.session.speaks_mqtt5 == broker.speaks_mqtt5
    assert rig.session.counts.connects == 1


def test_what_is_not_acknowledged_comes_again_and_an_old_ticket_does_nothing(
    rig: Rig, broker: Broker
) -> None:
    session = rig.session
    with connected(broker, "dev-1") as device:
        assert device.publish(UP, b"first")
        assert wait_for(lambda: rig.arrivals)
        old = rig.arrivals[0].ticket
        assert isinstance(old, Ticket)
        broker.kill()
        assert wait_for(lambda: not session.is_up)
        assert session.publish(RECEIPT, b"x") is False
        assert session.publish_confirmed(COMMAND, b"x", 60, 1) is False
        session.acknowledge(old)  # nobody is there: nothing happens
        broker.start()
        assert session.wait_up(20)
    with connected(broker, "dev-1") as device:
        assert device.publish(UP, b"second")
        assert wait_for(lambda: any(arrival.payload == b"second" for arrival in rig.arrivals))
        session.acknowledge(old)
        new = rig.arrivals[-1].ticket
        assert isinstance(new, Ticket)
        assert new.connection > old.connection
        session.acknowledge(new)


def test_a_receipt_and_a_command_reach_their_device(rig: Rig, broker: Broker) -> None:
    with connected(broker, "dev-1") as device:
        assert device.subscribe("fleet/v1/dev-1/down/#")
        assert rig.session.publish(RECEIPT, b"receipt")
        assert rig.session.publish_confirmed(COMMAND, b"command", 60, 5)
        assert wait_for(lambda: len(device.messages) == 2)
        assert device.messages == [(RECEIPT, b"receipt"), (COMMAND, b"command")]


def test_a_command_that_the_broker_refuses_was_not_sent(tmp_path: Path) -> None:
    """paho calls it published; MQTT 3.1.1 has no word for a refusal, so this is of MQTT 5 alone."""
    with running_broker("mosquitto", tmp_path / "broker", ["dev-1"]) as broker:
        rig = Rig(broker)
        rig.session.start()
        assert rig.session.wait_up(15)
        assert rig.session.publish_confirmed("fleet/v1/dev-1/up/ev/0", b"x", 60, 5) is False
        assert rig.session.counts.refused_publishes == 1
        rig.session.stop()


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Broker]:
    with running_broker("mosquitto", tmp_path / "broker", ["dev-1"]) as started:
        yield started


def _up(rig: Rig) -> Session:
    rig.session.start()
    assert rig.session.wait_up(15)
    return rig.session


def test_properties_that_paho_refuses_do_not_keep_the_server_away(mosquitto: Broker) -> None:
    """U+FEFF is text to the broker and an error to paho; retained, it would come with every subscription."""
    topic, odd = "fleet/v1/dev-1/presence", b"\x26" + text("\ufeff") + text("\ufeff")
    with bare(mosquitto.port, mosquitto.parties["dev-1"]) as thief:
        body = text("thief") + b""
        thief.send(packet(0x10, text("MQTT") + b"\x05\x02\x00\x14\x00" + body))
        answer = thief.packet()
        assert answer is not None
        assert answer[0] == 0x20
        thief.send(packet(0x33, text(topic) + b"\x00\x01" + length(len(odd)) + odd + b"retained"))
        answer = thief.packet()
        assert answer is not None
        assert answer[0] == 0x40
        rig = Rig(mosquitto)
        session = _up(rig)
        assert wait_for(lambda: rig.payloads() == [b"retained"])
        thief.send(packet(0x30, text(topic) + length(len(odd)) + odd + b"at once"))
        assert wait_for(lambda: rig.payloads() == [b"retained", b"at once"])
    assert [arrival.topic for arrival in rig.arrivals] == [topic] * 2
    assert (session.counts.connects, session.counts.losses) == (1, 0)
    session.stop()


@pytest.mark.parametrize("size", [0, 1, 127, 128, 20_000])
@pytest.mark.parametrize("number", [b"", b"\x00\x07"])
def test_properties_are_skipped_by_their_length(number: bytes, size: int) -> None:
    head, tail = text("fleet/v1/dev-1/presence") + number, b"payload"
    found = without_properties(bytearray(head + length(size) + bytes(size) + tail), numbered=bool(number))
    assert found == head + b"\0" + tail


@pytest.mark.parametrize(
    "odd", [b"", b"\x00", b"\x00\x01a", b"\xff\xff", b"\x00\x01a\x05xy", b"\x00\x01a\xff\xff\xff\xff\x7f"]
)
def test_lengths_that_do_not_fit_are_left_to_paho(odd: bytes) -> None:
    assert without_properties(bytearray(odd), numbered=False) == odd


def test_an_error_in_pahos_thread_ends_the_connection_and_another_is_made(
    mosquitto: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = Rig(mosquitto)
    session = _up(rig)
    rig.is_broken = True
    with connected(mosquitto, "dev-1") as device:
        device.publish(UP, b"odd")
        assert wait_for(lambda: session.counts.connects == 2)
        assert device.publish(UP, b"next")
        assert wait_for(lambda: b"next" in rig.payloads())
    assert session.counts.losses == 1
    assert session.counts.last_reason == "KeyError"
    assert "what a device sent" not in "".join(capsys.readouterr())
    session.stop()


def test_what_was_left_out_does_not_fill_the_brokers_window_for_ever(mosquitto: Broker) -> None:
    rig = Rig(mosquitto, receive_maximum=2)
    session = _up(rig)
    session.redeliver()
    rig.is_full = True
    with connected(mosquitto, "dev-1") as device:
        assert device.publish(UP, b"first")
        assert device.publish(UP, b"second")
        assert wait_for(lambda: session._left_out == 1)
        rig.is_full = False
        assert device.publish(UP, b"third")
        session.redeliver()
        assert wait_for(lambda: session.counts.connects == 2)
        for number in range(5):
            assert device.publish(UP, b"later %d" % number)
            assert wait_for(lambda number=number: b"later %d" % number in rig.payloads())  # type: ignore[misc]
            session.acknowledge(rig.arrivals[-1].ticket)
    session.redeliver()
    assert session.counts.connects == 2, "nothing more was left out"
    session.stop()


def test_a_refusal_is_not_remembered_for_another_connections_message(mosquitto: Broker) -> None:
    rig = Rig(mosquitto)
    session = _up(rig)
    assert session.publish_confirmed("fleet/v1/dev-1/up/ev/0", b"x", 60, 0) is False
    assert wait_for(lambda: session.counts.refused_publishes == 1)
    mosquitto.restart()
    assert wait_for(lambda: session.counts.connects == 2)
    assert session.publish_confirmed(COMMAND, b"x", 60, 5) is True  # under the same number
    session.stop()


def test_without_a_broker_it_waits_and_ends_when_told(broker: Broker) -> None:
    broker.stop()
    rig = Rig(broker)
    rig.session.start()
    assert not rig.session.wait_up(0.5)
    rig.session.stop()
    assert rig.session.counts.connects == 0


def test_it_does_not_wait_for_a_broker_that_takes_the_connection_and_never_answers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet_server.ingest.session._CONNECT_S", 600.0)
    mine = broker.pki.server()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(mine.certificate, mine.key)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(15)
        broker.host, broker.port = "localhost", silent.getsockname()[1]
        rig = Rig(broker)
        rig.session.start()
        taken, _ = silent.accept()
        with tls.wrap_socket(taken, server_side=True) as answered:
            assert answered.recv(2), "its CONNECT"
            rig.session.stop()
            assert rig.session._thread is not None
            assert not rig.session._thread.is_alive()


def test_several_workers_need_mqtt_5(broker: Broker) -> None:
    with pytest.raises(NeedsMqtt5, match="workers to 1"):
        Rig(broker, protocol="3.1.1", alone=False)


def test_a_thread_of_paho_that_ends_while_it_is_waited_for_does_no_harm() -> None:
    looks = iter([object(), object(), None])  # there at the first look and the second, gone at the third

    class Leaving(mqtt.Client):
        _thread = property(lambda _: next(looks), lambda *_: None)

    end_loop(Leaving(CallbackAPIVersion.VERSION2))
    assert next(looks, "used up") == "used up"
