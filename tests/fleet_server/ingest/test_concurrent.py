"""Several committers on one database: each key once, every count exact, whoever repeats what at the same time."""

import random
import threading
from collections.abc import Sequence

from sqlalchemy import func, select

from edge_runtime.protocol.vocabulary import Fate
from fleet_server.ingest import Answer, Arrival, Committer, Limits, Now, Rules, inspect
from fleet_server.ingest.parcels import Parcel
from fleet_server.storage import Store, open_store
from fleet_server.storage.event_tables import EventRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.deliveries import WALL_MS, DeviceRig


def test_overlapping_batches_from_several_workers(store: Store) -> None:
    """50 resends at once of the same events have one effect and get one answer."""
    chance = random.Random(7)
    rigs = [DeviceRig(f"dev-{number}") for number in range(3)]
    messages: list[tuple[str, bytes]] = []
    for rig in rigs:
        items = rig.items(60)
        messages += [rig.bundle(*items[start : start + 10]) for start in range(0, 60, 10)]
        messages.append(rig.outcomes((61, 63, Fate.EXPIRED)))
    now = Now(0, WALL_MS)
    parcels = [inspect(Arrival(topic, payload, 0), Rules(), now) for topic, payload in messages]
    failures: list[BaseException] = []
    answers: list[Answer] = []

    def work(order: Sequence[Parcel]) -> None:
        mine = open_store(store.engine.url.render_as_string(hide_password=False))
        committer = Committer(mine, Limits())
        try:
            for start in range(0, len(order), 4):
                answers.extend(committer.commit(order[start : start + 4], WALL_MS).answers)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the test must see it
            failures.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=work, args=(chance.sample(parcels, len(parcels)),)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert failures == []
    assert all(answer.rejected == () for answer in answers)

    server = Server(store, Rules(), Limits())
    server.assert_balanced()
    for rig in rigs:
        row = server.epoch(rig.name, rig.epoch)
        assert (row.high, row.surplus) == (63, 0)
        assert server.fates(rig.name, rig.epoch) == {"delivered": 60, "expired": 3}
    with store.read() as session:
        assert session.scalar(select(func.count(func.distinct(EventRow.key)))) == 180
        assert session.scalar(select(func.count()).select_from(EventRow)) == 180


def test_one_key_with_many_bodies_at_once_keeps_exactly_one(store: Store) -> None:
    rig = DeviceRig()
    key = rig.item().key
    now = Now(0, WALL_MS)
    parcels = [
        inspect(Arrival(*rig.bundle(rig.item(seq=number + 1, key=key)), 0), Rules(), now)
        for number in range(8)
    ]
    answers: list[Answer] = []

    def work(parcel: Parcel) -> None:
        answers.extend(Committer(store, Limits()).commit([parcel], WALL_MS).answers)

    threads = [threading.Thread(target=work, args=(parcel,)) for parcel in parcels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(len(answer.rejected) for answer in answers) == 7
    assert {rejection.code.value for answer in answers for rejection in answer.rejected} == {"key_conflict"}
    with store.read() as session:
        assert session.scalar(select(func.count()).select_from(EventRow)) == 1
