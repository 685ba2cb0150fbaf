"""Both sides of a virtual fleet's deliveries, event by event: what devices count, and what the server has."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select

from edge_runtime.protocol.vocabulary import Fate
from fleet_server.operators.balance import EpochBalance
from fleet_server.operators.status import balance
from fleet_server.storage import open_store
from fleet_server.storage.event_tables import EventRow
from sim.virtual.queue import VirtualQueue


@dataclass(frozen=True, slots=True)
class FleetAccounts:
    """The sums of all devices; `agrees` is the verdict.

    Attributes:
        accepted: events that the devices' queues took.
        delivered: of them, those that were receipted.
        given_up: expired, evicted or rejected, as devices count.
        queued: still there.
        stored: rows of the server.
        arrived_all_the_same: rows of events that their device had given up: on their way, and receipted too late.
        missing: delivered by a device's account, and no row.
        strangers: rows that no device accepted.
        twice: rows beyond the first of one event and revision.
        unexplained: events that the server's own balance cannot account for.
        unsettled: events that the server still waits for.
        books_differ: devices whose last reported ledger is not the one that they have.
    """

    accepted: int
    delivered: int
    given_up: int
    queued: int
    stored: int
    arrived_all_the_same: int
    missing: int
    strangers: int
    twice: int
    unexplained: int
    unsettled: int
    books_differ: int

    @property
    def agrees(self) -> bool:
        """Whether both sides say the same of every event."""
        wrong = (
            self.missing + self.strangers + self.twice + self.unexplained + self.unsettled + self.books_differ
        )
        return (
            wrong == 0
            and self.accepted == self.delivered + self.given_up + self.queued
            and self.stored == self.delivered + self.arrived_all_the_same
        )

    def facts(self) -> dict[str, Any]:
        """For a report."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ServerSide:
    """What a server's database has of some devices.

    Attributes:
        keys: of its rows, by device.
        twice: rows beyond the first of one event and revision.
        books: the balance of each device's only outbox file.
    """

    keys: dict[str, set[bytes]]
    twice: int
    books: dict[str, EpochBalance]

    @classmethod
    def read(cls, database: str, devices: Sequence[str]) -> "ServerSide":
        """As it is now."""
        wanted = set(devices)
        keys: dict[str, set[bytes]] = defaultdict(set)
        seen: Counter[tuple[str, str, int]] = Counter()
        store = open_store(database)
        try:
            with store.read() as session:
                for row in session.execute(
                    select(EventRow.device, EventRow.key, EventRow.event, EventRow.revision)
                ):
                    if row.device in wanted:
                        keys[row.device].add(bytes(row.key))
                        seen[row.device, row.event, row.revision] += 1
                books = {line.device: line for line in balance(session) if line.device in wanted}
        finally:
            store.close()
        return cls(dict(keys), sum(number - 1 for number in seen.values()), books)


def compare(queues: dict[str, VirtualQueue], server: ServerSide) -> FleetAccounts:
    """Hold both sides against each other.

    Args:
        queues: of the devices, by name.
        server: its side.
    """
    sums: Counter[str] = Counter()
    for name, queue in queues.items():
        rows, ledger = server.keys.get(name, set()), queue.ledger
        given_up = set().union(*(queue.ended[fate] for fate in Fate if fate is not Fate.DELIVERED))
        delivered = queue.ended[Fate.DELIVERED]
        book = server.books.get(name)
        sums["accepted"] += ledger.accepted
        sums["delivered"] += len(delivered)
        sums["given_up"] += len(given_up)
        sums["queued"] += ledger.queued
        sums["stored"] += len(rows)
        sums["arrived_all_the_same"] += len(rows & given_up)
        sums["missing"] += len(delivered - rows)
        sums["strangers"] += len(rows - delivered - given_up - queue.waiting)
        if book is None:
            sums["books_differ"] += ledger.accepted > 0
        else:
            sums["unexplained"] += book.unexplained
            sums["unsettled"] += book.waiting
            sums["books_differ"] += book.ledger != ledger
    names = [name for name in FleetAccounts.__dataclass_fields__ if name != "twice"]
    return FleetAccounts(twice=server.twice, **{name: sums[name] for name in names})
