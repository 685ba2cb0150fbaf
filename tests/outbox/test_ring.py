"""The ring of decisions: places that are written over, with the books in each, and what a damaged one costs."""

import contextlib
import random
import sqlite3
from pathlib import Path

import pytest

from edge_runtime.outbox import Health, Put
from edge_runtime.outbox.books import Books
from edge_runtime.outbox.database import DatabaseFault, StandardDatabase, StoreFault
from edge_runtime.outbox.ring import (
    CREATE_RING,
    SLOT_BYTES,
    Decision,
    Ring,
    all_decisions,
    read_place,
    read_places,
)
from tests.rigs.outbox import BootClock, key_of, opened, quiet_settings, submission

LIMIT = 1024


@pytest.fixture
def database() -> StandardDatabase:
    found = StandardDatabase(None)
    found.execute(CREATE_RING)
    return found


def decisions(first: int, number: int, size: int = 250) -> list[Decision]:
    return [(key_of(n), random.Random(n).randbytes(size)) for n in range(first, first + number)]


def fill(ring: Ring, database: StandardDatabase, books: Books, number: int, size: int = 250) -> None:
    for first in range(0, number, 100):
        ring.write(database, books, decisions(first, min(100, number - first), size))
        ring.committed()


def places(database: StandardDatabase) -> int:
    return int(database.execute("SELECT count(*) FROM ring")[0][0])


def test_places_are_written_over_and_do_not_become_more(database: StandardDatabase) -> None:
    ring, books = Ring(LIMIT), Books("epoch")
    fill(ring, database, books, 2000)
    before = places(database)
    fill(ring, database, books, 5000)
    assert places(database) <= before + 2
    assert {row[0] for row in database.execute("SELECT length(line) FROM ring")} == {SLOT_BYTES}
    kept = [receipt for _, receipt in all_decisions(read_places(database))]
    assert kept[-LIMIT:] == [receipt for _, receipt in decisions(5000 - LIMIT, LIMIT)]
    assert ring.newest(database, 2, LIMIT - 1) == [kept[-LIMIT]]


def test_places_go_where_receipts_become_shorter(database: StandardDatabase) -> None:
    ring, books = Ring(LIMIT), Books("epoch")
    fill(ring, database, books, 2 * LIMIT, size=2000)
    before = places(database)
    fill(ring, database, books, 60 * LIMIT, size=100)
    assert places(database) < before / 4


@pytest.mark.parametrize("size", [0, 1, 3000, 4000, 4096])
def test_receipts_of_any_length_come_back(database: StandardDatabase, size: int) -> None:
    ring, books = Ring(LIMIT), Books("epoch")
    given = [*decisions(0, 5, size), *decisions(5, 40), *decisions(45, 5, size)]
    ring.write(database, books, given)
    assert list(all_decisions(read_places(database))) == given
    again = Ring(LIMIT)
    again.load(read_places(database))
    again.write(database, books, decisions(50, 1, size))
    assert list(all_decisions(read_places(database))) == [*given, *decisions(50, 1, size)]
    assert again.last == 51


@pytest.mark.parametrize("number", [1, 30, 256])
@pytest.mark.parametrize("tight", [False, True])
def test_what_was_not_committed_is_written_over(
    database: StandardDatabase, number: int, *, tight: bool
) -> None:
    ring, books = Ring(LIMIT), Books("epoch")
    fill(ring, database, books, 2100)
    before = read_places(database)
    database.execute("BEGIN")
    ring.write(database, books, decisions(5000, number), tight=tight)
    ring.write(database, books, decisions(6000, number), tight=tight)
    database.execute("ROLLBACK")
    ring.undo()
    assert ring.last == 2100
    ring.write(database, books, decisions(7000, 300))
    found = list(all_decisions(read_places(database)))
    assert found[-300:] == decisions(7000, 300)
    assert found[-LIMIT:-300] == list(all_decisions(before))[-LIMIT + 300 :]


@pytest.mark.parametrize("size", [250, 4096])
def test_of_what_was_not_committed_nothing_comes_to_the_disk_later(
    database: StandardDatabase, size: int
) -> None:
    ring, books = Ring(LIMIT), Books("epoch")
    ring.write(database, books, decisions(0, 3))
    ring.committed()
    database.execute("BEGIN")
    books.accepted = 1 << 40  # the line of the books becomes longer in the place
    ring.write(database, books, [(key_of(9), b"uncommitted!" * (size // 12)), *decisions(10, 20)])
    database.execute("ROLLBACK")
    ring.undo()
    books.accepted = 4
    ring.write(database, books, decisions(3, 1))
    (line,) = (row[0] for row in database.execute("SELECT line FROM ring"))
    assert len(line) == SLOT_BYTES
    assert b"uncommitted!" not in line
    assert list(all_decisions(read_places(database))) == decisions(0, 4)


def test_a_full_disk_gives_the_oldest_place(database: StandardDatabase) -> None:
    ring, books = Ring(LIMIT), Books("epoch")
    fill(ring, database, books, 100)
    before = places(database)
    for first in range(1000, 1500):
        ring.write(database, books, decisions(first, 1), tight=True)
        ring.committed()
    assert places(database) == before
    ring.write(database, books, decisions(2000, 256), tight=True)  # not what it has just written itself
    assert list(all_decisions(read_places(database)))[-256:] == decisions(2000, 256)


@pytest.mark.parametrize("at", [0, 9, 12, 16, 20, 40, 200, 1000])
def test_a_damaged_place_is_known(database: StandardDatabase, at: int) -> None:
    ring = Ring(LIMIT)
    ring.write(database, Books("epoch"), decisions(0, 10))
    line = bytearray(database.execute("SELECT line FROM ring")[0][0])
    line[at] ^= 0x41
    place = read_place(1, bytes(line))
    assert place.decisions is None or place.books is None
    database.execute("UPDATE ring SET line = ?", (bytes(line),))
    with pytest.raises(DatabaseFault) as caught:
        read_places(database)
    assert caught.value.fault is StoreFault.CORRUPT


@pytest.mark.parametrize("line", [None, "text", b"", b"short", bytes(SLOT_BYTES), b"\xff" * SLOT_BYTES])
def test_what_is_no_place_is_damaged(line: object) -> None:
    place = read_place(1, line)
    assert place.decisions is None or place.books is None


def test_with_the_newest_place_damaged_the_totals_go_on(tmp_path: Path) -> None:
    """The books in it are gone; those of the place before it are older, and say nothing false."""
    clock = BootClock()
    with opened(tmp_path, clock) as outbox:
        for first in range(0, 200, 10):
            outbox.put([submission(n, receipt=bytes(250)) for n in range(first, first + 10)])
    with contextlib.closing(sqlite3.connect(tmp_path / "outbox.db")) as database:
        database.execute("DELETE FROM books")
        database.execute("UPDATE ring SET line = zeroblob(4048) WHERE slot = (SELECT max(slot) FROM ring)")
        database.commit()
    with opened(tmp_path, clock, quiet_settings()) as outbox:
        status = outbox.status()
        assert status.state is Health.DEGRADED
        assert status.quarantined
        assert status.ledger.balances
        assert status.ledger.queued == 200
        assert outbox.put([submission(0)])[0].outcome is Put.DUPLICATE
        assert outbox.put([submission(300)])[0].outcome is Put.ACCEPTED
