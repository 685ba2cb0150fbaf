"""How far each outbox file is settled, in the database: loaded, changed and written once in a transaction.

Counts stay exact under every repetition: `delivered + surplus` of an outbox file is the number of its rows in the
table of events, and the fates up to `high` add up to `high`.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.engine import Connection

from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.vocabulary import Fate
from fleet_server.ingest.ranges import Progress, Run, settle
from fleet_server.settings import IngestSettings
from fleet_server.storage.event_tables import EpochRow
from fleet_server.storage.writing import chunks, fetch, run_many, table

_EPOCHS = table(EpochRow)
_UPDATE_EPOCH = (
    "UPDATE epochs SET high = ?, seen_ms = ?, surplus = surplus + ? WHERE device = ? AND epoch = ?"
)
_DELETE_RUN = "DELETE FROM settled WHERE device = ? AND epoch = ? AND first = ?"
_INSERT_RUN = "INSERT INTO settled (device, epoch, first, last, fate) VALUES (?, ?, ?, ?, ?)"
_ADD_COUNT = (
    "INSERT INTO fate_counts (device, epoch, fate, count) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (device, epoch, fate) DO UPDATE SET count = fate_counts.count + excluded.count"
)
_FATES = tuple(fate.value for fate in Fate)
_BEYOND_ALL = 1 << 63
_DEFAULTS = IngestSettings()

EpochKey = tuple[str, str]
"""Device and epoch."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what one device can make the server keep.

    Attributes:
        max_ranges: settled runs beyond `high` of one outbox file; more are refused for now, until a gap closes.
        max_epochs: outbox files of one device under one key: an operator who accepts a new one gives it as many.
        dead_letters, dead_letter_bytes: refused messages that are kept, of all devices together.
    """

    max_ranges: int = _DEFAULTS.max_ranges
    max_epochs: int = _DEFAULTS.max_epochs
    dead_letters: int = _DEFAULTS.dead_letters
    dead_letter_bytes: int = _DEFAULTS.dead_letter_bytes

    @classmethod
    def of(cls, settings: IngestSettings) -> "Limits":
        """The limits that a server's settings state."""
        return cls(
            max_ranges=settings.max_ranges,
            max_epochs=settings.max_epochs,
            dead_letters=settings.dead_letters,
            dead_letter_bytes=settings.dead_letter_bytes,
        )


class Books:
    """The outbox files that one transaction touches.

    Args:
        connection: of a transaction that has the turn of ingest.
        keys: which.
        limits: bounds of each device.
        now_ms: the server's wall clock.

    Attributes:
        refused: outbox files that are not kept, because their device has too many.
    """

    def __init__(self, connection: Connection, keys: Iterable[EpochKey], limits: Limits, now_ms: int) -> None:
        self._connection, self._limits, self._now_ms = connection, limits, now_ms
        self._surplus: Counter[EpochKey] = Counter()
        self._folded: dict[EpochKey, Counter[str]] = defaultdict(Counter)
        self._ledgers: dict[EpochKey, Ledger] = {}
        wanted = sorted(set(keys))
        self._before = self._load(wanted)
        self.refused = self._open([key for key in wanted if key not in self._before])
        self._now = dict(self._before)

    def progress(self, key: EpochKey) -> Progress:
        """How far an outbox file is settled by now."""
        return self._now.get(key, Progress())

    def full_from(self, key: EpochKey) -> int:
        """Numbers from here on may not be settled now: with too many runs only the lowest gap is filled."""
        if key in self.refused:
            return 0
        runs = self._now[key].runs
        return _BEYOND_ALL if len(runs) < self._limits.max_ranges else runs[0].first

    def settle(self, key: EpochKey, runs: Iterable[Run], inserted: int = 0) -> None:
        """Give numbers a fate.

        Args:
            key: of an outbox file that is not refused.
            runs: numbers and fates; those that have a fate keep it.
            inserted: rows that were added to the table of events for them.
        """
        result = settle(self._now[key], runs)
        self._now[key] = result.progress
        self._folded[key] += result.folded
        self._surplus[key] += inserted - result.settled[Fate.DELIVERED.value]

    def report(self, key: EpochKey, ledger: Ledger) -> None:
        """Keep a device's own ledger."""
        self._ledgers[key] = ledger

    def write(self) -> None:
        """Write what changed."""
        if not self._now:
            return
        self._write_epochs()
        self._write_runs()
        self._write_counts()
        write_ledgers(self._connection, self._ledgers, self._now_ms)

    def _load(self, keys: list[EpochKey]) -> dict[EpochKey, Progress]:
        found: dict[EpochKey, tuple[int, list[Run]]] = {}
        for part in chunks(keys):
            values = [value for key in part for value in key]
            for device, epoch, high, first, last, fate in fetch(
                self._connection, _load_sql(len(part)), *values
            ):
                _, runs = found.setdefault((device, epoch), (high, []))
                if first is not None:
                    runs.append(Run(first, last, fate))
        return {key: Progress(high, tuple(sorted(runs))) for key, (high, runs) in found.items()}

    def _open(self, keys: list[EpochKey]) -> set[EpochKey]:
        """Begin new outbox files; those for which there is no room are returned."""
        if not keys:
            return set()
        devices = sorted({device for device, _ in keys})
        count: Counter[str] = Counter()
        for part in chunks(devices):
            query = select(_EPOCHS.c.device, func.count()).where(
                _EPOCHS.c.device.in_(part), _EPOCHS.c.first_ms > 0
            )
            rows = self._connection.execute(query.group_by(_EPOCHS.c.device))
            count.update({row[0]: row[1] for row in rows})
        refused: set[EpochKey] = set()
        fresh = []
        for key in keys:
            if count[key[0]] >= self._limits.max_epochs:
                refused.add(key)
                continue
            count[key[0]] += 1
            self._before[key] = Progress()
            fresh.append(self._new_row(key))
        if fresh:
            self._connection.execute(_EPOCHS.insert(), fresh)
        return refused

    def _new_row(self, key: EpochKey) -> dict[str, Any]:
        row: dict[str, Any] = {"device": key[0], "epoch": key[1], "high": 0, "surplus": 0}
        row |= {"first_ms": max(1, self._now_ms), "seen_ms": self._now_ms, "reported_ms": None}
        return row | dict.fromkeys(("accepted", "queued", *_FATES), 0)

    def _write_epochs(self) -> None:
        rows = [(found.high, self._now_ms, self._surplus[key], *key) for key, found in self._now.items()]
        run_many(self._connection, _UPDATE_EPOCH, rows)

    def _write_runs(self) -> None:
        gone, new = [], []
        for key, found in self._now.items():
            before = self._before[key]
            if found.runs != before.runs:
                old, young = set(before.runs), set(found.runs)
                gone += [(*key, one.first) for one in old - young]
                new += [(*key, one.first, one.last, one.fate) for one in young - old]
        if gone:
            run_many(self._connection, _DELETE_RUN, gone)
        if new:
            run_many(self._connection, _INSERT_RUN, new)

    def _write_counts(self) -> None:
        rows = [(*key, fate, count) for key, folded in self._folded.items() for fate, count in folded.items()]
        if rows:
            run_many(self._connection, _ADD_COUNT, rows)


@functools.lru_cache(maxsize=256)
def _load_sql(keys: int) -> str:
    """One row for each run of each outbox file. A join: SQLite answers `(a, b) IN (VALUES …)` by reading all."""
    values = ", ".join(["(?, ?)"] * keys)
    return (
        f"WITH wanted (device, epoch) AS (VALUES {values}) "  # noqa: S608 - marks alone
        "SELECT e.device, e.epoch, e.high, s.first, s.last, s.fate FROM wanted w "
        "JOIN epochs e ON e.device = w.device AND e.epoch = w.epoch "
        "LEFT JOIN settled s ON s.device = e.device AND s.epoch = e.epoch"
    )


def write_ledgers(connection: Connection, ledgers: dict[EpochKey, Ledger], now_ms: int) -> None:
    """Keep ledgers as devices reported them; an older one that arrives late does not replace a newer one."""
    if not ledgers:
        return
    fates = [_EPOCHS.c[name] for name in _FATES]
    known = sum(fates[1:], fates[0])
    statement = (
        update(_EPOCHS)
        .where(
            _EPOCHS.c.device == bindparam("d"),
            _EPOCHS.c.epoch == bindparam("e"),
            _EPOCHS.c.accepted <= bindparam("accepted_now"),
            known <= bindparam("known_now"),
        )
        .values(
            reported_ms=now_ms,
            accepted=bindparam("accepted_now"),
            queued=bindparam("queued_now"),
            **{name: bindparam(f"{name}_now") for name in _FATES},
        )
    )
    connection.execute(statement, [_ledger_row(key, ledger) for key, ledger in ledgers.items()])


def newest_epoch(connection: Connection, device: str) -> str | None:
    """The outbox file of which a device last spoke."""
    query = select(_EPOCHS.c.epoch).where(_EPOCHS.c.device == device)
    return connection.scalar(query.order_by(_EPOCHS.c.seen_ms.desc(), _EPOCHS.c.epoch.desc()).limit(1))


def _ledger_row(key: EpochKey, ledger: Ledger) -> dict[str, Any]:
    counts = {name: getattr(ledger, name) for name in _FATES}
    row: dict[str, Any] = {"d": key[0], "e": key[1], "known_now": sum(counts.values())}
    row |= {"accepted_now": ledger.accepted, "queued_now": ledger.queued}
    return row | {f"{name}_now": count for name, count in counts.items()}
