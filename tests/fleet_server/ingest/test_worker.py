"""The loop with the network replaced: what follows what, how much may come, and what happens in an outage."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from edge_runtime.clock import SystemClock
from edge_runtime.protocol.delivery import Receipt, Rejection, RejectionCode
from fleet_server.ingest import Answer, Arrival, Committed, Committer, Limits, Rules
from fleet_server.ingest.intake import Intake
from fleet_server.ingest.metrics import IngestMetrics, collected, remove_snapshot, write_snapshot
from fleet_server.ingest.parcels import Parcel
from fleet_server.ingest.receipts import credit, receipts
from fleet_server.ingest.worker import Worker
from fleet_server.settings import IngestSettings
from fleet_server.storage import Store, open_store, upgrade
from fleet_server.storage.event_tables import EventRow
from tests.rigs.deliveries import DeviceRig
from tests.rigs.ingest_process import wait_for


class Outlet:
    """Keeps what left, in order."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.redelivered_at: list[int] = []  # acknowledgements before it

    def publish(self, topic: str, payload: bytes) -> bool:
        self.log.append((topic, Receipt.decode(payload)))
        return True

    def acknowledge(self, ticket: object) -> None:
        self.log.append(("ack", ticket))

    def redeliver(self) -> None:
        self.redelivered_at.append(len(self.acks()))

    def receipts(self) -> list[Receipt]:
        return [found for name, found in self.log if name != "ack"]

    def acks(self) -> list[object]:
        return [found for name, found in self.log if name == "ack"]


class Flaky:
    """A committer that refuses while it is told to."""

    def __init__(self, real: Committer) -> None:
        self._real, self.is_away, self.tried = real, False, 0
        self.batches: list[int] = []

    def commit(self, parcels: list[Parcel], now_ms: int) -> Committed:
        self.tried += 1
        if self.is_away:
            raise OperationalError("COMMIT", {}, Exception("database or disk is full"))
        self.batches.append(len(parcels))
        return self._real.commit(parcels, now_ms)


class Loop:
    """A running worker."""

    def __init__(self, store: Store, settings: IngestSettings) -> None:
        self.outlet = Outlet()
        self.intake = Intake(settings.queue_messages, settings.queue_bytes)
        self.committer = Flaky(Committer(store, Limits()))
        self.metrics = IngestMetrics(1)
        self.worker = Worker(
            self.intake,
            self.committer,  # type: ignore[arg-type]
            self.outlet,
            rules=Rules(),
            settings=settings,
            clock=SystemClock(),
            metrics=self.metrics,
        )
        self.thread = threading.Thread(target=self.worker.run, daemon=True)
        self._ticket = 0

    def put(self, message: tuple[str, bytes]) -> bool:
        self._ticket += 1
        return self.intake.put(Arrival(*message, SystemClock().monotonic_ns(), self._ticket))

    def stop(self) -> None:
        self.worker.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def make(store: Store) -> Iterator[Callable[..., Loop]]:
    loops: list[Loop] = []

    def build(**settings: Any) -> Loop:
        loops.append(Loop(store, IngestSettings(**settings)))
        return loops[-1]

    yield build
    for loop in loops:
        if loop.thread.is_alive():
            loop.stop()


def test_a_receipt_before_its_acknowledgement(make: Callable[..., Loop]) -> None:
    loop, rig = make(), DeviceRig()
    for _ in range(3):
        loop.put(rig.bundle(*rig.items(2)))
    loop.thread.start()
    assert wait_for(lambda: len(loop.outlet.acks()) == 3)
    names = [name for name, _ in loop.outlet.log]
    assert names == ["fleet/v1/dev-1/down/rcpt", "ack", "ack", "ack"]
    assert loop.outlet.receipts()[0].high == 6
    assert loop.outlet.receipts()[0].credit == 20


def test_transactions_are_bounded(make: Callable[..., Loop]) -> None:
    loop, rig = make(batch_events=50), DeviceRig()
    for _ in range(10):
        loop.put(rig.bundle(*rig.items(20)))
    loop.thread.start()
    assert wait_for(lambda: len(loop.outlet.acks()) == 10)
    assert sum(loop.committer.batches) == 10
    assert max(loop.committer.batches) <= 3


def test_in_an_outage_nothing_is_acknowledged_and_everybody_is_told_once(
    make: Callable[..., Loop], store: Store
) -> None:
    loop, rigs = make(), [DeviceRig("dev-1"), DeviceRig("dev-2")]
    loop.committer.is_away = True
    loop.put(rigs[0].bundle(rigs[0].item()))
    loop.thread.start()
    assert wait_for(lambda: loop.committer.tried >= 2)
    loop.put(rigs[1].bundle(rigs[1].item()))
    loop.put(rigs[0].bundle(rigs[0].item()))
    assert wait_for(lambda: len(loop.outlet.receipts()) == 2)
    assert wait_for(lambda: loop.committer.tried >= 3)
    assert loop.outlet.acks() == []
    assert [(found.credit, found.high) for found in loop.outlet.receipts()] == [(0, 0), (0, 0)]
    assert loop.intake.waiting == 3

    loop.committer.is_away = False
    assert wait_for(lambda: len(loop.outlet.acks()) == 3)
    assert {found.high for found in loop.outlet.receipts()[2:]} == {2, 1}
    assert all(found.credit for found in loop.outlet.receipts()[2:])
    assert loop.intake.waiting == 0


@pytest.mark.parametrize("ill", ["max_page_count = 1", "query_only = ON"], ids=["full", "read-only"])
def test_a_full_or_read_only_disk_loses_nothing(tmp_path: Path, ill: str) -> None:
    """SQLite's own words for both, from its own code."""
    store = open_store(f"sqlite:///{tmp_path}/fleet.db")
    upgrade(store)
    store.engine.dispose()
    is_ill = threading.Event()
    is_ill.set()

    def prepare(connection: Any, _record: object) -> None:
        if is_ill.is_set():  # as long as the file is now, and no page more
            connection.execute(f"PRAGMA {ill}").close()

    event.listen(store.engine, "connect", prepare)
    loop, rig = Loop(store, IngestSettings()), DeviceRig()
    for _ in range(5):
        loop.put(rig.bundle(*rig.items(64)))
    loop.thread.start()
    assert wait_for(lambda: loop.committer.tried >= 2)
    assert loop.outlet.acks() == []
    assert [(found.credit, found.high) for found in loop.outlet.receipts()] == [(0, 0)]

    is_ill.clear()
    store.engine.dispose()
    assert wait_for(lambda: len(loop.outlet.acks()) == 5)
    assert loop.outlet.receipts()[-1].high == 320
    loop.stop()
    store.close()


def test_stopped_in_an_outage_it_ends_and_leaves_all_to_the_broker(make: Callable[..., Loop]) -> None:
    loop, rig = make(), DeviceRig()
    loop.committer.is_away = True
    loop.put(rig.bundle(rig.item()))
    loop.thread.start()
    assert wait_for(lambda: loop.committer.tried >= 1)
    loop.stop()
    assert loop.outlet.acks() == []


def test_what_was_taken_is_finished_before_the_end(make: Callable[..., Loop], store: Store) -> None:
    loop, rig = make(), DeviceRig()
    for _ in range(30):
        loop.put(rig.bundle(*rig.items(20)))
    loop.thread.start()
    loop.stop()
    assert len(loop.outlet.acks()) == 30
    with store.read() as session:
        assert session.query(EventRow).count() == 600
    assert loop.put(rig.bundle(rig.item())) is False


def test_a_full_queue_leaves_messages_out_and_says_zero_credit_then_lets_them_go_on(
    make: Callable[..., Loop],
) -> None:
    loop, rig = make(queue_messages=16, receive_maximum=16, batch_events=20), DeviceRig()
    taken = [loop.put(rig.bundle(*rig.items(20))) for _ in range(20)]
    assert taken.count(False) == 4
    assert loop.intake.left_out == 4
    loop.thread.start()
    assert wait_for(lambda: len(loop.outlet.acks()) == 16)
    assert wait_for(lambda: loop.outlet.receipts()[-1].credit > 0)
    assert wait_for(lambda: bool(loop.outlet.redelivered_at))
    assert min(loop.outlet.redelivered_at) > 8, "the queue was more than half full"
    assert loop.outlet.receipts()[0].credit == 0


def test_the_queue_is_bounded_by_bytes() -> None:
    intake = Intake(1000, 1000)
    arrivals = [Arrival("t", bytes(400), 0) for _ in range(5)]
    assert [intake.put(arrival) for arrival in arrivals] == [True, True, True, False, False]
    assert (intake.waiting, intake.waiting_bytes) == (3, 1200)
    got = intake.get(0)
    assert got is not None
    intake.done(got)
    assert intake.put(arrivals[3])


@pytest.mark.parametrize(
    ("waiting", "senders", "expected"),
    [
        (0, 0, 20),
        (0, 10, 20),
        (0, 100, 9),
        (0, 2000, 1),
        (500, 100, 4),
        (899, 1, 1),
        (900, 1, 0),
        (2000, 1, 0),
    ],
)
def test_credit_shares_what_is_free(waiting: int, senders: int, expected: int) -> None:
    assert credit(waiting, 1000, senders, 20) == expected


def test_receipts_are_cut_where_they_would_be_too_long() -> None:
    ranges = tuple((2 * n, 2 * n) for n in range(1, 1201))
    rejected = tuple(
        Rejection(seq=n, key=bytes(16), code=RejectionCode.INVALID, permanent=True, text="x" * 200)
        for n in range(1, 601)
    )
    epoch = "01890000-0000-7000-8000-000000000001"
    parts = list(receipts(Answer("dev-1", epoch, 0, ranges, rejected), 5, 1))
    assert [len(part.accepted) for part in parts] == [512, 512, 176]
    assert [len(part.rejected) for part in parts] == [256, 256, 88]
    assert tuple(found for part in parts for found in part.accepted) == ranges
    assert all(len(part.encode(compress=False)) < 128 * 1024 for part in parts)


def test_numbers_of_several_workers_are_one_exposition(tmp_path: Any) -> None:
    for number in (1, 2):
        metrics = IngestMetrics(number)
        metrics.committed({("event", "delivered"): 5 * number, ("dead_letter", "invalid"): 1}, 5, 0.01)
        metrics.failed()
        metrics.receipt(sent=True)
        write_snapshot(tmp_path, number, metrics.text())
    text = collected(tmp_path, time.time()).decode()  # noqa: TID251 - compared with a file's time
    assert text.count("# TYPE fleet_ingest_events_total counter") == 1
    assert 'fleet_ingest_events_total{outcome="delivered",worker="2"} 10.0' in text
    assert 'fleet_ingest_store_up{worker="1"} 0.0' in text
    assert collected(tmp_path, time.time() + 60) == b""  # noqa: TID251 - the same
    remove_snapshot(tmp_path, 1)
    remove_snapshot(tmp_path, 1)
    assert 'worker="1"' not in collected(tmp_path, time.time()).decode()  # noqa: TID251 - the same
