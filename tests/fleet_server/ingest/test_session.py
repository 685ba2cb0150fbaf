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
from fleet_server.ingest.parcels import Arrival
from fleet_server.ingest.session import NeedsMqtt5, Session, SessionSettings, Ticket, end_loop
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
        self.session = Session(
            SessionSettings(
                BrokerAddress(host=broker.host, port=broker.port),
                broker.parties[party].client_context(),
                "fleet-ingest-test",
                **settings,  # type: ignore[arg-type]
            ),
            SystemClock(),
            self.arrivals.append,
        )


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
