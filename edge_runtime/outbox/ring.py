"""The ring of decisions on the disk: places of one page each, written over and over, with the books in every one.

Each transaction writes the books, and nearly each adds decisions, so both share a page. A place is never deleted
and made anew: a put of a hundred writes the seven pages that its receipts fill, where a table that grows at one end
and is cut at the other writes each of them again when it is freed, and the tree above both ends.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

from edge_runtime.outbox.books import Books, open_books, seal_books
from edge_runtime.outbox.database import Database, DatabaseFault, StoreFault

Decision = tuple[bytes, bytes]
"""A key and its receipt, which is empty where none was kept."""

CREATE_RING = "CREATE TABLE ring (slot INTEGER PRIMARY KEY, line BLOB NOT NULL)"

SLOT_BYTES = 4048
"""A row of this length is one page of 4096 and needs no second one."""

_SLACK = 32
"""Room that a full place keeps, because the numbers in the books get longer."""

_SPARE = 64
"""Places that nobody needs and that stay: a put may fill many at once, and the next one as well."""

_KEY_BYTES = 16
_HEAD = struct.Struct(">QHIHI")
"""Number of the first decision, how many they are, their checksum, length and checksum of the books."""

_LENGTH = struct.Struct(">H")
_SAVE = "INSERT OR REPLACE INTO ring VALUES (?, ?)"
_LOAD = "SELECT slot, line FROM ring ORDER BY slot"


@dataclass(frozen=True, slots=True)
class Place:
    """What a row of the ring holds.

    Attributes:
        slot: the row.
        first: number of its first decision; numbers are dense, from 1 on.
        decisions: in order; None where they are damaged.
        books: as the last transaction that wrote it left them; None where they are damaged.
    """

    slot: int
    first: int
    decisions: list[Decision] | None
    books: Books | None


class Ring:
    """Where the next decision goes.

    Args:
        limit: decisions that are kept; a place whose own are all older is written over.
    """

    # `_line` is the row of the current place as it goes to the disk, its records from `_start` to `_end`: a put
    # copies none of what is there already
    __slots__ = (
        "_before", "_checksum", "_end", "_first", "_full", "_limit", "_line", "_number", "_slot", "_start", "_top",
        "_turns",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._full: deque[tuple[int, int]] = deque()  # slots and their first numbers, without the current one
        self._top, self._start = 1, _HEAD.size
        self._begin(1, 1)
        self._before: tuple[int, int, int, int, bytearray, int, int] | None = None
        self._turns: list[list[tuple[int, int]]] = []  # what each turn of this transaction took from the left

    @property
    def last(self) -> int:
        """Number of the newest decision that was written; 0 while there is none."""
        return self._first + self._number - 1

    def load(self, places: Sequence[Place]) -> None:
        """Go on where a database stands that was just opened.

        Args:
            places: all that it has, whole, oldest first.
        """
        self.committed()
        self._full = deque((place.slot, place.first) for place in places[:-1])
        if places:
            self._top = max(place.slot for place in places)
            self._begin(places[-1].slot, places[-1].first)
            for key, receipt in places[-1].decisions or ():
                self._add(key + _LENGTH.pack(len(receipt)) + receipt, 1)

    def write(
        self, database: Database, books: Books, decisions: Sequence[Decision], *, tight: bool = False
    ) -> None:
        """Write the books, and the decisions behind those that are there; part of a transaction.

        Args:
            database: with an open transaction.
            books: as they are now.
            decisions: new ones, oldest first.
            tight: the disk is full, so that the oldest place is written over whether it is needed or not.

        Raises:
            DatabaseFault: SQLite refused.
        """
        if self._before is None:
            self._before = (
                self._slot, self._first, self._number, self._checksum, self._line, self._start, self._end,
            )  # fmt: skip
        sealed = seal_books(books)
        room = SLOT_BYTES - _HEAD.size - len(sealed[0]) - _SLACK
        records = [key + _LENGTH.pack(len(receipt)) + receipt for key, receipt in decisions]
        if len(joined := b"".join(records)) + self._end - self._start <= room:
            self._add(joined, len(records))
        else:
            self._spread(database, sealed, records, room, tight=tight)
        self._save(database, sealed)

    def _spread(
        self,
        database: Database,
        sealed: tuple[bytes, int],
        records: Sequence[bytes],
        room: int,
        *,
        tight: bool,
    ) -> None:
        """Add records to as many places as they need, and save all but the last of them."""
        done, last = 0, self.last + len(records)
        ends = list(accumulate(map(len, records)))
        while done < len(records):
            before = ends[done - 1] if done else 0
            upto = bisect_right(ends, before + room - (self._end - self._start), done)
            if upto == done and self._number == 0:
                upto = done + 1  # a receipt that is longer than a place has more than one page
            self._add(b"".join(records[done:upto]), upto - done)
            done = upto
            if done < len(records):
                self._save(database, sealed)
                self._turn(database, last, tight=tight)

    def committed(self) -> None:
        """What was written is durable."""
        self._before = None
        self._turns.clear()

    def undo(self) -> None:
        """Nothing of it was committed."""
        if self._before is None:
            return
        while self._turns:
            self._full.pop()
            self._full.extendleft(reversed(self._turns.pop()))
        self._slot, self._first, self._number, self._checksum, self._line, self._start, self._end = (
            self._before
        )
        self._line[self._end :] = bytes(max(0, SLOT_BYTES - self._end))
        self._before = None

    def newest(self, database: Database, limit: int, skip: int) -> list[bytes]:
        """Receipts of those that are kept, newest first, without the newest `skip` and without empty ones.

        Raises:
            DatabaseFault: they cannot be read.
        """
        found: list[bytes] = []
        oldest = self.last - self._limit + 1
        for slot, first in ((self._slot, self._first), *reversed(self._full)):
            if len(found) >= limit + skip:
                break
            rows = database.execute("SELECT line FROM ring WHERE slot = ?", (slot,))
            decisions = (rows and read_place(slot, rows[0][0]).decisions) or []
            kept = decisions[max(0, oldest - first) :]
            found += [receipt for _, receipt in reversed(kept) if receipt]
        return found[skip : skip + limit]

    def _begin(self, slot: int, first: int) -> None:
        self._slot, self._first, self._number, self._checksum = slot, first, 0, _checksum_of(first)
        self._line, self._end = bytearray(SLOT_BYTES), self._start

    def _add(self, records: bytes, number: int) -> None:
        begin, self._end = self._end, self._end + len(records)
        self._line[begin : self._end] = records
        self._number += number
        self._checksum = crc32(records, self._checksum)

    def _save(self, database: Database, sealed: tuple[bytes, int]) -> None:
        line, crc = sealed
        start = _HEAD.size + len(line)
        if start != self._start:  # the numbers in the books have become longer, or this place is new
            kept = self._line[self._start : self._end]
            self._line, self._start, self._end = bytearray(start) + kept, start, start + len(kept)
            self._line.extend(bytes(max(0, SLOT_BYTES - self._end)))
        _HEAD.pack_into(self._line, 0, self._first, self._number, self._checksum, len(line), crc)
        self._line[_HEAD.size : start] = line
        database.execute(_SAVE, (self._slot, self._line))

    def _turn(self, database: Database, last: int, *, tight: bool) -> None:
        """Go to a place that nobody needs, or to a new one; of many that nobody needs one goes for good."""
        full, taken = self._full, list[tuple[int, int]]()
        full.append((self._slot, self._first))
        old = len(full) - 1 - len(self._turns)  # those that this transaction did not fill
        needed = last - self._limit + 1  # the oldest decision that is kept
        if old > 0 and (tight or full[1][1] <= needed):
            taken.append(full.popleft())
        if old > _SPARE and full[_SPARE][1] <= needed:
            taken.append(full.popleft())
            database.execute("DELETE FROM ring WHERE slot = ?", (taken[-1][0],))
        self._turns.append(taken)
        if not taken:
            self._top += 1  # where that is taken back, one number stays unused
        self._begin(taken[0][0] if taken else self._top, self._first + self._number)


def read_places(database: Database) -> list[Place]:
    """All places, oldest first.

    Raises:
        DatabaseFault: they cannot be read, or one is damaged.
    """
    places = [read_place(*row) for row in database.execute(_LOAD)]
    if any(place.decisions is None or place.books is None for place in places):
        raise DatabaseFault("its ring of decisions is damaged", StoreFault.CORRUPT)
    return sorted(places, key=lambda place: place.first)


def read_place(slot: int, line: object) -> Place:
    """A row of the ring, held against its checksums."""
    if not isinstance(line, bytes) or len(line) < _HEAD.size:
        return Place(slot, 0, None, None)
    first, number, checksum, length, crc = _HEAD.unpack_from(line)
    begin = _HEAD.size + length
    books = open_books(line[_HEAD.size : begin], crc)
    try:
        decisions, end = _decisions(line, begin, number)
    except (struct.error, ValueError):
        return Place(slot, first, None, books)
    whole = crc32(line[begin:end], _checksum_of(first)) == checksum
    return Place(slot, first, decisions if whole else None, books)


def all_decisions(places: Sequence[Place]) -> Iterator[Decision]:
    """What these places hold, in their order."""
    for place in places:
        yield from place.decisions or ()


def _decisions(line: bytes, at: int, number: int) -> tuple[list[Decision], int]:
    """So many records from a position on, and where they end."""
    found: list[Decision] = []
    for _ in range(number):
        begin = at + _KEY_BYTES + _LENGTH.size
        end = begin + _LENGTH.unpack_from(line, at + _KEY_BYTES)[0]
        if end > len(line):
            raise ValueError("a record is cut")
        found.append((line[at : at + _KEY_BYTES], line[begin:end]))
        at = end
    return found, at


def _checksum_of(first: int) -> int:
    return crc32(first.to_bytes(8, "big"))
