"""The core of ingest on both databases, with a clock that moves when told."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import func, select

from fleet_server.ingest import Arrival, Committed, Committer, Limits, Now, Rules, inspect
from fleet_server.ingest.batch import Answer
from fleet_server.storage import Store
from fleet_server.storage.event_tables import EpochRow, EventRow, FateCountRow, SettledRow
from tests.rigs.deliveries import FakeClock


class Server:
    """Ingest without a broker: messages go in, answers come out."""

    def __init__(self, store: Store, rules: Rules, limits: Limits) -> None:
        self.store, self.rules, self.clock = store, rules, FakeClock()
        self.committer = Committer(store, limits)

    def take(self, *messages: tuple[str, bytes]) -> Committed:
        """Take messages in one transaction."""
        now = Now(self.clock.monotonic_ns(), self.clock.wall_ms, self.clock.synced)
        arrived = [Arrival(topic, payload, now.monotonic_ns) for topic, payload in messages]
        parcels = [inspect(arrival, self.rules, now) for arrival in arrived]
        return self.committer.commit(parcels, now.wall_ms)

    def answer(self, *messages: tuple[str, bytes]) -> Answer:
        """The only answer to messages."""
        (found,) = self.take(*messages).answers
        return found

    def count(self, kind: Any, **where: Any) -> int:
        """Rows of a table."""
        with self.store.read() as session:
            return session.scalar(select(func.count()).select_from(kind).filter_by(**where)) or 0

    def epoch(self, device: str, epoch: str) -> EpochRow:
        """One outbox file."""
        with self.store.read() as session:
            return session.get_one(EpochRow, (device, epoch))

    def fates(self, device: str, epoch: str) -> Counter[str]:
        """Settled numbers by fate, folded or not."""
        found: Counter[str] = Counter()
        with self.store.read() as session:
            for row in session.scalars(select(FateCountRow).filter_by(device=device, epoch=epoch)):
                found[row.fate] += row.count
            for run in session.scalars(select(SettledRow).filter_by(device=device, epoch=epoch)):
                found[run.fate] += run.last - run.first + 1
        return found

    def assert_balanced(self) -> None:
        """Every outbox file's counts against its rows."""
        with self.store.read() as session:
            keys = [(row.device, row.epoch) for row in session.scalars(select(EpochRow))]
        for device, epoch in keys:
            row, fates = self.epoch(device, epoch), self.fates(device, epoch)
            stored = self.count(EventRow, device=device, epoch=epoch)
            assert fates["delivered"] + row.surplus == stored, (device, epoch)
            with self.store.read() as session:
                folded = session.scalar(
                    select(func.sum(FateCountRow.count)).filter_by(device=device, epoch=epoch)
                )
            assert (folded or 0) == row.high


@pytest.fixture
def server(store: Store) -> Server:
    return Server(store, Rules(), Limits())
