"""Both brokers enforce the same permissions, survive a kill -9 with what they acknowledged, and obey at once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rigs.brokers import KINDS, Broker, accepts, connected, running_broker, wait_until
from tests.rigs.pki import Pki

DEVICES = ("dev-1", "dev-2")


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with running_broker(request.param, tmp_path, DEVICES) as broker:
        yield broker


def test_a_device_writes_up_and_reads_down_of_its_own_alone(broker: Broker) -> None:
    with (
        connected(broker, "fleet-ingest") as server,
        connected(broker, "dev-1") as one,
        connected(broker, "dev-2") as two,
    ):
        assert server.subscribe("fleet/v1/+/up/#")
        assert server.subscribe("fleet/v1/+/presence")
        assert one.subscribe("fleet/v1/dev-1/down/#")
        granted = two.subscribe("fleet/v1/dev-1/down/#")
        assert granted is (broker.kind == "mosquitto")  # it grants every filter and delivers nothing
        assert one.publish("fleet/v1/dev-1/up/ev/1", b"own")
        assert one.publish("fleet/v1/dev-1/presence", b"here", retain=True)
        assert wait_until(lambda: len(server.messages) == 2)
        server.publish("fleet/v1/dev-1/down/rcpt", b"receipt")
        assert wait_until(lambda: one.messages == [("fleet/v1/dev-1/down/rcpt", b"receipt")])
        assert two.messages == []
        one.publish("fleet/v1/dev-2/up/ev/1", b"spoofed", timeout=0.5)
        assert wait_until(lambda: two.publish("fleet/v1/dev-2/up/ev/1", b"own"))
        assert wait_until(lambda: ("fleet/v1/dev-2/up/ev/1", b"own") in server.messages)
        assert b"spoofed" not in [payload for _, payload in server.messages]


def test_what_was_acknowledged_survives_kill_9(broker: Broker) -> None:
    with connected(broker, "dev-1", "dev-1", **persistent(broker)) as one:
        assert one.subscribe("fleet/v1/dev-1/down/#")
    with connected(broker, "fleet-ingest") as server:
        for number in range(20):
            assert server.publish("fleet/v1/dev-1/down/rcpt", b"%d" % number)
        wait_until(lambda: False, 1.2)  # mosquitto writes its database at the end of the second
        broker.kill()
    broker.start()
    with connected(broker, "dev-1", "dev-1", **persistent(broker)) as one:
        assert wait_until(lambda: len(one.messages) >= 20)
        assert [payload for _, payload in one.messages] == [b"%d" % number for number in range(20)]


def persistent(broker: Broker) -> dict[str, object]:
    return {"protocol": 4, "clean_session": False}


def test_only_a_certificate_of_the_authority_that_is_valid_and_known_gets_in(
    broker: Broker, tmp_path: Path
) -> None:
    rogue = Pki(tmp_path / "rogue").device("dev-1")
    rogue = replace(rogue, authority=broker.pki.authority)
    expired, unknown, revoked = (
        broker.pki.expired("dev-1"),
        broker.pki.device("dev-9"),
        broker.pki.device("dev-1"),
    )
    good = broker.parties["dev-1"]
    broker.set_users([good, expired], [revoked])
    assert wait_until(lambda: b"eload" in broker.log.read_bytes())
    assert accepts(broker.port, good)
    assert not accepts(broker.port, rogue)
    assert not accepts(broker.port, expired)
    assert not accepts(broker.port, revoked)
    assert not accepts(broker.port, None, authority=broker.pki.authority)
    # mosquitto lets an unknown certificate of the authority in, and lets it do nothing
    assert accepts(broker.port, unknown) is (broker.kind == "mosquitto")
    with connected(broker, "fleet-ingest") as server, connected(broker, good) as one:
        assert server.subscribe("fleet/v1/+/up/#")
        if broker.kind == "mosquitto":
            with connected(broker, unknown) as stranger:
                stranger.publish("fleet/v1/dev-9/up/health", b"stranger", timeout=1)
        assert one.publish("fleet/v1/dev-1/up/health", b"known")
        assert wait_until(lambda: bool(server.messages))
        assert server.messages == [("fleet/v1/dev-1/up/health", b"known")]


FORBIDDEN = (
    "#",
    "+/#",
    "fleet/v1/+/down/#",
    "fleet/v1/dev-1/#",
    "fleet/v1/dev-1/up/#",
    "fleet/v1/dev-2/up/#",
    "$MQTT/#",
    "$MQTT/sub/#",
    "$MQTT/msgs/#",
    "$MQTT/rmsgs/#",
    "$JS/#",
    "$SYS/#",
    "_INBOX/#",
    "$share/x/fleet/v1/dev-1/down/#",
)


def test_a_stolen_key_reads_nothing_of_others_nor_of_the_brokers_insides(broker: Broker) -> None:
    with (
        connected(broker, "fleet-ingest") as server,
        connected(broker, "dev-1") as one,
        connected(broker, "dev-2") as thief,
    ):
        assert one.subscribe("fleet/v1/dev-1/down/#")
        granted = [topic for topic in FORBIDDEN for qos in (0, 1) if thief.subscribe(topic, qos)]
        if broker.kind == "nats":
            assert granted == []
        server.publish("fleet/v1/dev-1/down/desired", b"secret", retain=True)
        one.publish("fleet/v1/dev-1/up/ev/1", b"secret")
        one.publish("fleet/v1/dev-1/presence", b"secret", retain=True)
        assert wait_until(lambda: one.messages == [("fleet/v1/dev-1/down/desired", b"secret")])
        assert thief.messages == []
    with connected(broker, "dev-2") as thief:  # what is retained does not come later either
        for topic in ("fleet/v1/dev-1/down/#", "fleet/v1/+/presence", "#"):
            thief.subscribe(topic)
        with connected(broker, "dev-1") as one:
            assert one.subscribe("fleet/v1/dev-1/down/#")
            assert wait_until(lambda: bool(one.messages))
        assert thief.messages == []


def test_a_stolen_key_writes_nothing_for_others_nor_into_the_brokers_insides(broker: Broker) -> None:
    with (
        connected(broker, "fleet-ingest") as server,
        connected(broker, "dev-1") as one,
        connected(broker, "dev-2") as thief,
    ):
        assert server.subscribe("fleet/v1/+/up/#")
        assert server.subscribe("fleet/v1/+/presence")
        assert one.subscribe("fleet/v1/dev-1/down/#")
        for topic in (
            "fleet/v1/dev-1/up/ev/3",
            "fleet/v1/dev-1/presence",
            "fleet/v1/dev-1/down/cmd",
            "fleet/v1/dev-2/down/cmd",
            "fleet/v1/dev-2/up/anything/else",
            "$JS/API/STREAM/PURGE/$MQTT_msgs",
            "$JS/API/STREAM/DELETE/$MQTT_sess",
            "$MQTT/msgs/fleet/v1/dev-1/down/cmd",
            "$MQTT/rmsgs/fleet/v1/dev-1/down/cmd",
            "$MQTT/sub/x",
        ):
            thief.publish(topic, b"{}", retain=True, timeout=0.5)
        assert thief.publish("fleet/v1/dev-2/up/health", b"own")
        server.publish("fleet/v1/dev-1/down/cmd", b"real")
        assert wait_until(lambda: bool(server.messages) and bool(one.messages))
        assert server.messages == [("fleet/v1/dev-2/up/health", b"own")]
        assert one.messages == [("fleet/v1/dev-1/down/cmd", b"real")]


def test_a_session_taken_by_its_client_id_gives_its_messages_to_nobody_else(broker: Broker) -> None:
    """Whoever guesses a client id takes the session over, and still reads nothing."""
    with connected(broker, "dev-1", "known-id", **persistent(broker)) as one:
        assert one.subscribe("fleet/v1/dev-1/down/#")
    with connected(broker, "fleet-ingest") as server:
        for number in range(5):
            assert server.publish("fleet/v1/dev-1/down/cmd", b"secret %d" % number)
        with connected(broker, "dev-2", "known-id", **persistent(broker)) as thief:
            assert server.publish("fleet/v1/dev-1/down/cmd", b"secret at last")
            assert thief.publish(
                "fleet/v1/dev-2/up/health", b"x"
            )  # a round trip: deliveries would have come before
            wait_until(lambda: bool(thief.messages), 0.5)
            assert thief.messages == []
