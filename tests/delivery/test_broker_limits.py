"""Kinds 17 and 18 on the whole road: a broker's limits are kept to, and what it refuses was not sent."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.identity import Identity
from edge_runtime.protocol.topics import Channel, Topic
from sim.road import Device, Server
from tests.rigs.mqtt_tap import MqttTap
from tests.rigs.roads import (
    ONE,
    Stored,
    a_device,
    assert_sums,
    broker_pid,
    logs,
    make_server,
    put,
    settled,
    status,
    wait_for,
)
from tests.rigs.submitter import approved

_NARROW = {"max_inflight_messages": 3, "max_packet_size": 6000}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "database", ["postgresql", pytest.param("sqlite", marks=pytest.mark.trial)], ids=lambda kind: kind
)
def test_17_a_small_receive_maximum_and_small_packets_are_kept_to(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, database: str
) -> None:
    server = make_server(request, tmp_path, ("mosquitto", database), mosquitto_limits=_NARROW)
    server.start()
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        taps: list[MqttTap] = []

        def prepare(device: Device) -> None:
            identity = Identity.load(device.state)
            assert identity is not None
            taps.append(stack.enter_context(MqttTap(server.broker, server.data, identity, hold_s=0.1)))
            device.cable.target = ("localhost", taps[0].port)

        device = stack.enter_context(a_device(server, tmp_path / name, name, prepare=prepare))
        keys = put(device, [approved(number % 4) for number in range(300)])
        settled(server, device)
        seen = taps[0].seen
        assert seen.connections == 1, logs(server, device)  # put out for nothing
        assert 1 < seen.most_in_flight <= _NARROW["max_inflight_messages"]
        assert seen.largest <= _NARROW["max_packet_size"]
        sums = assert_sums(server, device, keys)
        assert sums.device.ledger.delivered == len(keys)


class Permissions:
    """What a broker lets a device publish, taken away and given back behind the server's back.

    The server's head, which would write the file anew, is stopped meanwhile; broker and ingest work on.
    """

    def __init__(self, server: Server, device: str) -> None:
        self._server, self._topics = (
            server,
            [str(Topic(device, channel)) for channel in Channel if channel.is_events],
        )
        is_nats = server.mosquitto is None
        self._file = server.data / ("broker/nats.conf" if is_nats else "external/access.acl")
        self._log = server.data / "broker/nats.log" if server.mosquitto is None else server.mosquitto.log
        self._word = "Reloaded server configuration" if is_nats else "Reloading config"
        self._usual = self._file.read_text()

    @contextlib.contextmanager
    def without_events(self) -> Iterator[None]:
        """The device may do everything but publish events."""
        os.kill(self._server.process.pid, signal.SIGSTOP)
        try:
            text = self._usual
            for topic in self._topics:
                subject = topic.replace("/", ".")
                text = text.replace(f"topic write {topic}\n", "")
                text = re.sub(rf'"{re.escape(subject)}", ', "", text)
            assert text != self._usual
            self._tell(text)
            yield
        finally:
            self._tell(self._usual)
            os.kill(self._server.process.pid, signal.SIGCONT)

    def _tell(self, text: str) -> None:
        before = self._log.read_text(errors="replace").count(self._word)
        self._file.write_text(text)
        os.kill(broker_pid(self._server), signal.SIGHUP)
        assert wait_for(lambda: self._log.read_text(errors="replace").count(self._word) > before)


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_18_what_the_broker_refuses_was_not_sent_and_goes_later(
    server: Server, name: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        taps: list[MqttTap] = []

        def prepare(device: Device) -> None:
            identity = Identity.load(device.state)
            assert identity is not None
            taps.append(stack.enter_context(MqttTap(server.broker, server.data, identity)))
            device.cable.target = ("localhost", taps[0].port)

        device = stack.enter_context(a_device(server, tmp_path / name, name, prepare=prepare))
        keys = put(device, [approved()])
        settled(server, device)
        with Permissions(server, name).without_events():
            bundles = taps[0].seen.bundles
            keys += put(device, [approved(number % 4) for number in range(40)])
            assert wait_for(lambda: taps[0].seen.bundles > bundles)
            if server.mosquitto is not None:  # the older protocol of the other broker has no word for no
                assert wait_for(lambda: taps[0].seen.refused > 0), logs(server, device)
            assert not wait_for(lambda: _queued(device) != 40, 2.0)
            assert sum(Stored.read(server, name).keys.values()) == 1
        sums = assert_sums(server, device, keys)
        assert sums.device.ledger.delivered == len(keys)


def _queued(device: Device) -> int:
    found = status(device)
    return -1 if found is None else found.ledger.queued
