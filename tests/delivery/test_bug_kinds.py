"""Kinds of loss that other systems reported, tried on the whole road; README.md says which number is tested where.

The tests of one server share a device: its sums must come out after each of them.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from edge_runtime.outbox import Submission
from fleet_server.operators.status import DeviceStatus
from sim.road import Device, Server
from tests.rigs.roads import (
    ONE,
    Stored,
    Sums,
    a_device,
    assert_sums,
    broker_pid,
    children,
    health,
    logs,
    make_server,
    presence,
    put,
    settled,
    status,
    wait_for,
)
from tests.rigs.submitter import approved


class Road:
    """A device of a server, and every key that its outbox acknowledged."""

    def __init__(self, server: Server, device: Device) -> None:
        self.server, self.device = server, device
        self.keys: list[bytes] = []

    def put(self, events: Sequence[Submission]) -> list[bytes]:
        accepted = put(self.device, events)
        self.keys += accepted
        return accepted

    def sums(self) -> Sums:
        return assert_sums(self.server, self.device, self.keys, ends=False)

    def online(self) -> bool:
        return self.presence().presence == "online"

    def presence(self) -> DeviceStatus:
        return presence(self.server, self.device.name)

    def kill_broker(self) -> None:
        if self.server.mosquitto is not None:
            self.server.mosquitto.kill()
            self.server.mosquitto.start(self.server.data)
        else:
            os.kill(broker_pid(self.server), signal.SIGKILL)

    def signal_ingest(self, number: signal.Signals) -> None:
        for process in children(self.server, "fleet_server.ingest"):
            process.send_signal(number)


@pytest.fixture(scope="module")
def road(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    with a_device(server, tmp_path_factory.mktemp("road"), "kinds", will_delay_s=1) as device:
        found = Road(server, device)
        found.put([approved()])
        settled(server, device)
        yield found


def test_01_09_what_the_broker_acknowledged_and_nobody_committed_is_not_delivered(road: Road) -> None:
    road.signal_ingest(signal.SIGSTOP)
    before = status(road.device)
    keys = road.put([approved(number % 4) for number in range(20)])
    assert wait_for(lambda: (found := status(road.device)) is not None and found.leased == 20)
    time.sleep(1.0)  # the broker has long acknowledged them
    found = status(road.device)
    assert found is not None
    assert before is not None
    assert (found.ledger.delivered, found.ledger.queued) == (before.ledger.delivered, 20)
    road.signal_ingest(signal.SIGKILL)  # with what it may have read and not committed
    road.kill_broker()  # with what it may have kept for ingest
    road.sums()
    assert set(keys) <= set(Stored.read(road.server, road.device.name).keys)


def test_04_sessions_and_settings_come_and_go_and_the_queue_stays(road: Road) -> None:
    epoch = status(road.device)
    road.device.cable.cut()
    road.put([approved() for _ in range(50)])
    usual = road.device.uplink.arguments
    for linger in (0, 500):
        road.device.uplink.kill()
        changed = [word.replace('"base_s"', f'"linger_ms": {linger}, "base_s"') for word in usual]
        assert changed != list(usual)
        road.device.uplink.arguments = changed
        road.device.uplink.start()
        road.device.cable.heal()
        time.sleep(0.2)
        road.device.cable.cut()
    road.device.uplink.arguments = usual
    road.device.cable.heal()
    sums = road.sums()
    assert epoch is not None
    assert sums.device.epoch == epoch.epoch
    assert len(sums.balance) == 1


def test_07_presence_is_right_for_who_looks_later(road: Road) -> None:
    assert wait_for(road.online)
    road.device.uplink.kill()
    assert wait_for(lambda: not road.online(), 30)
    assert road.presence().reason == "connection_lost"
    road.device.uplink.start()
    assert wait_for(road.online)
    road.device.uplink.kill()
    road.device.uplink.start()  # the will of the session before comes after the birth of this one
    assert wait_for(road.online)
    time.sleep(2.0)
    assert road.online()
    road.device.uplink.stop()
    assert wait_for(lambda: road.presence().reason == "stopped")
    road.device.uplink.start()
    assert wait_for(road.online)


def test_08_what_expires_while_the_broker_is_away_is_not_delivered_late(road: Road) -> None:
    settled(road.server, road.device)
    before = status(road.device)
    road.device.cable.cut()
    late = road.put([approved(ttl_s=1.0) for _ in range(5)])
    road.put([approved() for _ in range(5)])
    road.kill_broker()
    time.sleep(1.5)
    road.device.cable.heal()
    sums = road.sums()
    assert before is not None
    assert sums.device.ledger.expired - before.ledger.expired == 5
    assert not set(late) & set(sums.stored.keys)
    assert sums.balance[0].settled["expired"] == sums.device.ledger.expired


def test_10_11_a_full_window_on_a_dead_link_is_sent_again(road: Road) -> None:
    road.signal_ingest(signal.SIGSTOP)
    try:
        road.put([approved(number % 4) for number in range(1500)])
        time.sleep(1.0)
        road.device.cable.freeze()
        road.put([approved(3) for _ in range(10)])  # published into a link that is dead and not known to be
        time.sleep(1.0)
        road.device.cable.cut()
        road.device.cable.heal()
    finally:
        road.signal_ingest(signal.SIGCONT)
    road.sums()


def test_14_an_event_that_is_always_refused_holds_up_nobody(road: Road) -> None:
    settled(road.server, road.device)
    before = status(road.device)
    poison = [approved(3) for _ in range(3)]
    bad = [
        Submission(
            event.key, event.kind, event.severity, event.ttl_ns, b"\x81\xa1x\x01", receipt=event.receipt
        )
        for event in poison
    ]
    road.put([*bad, *(approved() for _ in range(40))])
    sums = road.sums()
    assert before is not None
    assert sums.device.ledger.rejected - before.ledger.rejected == 3
    assert sums.device.dead_letters == 3
    assert sums.balance[0].settled["rejected"] == sums.device.ledger.rejected
    assert sum(health(road.server)["dead_letters"].values()) == 3


def test_the_books_of_all_of_it_balance_for_an_operator(road: Road) -> None:
    assert_sums(road.server, road.device, road.keys)


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_02_03_a_damaged_queue_is_put_aside_and_what_can_be_read_is_delivered(
    server: Server, name: str, tmp_path: Path
) -> None:
    with a_device(server, tmp_path / name, name) as device:
        keys = put(device, [approved()])
        settled(server, device)
        device.cable.cut()
        keys += put(device, [approved(number % 4) for number in range(300)])
        device.uplink.kill()
        device.outbox.stop()
        _scribble(device.state.outbox / "outbox.db")
        device.outbox.start()
        found = status(device)
        assert found is not None
        assert found.ledger.balances
        assert found.quarantined, "the damaged file is gone"
        assert found.ledger.lost > 0
        assert found.ledger.queued > 0
        device.uplink.start()
        device.cable.heal()
        sums = assert_sums(server, device, keys)
        assert len(sums.stored.keys) + sums.device.ledger.lost == len(keys)
        assert sums.balance[-1].ledger.lost == sums.device.ledger.lost


def _scribble(path: Path) -> None:
    """Damage pages in the middle of a file."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for part in (0.4, 0.5, 0.6):
            file.seek(int(size * part) // 4096 * 4096)
            file.write(os.urandom(4096))


@pytest.mark.trial
@pytest.mark.timeout(600)
def test_15_a_member_of_a_shared_subscription_dies_again_and_again(
    request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    server = make_server(request, tmp_path, ("mosquitto", "postgresql"), workers=3)
    server.start()
    try:
        with a_device(server, tmp_path / name, name) as device:
            keys = []
            for number in range(10):
                keys += put(device, [approved(number % 4) for _ in range(100)])
                children(server, "fleet_server.ingest")[number % 3].kill()
                assert wait_for(lambda: len(children(server, "fleet_server.ingest")) == 3), logs(
                    server, device
                )
            assert_sums(server, device, keys)
    finally:
        server.stop()
