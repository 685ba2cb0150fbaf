"""Both brokers enforce the same permissions, survive a kill -9 with what they acknowledged, and obey at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.brokers import KINDS, Broker, connected, running_broker, wait_until

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
