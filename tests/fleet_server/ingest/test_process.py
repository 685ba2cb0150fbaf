"""The real process with real brokers and both databases: what is receipted is in the table, once, whatever dies."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from edge_runtime.protocol.delivery import PresenceState
from edge_runtime.protocol.vocabulary import Fate
from fleet_server.storage import Store, open_store
from fleet_server.storage.device_tables import PresenceRow
from fleet_server.storage.event_tables import DeadLetterRow, EpochRow, EventRow, FateCountRow, SettledRow
from tests.rigs.brokers import Broker, connected, running_broker
from tests.rigs.databases import migrated_database
from tests.rigs.deliveries import DeviceRig
from tests.rigs.ingest_process import IngestProcess, running, wait_for
from tests.rigs.sending_device import SendingDevice

DEVICES = ("dev-1", "dev-2", "dev-3")


PAIRS = [("nats", "sqlite"), ("mosquitto", "postgresql")]
OTHER_PAIRS = [("nats", "postgresql"), ("mosquitto", "sqlite")]


@pytest.fixture(
    params=[
        *(pytest.param(pair, id="-".join(pair)) for pair in PAIRS),
        *(pytest.param(pair, id="-".join(pair), marks=pytest.mark.trial) for pair in OTHER_PAIRS),
    ]
)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A broker and a database: each of them in the short form, every combination in the trials."""
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def broker(pair: tuple[str, str], tmp_path: Path) -> Iterator[Broker]:
    with running_broker(pair[0], tmp_path / "broker", DEVICES) as started:
        yield started


@pytest.fixture
def store(pair: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(migrated_database(request, tmp_path, pair[1]))
    yield opened
    opened.close()


@pytest.fixture
def process(store: Store, broker: Broker, tmp_path: Path) -> Iterator[IngestProcess]:
    made = IngestProcess(tmp_path / "data", broker, _url(store))
    with running(made):
        yield made


def _url(store: Store) -> str:
    return store.engine.url.render_as_string(hide_password=False).replace("+psycopg", "")


def _device(broker: Broker, name: str, count: int, **options: int) -> SendingDevice:
    rig = DeviceRig(name)
    return SendingDevice(broker, rig, rig.items(count), **options)


def _rows(store: Store, **where: object) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(EventRow).filter_by(**where)) or 0


def _assert_all_there(store: Store, *devices: SendingDevice) -> None:
    """Everything that a device was told is delivered is a row, and nothing is there twice."""
    with store.read() as session:
        for device in devices:
            found = list(
                session.scalars(
                    select(EventRow.seq).filter_by(device=device.rig.name, epoch=device.rig.epoch)
                )
            )
            assert len(found) == len(set(found))
            assert set(found) == device.delivered
            row = session.get_one(EpochRow, (device.rig.name, device.rig.epoch))
            assert row.high == device.rig.next - 1
            counts = {
                count.fate: count.count
                for count in session.scalars(select(FateCountRow).filter_by(device=device.rig.name))
            }
            assert counts == {Fate.DELIVERED.value: row.high}
        assert session.scalar(select(func.count()).select_from(SettledRow)) == 0


def test_every_event_is_receipted_and_stored_once(
    process: IngestProcess, store: Store, broker: Broker
) -> None:
    devices = [_device(broker, name, 300).start() for name in DEVICES]
    assert all(device.finish() for device in devices), process.said()
    _assert_all_there(store, *devices)
    assert process.stop() == 0
    assert process.said() == ""


def test_presence_and_dead_letters(process: IngestProcess, store: Store, broker: Broker) -> None:
    rig = DeviceRig("dev-1")
    with connected(broker, "dev-1") as device:
        for message in (rig.presence(2), rig.presence(1, PresenceState.OFFLINE)):
            assert device.publish(*message, retain=True)
        assert device.publish("fleet/v1/dev-1/up/ev/0", b"\xc1" * 100)

    def arrived() -> bool:
        with store.read() as session:
            row = session.get(PresenceRow, "dev-1")
            letters = session.scalar(select(func.count()).select_from(DeadLetterRow))
            return row is not None and row.stale_ignored >= 1 and letters == 1

    assert wait_for(arrived), process.said()
    with store.read() as session:
        found = session.get_one(PresenceRow, "dev-1")
        assert (found.session, found.state) == (2, "online")
    process.kill()
    process.start()  # the retained, stale will comes again
    time.sleep(0.3)
    with store.read() as session:
        assert session.get_one(PresenceRow, "dev-1").state == "online"


def test_nothing_is_acknowledged_before_it_is_committed(
    process: IngestProcess, store: Store, broker: Broker
) -> None:
    """A killed process leaves what it had not committed with the broker or the device; both bring it again."""
    device = _device(broker, "dev-1", 600, window=20).start()
    for _ in range(2):
        assert wait_for(lambda: device.receipts > 0)
        process.kill()
        assert _rows(store) >= len(device.delivered)
        process.start()
    assert device.finish(), process.said()
    _assert_all_there(store, device)


def test_a_broker_that_dies_costs_nothing(process: IngestProcess, store: Store, broker: Broker) -> None:
    device = _device(broker, "dev-1", 400).start()
    assert wait_for(lambda: device.receipts > 0)
    broker.kill()
    time.sleep(0.1)
    broker.start()
    assert device.finish(), process.said()
    _assert_all_there(store, device)


def test_while_the_database_is_away_nothing_is_receipted_and_devices_are_told_to_wait(
    process: IngestProcess, store: Store, broker: Broker, request: pytest.FixtureRequest
) -> None:
    with _database_away(store, request):
        device = _device(broker, "dev-1", 200).start()
        assert wait_for(lambda: 0 in device.credits), process.said()
        time.sleep(0.5)
        assert device.delivered == set()
        assert device.rejected == {}
    assert device.finish(), process.said()
    assert device.credits[-1] > 0
    _assert_all_there(store, device)
    assert "database takes nothing" in process.said()
    assert "takes events again" in process.said()


class _database_away:
    def __init__(self, store: Store, request: pytest.FixtureRequest) -> None:
        self._store, self._request = store, request

    def __enter__(self) -> None:
        self._store.close()
        if self._store.is_sqlite:
            # a second name for a table is enough: every statement of ingest fails, and nothing is lost by it
            self._lock = open_store(_url(self._store)).engine.connect()
            self._lock.exec_driver_sql("ALTER TABLE events RENAME TO events_away")
            self._lock.commit()
        else:
            self._request.getfixturevalue("postgres").stop()

    def __exit__(self, *_: object) -> None:
        if self._store.is_sqlite:
            self._lock.exec_driver_sql("ALTER TABLE events_away RENAME TO events")
            self._lock.commit()
            self._lock.close()
        else:
            self._request.getfixturevalue("postgres").start()


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(("mosquitto", "postgresql"), id="postgresql"),
        pytest.param(("mosquitto", "sqlite"), id="sqlite", marks=pytest.mark.trial),
    ],
)
def test_several_workers_share_the_load(store: Store, broker: Broker, tmp_path: Path) -> None:
    extra = "[ingest]\nworkers = 2\n"
    first = IngestProcess(tmp_path / "data", broker, _url(store), extra=extra, number=1)
    second = IngestProcess(tmp_path / "data", broker, _url(store), extra=extra, number=2)
    with running(first), running(second):
        devices = [_device(broker, name, 300).start() for name in DEVICES]
        wait_for(lambda: devices[0].receipts > 0)
        second.kill()  # its unacknowledged messages are gone with it: devices send them again
        second.start()
        assert all(device.finish() for device in devices), first.said() + second.said()
        assert (first.stop(), second.stop()) == (0, 0)
    _assert_all_there(store, *devices)


def test_several_workers_need_mqtt_5(tmp_path: Path) -> None:
    with running_broker("nats", tmp_path / "broker", DEVICES) as broker:
        url = f"sqlite:///{tmp_path}/fleet.db"
        process = IngestProcess(tmp_path / "data", broker, url, extra="[ingest]\nworkers = 2\n")
        process.start(wait=False)
        assert process.wait() == 2
        assert "set ingest.workers to 1" in process.said()


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (lambda data: (data / "settings.toml").unlink(), 2, "fleet init"),
        (lambda data: (data / "tls" / "ingest.pem").unlink(), 1, "certificate of ingest"),
        (lambda data: (data / "tls" / "ingest.key").write_text("x"), 1, "certificate of ingest"),
        (lambda data: (data / "settings.toml").write_text("x = 1"), 2, "settings.toml: x"),
    ],
    ids=["no settings", "no certificate", "bad key", "bad settings"],
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, spoil: Callable[[Path], object], code: int, said: str
) -> None:
    with running_broker("mosquitto", tmp_path / "broker", DEVICES) as broker:
        process = IngestProcess(tmp_path / "data", broker, f"sqlite:///{tmp_path}/fleet.db")
    spoil(tmp_path / "data")
    process.start(wait=False)
    assert process.wait() == code
    lines = process.said().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


@pytest.mark.trial
def test_twenty_kills_at_random(process: IngestProcess, store: Store, broker: Broker) -> None:
    chance = random.Random(20)
    devices = [_device(broker, name, 4000).start() for name in DEVICES]
    for _ in range(20):
        time.sleep(chance.uniform(0.05, 0.6))
        process.kill()
        process.start()
    assert all(device.finish(300) for device in devices), process.said()
    _assert_all_there(store, *devices)
