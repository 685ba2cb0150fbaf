"""How far each outbox file is settled, in the database: loaded, changed and written once in a transaction.

Counts stay exact under every repetition: `delivered + surplus` of an outbox file is the number of its rows in the
table of events, and the fates up to `high` add up to `high`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, select, tuple_, update
from sqlalchemy.engine import Connection

from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.vocabulary import Fate
from fleet_server.ingest.ranges import Progress, Run, settle
from fleet_server.settings import IngestSettings
from fleet_server.storage.event_tables import EpochRow, FateCountRow, SettledRow
from fleet_server.storage.writing import chunks, insert, table

_EPOCHS, _SETTLED, _COUNTS = table(EpochRow), table(SettledRow), table(FateCountRow)
_FATES = tuple(fate.value for fate in Fate)
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
        self._high = self._load_high(wanted)
        self.refused = self._open([key for key in wanted if key not in self._high])
        self._before = self._load_progress()
        self._now = dict(self._before)

    def progress(self, key: EpochKey) -> Progress:
        """How far an outbox file is settled by now."""
        return self._now.get(key, Progress())

    def has_room(self, key: EpochKey, number: int) -> bool:
        """Whether this number may be settled: with too many runs only the lowest gap is filled."""
        if key in self.refused:
            return False
        found = self._now[key]
        return len(found.runs) < self._limits.max_ranges or number < found.runs[0].first

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

    def _load_high(self, keys: list[EpochKey]) -> dict[EpochKey, int]:
        columns = (_EPOCHS.c.device, _EPOCHS.c.epoch, _EPOCHS.c.high)
        found: dict[EpochKey, int] = {}
        for part in chunks(keys):
            query = select(*columns).where(tuple_(_EPOCHS.c.device, _EPOCHS.c.epoch).in_(part))
            found |= {(device, epoch): high for device, epoch, high in self._connection.execute(query)}
        return found

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
            self._high[key] = 0
            fresh.append(self._new_row(key))
        if fresh:
            self._connection.execute(_EPOCHS.insert(), fresh)
        return refused

    def _new_row(self, key: EpochKey) -> dict[str, Any]:
        row: dict[str, Any] = {"device": key[0], "epoch": key[1], "high": 0, "surplus": 0}
        row |= {"first_ms": max(1, self._now_ms), "seen_ms": self._now_ms, "reported_ms": None}
        return row | dict.fromkeys(("accepted", "queued", *_FATES), 0)

    def _load_progress(self) -> dict[EpochKey, Progress]:
        runs: dict[EpochKey, list[Run]] = defaultdict(list)
        columns = (_SETTLED.c.device, _SETTLED.c.epoch, _SETTLED.c.first, _SETTLED.c.last, _SETTLED.c.fate)
        for part in chunks(list(self._high)):
            query = select(*columns).where(tuple_(_SETTLED.c.device, _SETTLED.c.epoch).in_(part))
            for device, epoch, first, last, fate in self._connection.execute(
                query.order_by(_SETTLED.c.device, _SETTLED.c.epoch, _SETTLED.c.first)
            ):
                runs[device, epoch].append(Run(first, last, fate))
        return {key: Progress(high, tuple(runs.get(key, ()))) for key, high in self._high.items()}

    def _write_epochs(self) -> None:
        statement = (
            update(_EPOCHS)
            .where(_EPOCHS.c.device == bindparam("d"), _EPOCHS.c.epoch == bindparam("e"))
            .values(
                high=bindparam("h"), seen_ms=bindparam("s"), surplus=_EPOCHS.c.surplus + bindparam("plus")
            )
        )
        rows = [
            {"d": key[0], "e": key[1], "h": found.high, "s": self._now_ms, "plus": self._surplus[key]}
            for key, found in self._now.items()
        ]
        self._connection.execute(statement, rows)

    def _write_runs(self) -> None:
        gone, new = [], []
        for key, found in self._now.items():
            before, after = set(self._before[key].runs), set(found.runs)
            gone += [{"d": key[0], "e": key[1], "f": run.first} for run in before - after]
            new += [
                {"device": key[0], "epoch": key[1], "first": run.first, "last": run.last, "fate": run.fate}
                for run in after - before
            ]
        if gone:
            statement = _SETTLED.delete().where(
                _SETTLED.c.device == bindparam("d"),
                _SETTLED.c.epoch == bindparam("e"),
                _SETTLED.c.first == bindparam("f"),
            )
            self._connection.execute(statement, gone)
        if new:
            self._connection.execute(_SETTLED.insert(), new)

    def _write_counts(self) -> None:
        rows = [
            {"device": key[0], "epoch": key[1], "fate": fate, "count": count}
            for key, folded in self._folded.items()
            for fate, count in folded.items()
        ]
        if rows:
            statement = insert(self._connection, _COUNTS)
            statement = statement.on_conflict_do_update(
                index_elements=["device", "epoch", "fate"],
                set_={"count": _COUNTS.c.count + statement.excluded.count},
            )
            self._connection.execute(statement, rows)


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
