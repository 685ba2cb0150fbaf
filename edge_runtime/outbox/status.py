"""What an operator asks about the outbox, read in one transaction."""

import contextlib
from pathlib import Path

from edge_runtime.outbox.engine import Engine
from edge_runtime.outbox.records import OutboxStatus
from edge_runtime.outbox.storefile import NAME, quarantined
from edge_runtime.outbox.transaction import Transaction

_GATE = ("kept", "held", "released", "dropped", "held_expired", "held_evicted")
_EVIDENCE = ("uploaded", "expired", "evicted", "failed", "dropped")


def read_status(tx: Transaction, engine: Engine, directory: Path) -> OutboxStatus:
    """The status; see `OutboxStatus`."""
    database = tx.database
    counters = {name: number for name, number in database.execute("SELECT name, n FROM counters")}  # noqa: C416
    by_severity = tx.order().counts()
    for severity, _ in engine.leases.places.values():
        by_severity[severity] += 1
    oldest = database.execute("SELECT added FROM queue ORDER BY seq LIMIT 1")
    waiting, due = database.execute("SELECT coalesce(sum(due = 0), 0), coalesce(sum(due), 0) FROM evidence")[
        0
    ]
    books = engine.total_books()
    state, sentences = engine.state()
    evidence = {name: counters.get(f"evidence.{name}", 0) for name in _EVIDENCE}
    return OutboxStatus(
        ledger=books.ledger(),
        not_accepted={
            name.removeprefix("not_accepted."): number
            for name, number in engine.with_pending(counters).items()
            if name.startswith("not_accepted.")
        },
        gate={name: counters.get(f"gate.{name}", 0) for name in _GATE},
        evidence={"waiting": waiting, "due": due, "bytes": books.evidence_bytes, **evidence},
        bytes=books.bytes,
        quota_bytes=tx.settings.quota_bytes,
        queued_by_severity=tuple(by_severity),
        held=books.held,
        held_bytes=books.held_bytes,
        dead_letters=database.execute("SELECT count(*) FROM dead_letters")[0][0],
        leased=len(engine.leases.owners),
        oldest_age_ms=max(0, tx.now_ms - oldest[0][0]) if oldest else None,
        state=state,
        sentences=sentences,
        quarantined=tuple(quarantined(directory)),
        epoch=tx.books.epoch,
        disk_bytes=_disk_bytes(directory),
    )


def _disk_bytes(directory: Path) -> int:
    total = 0
    for part in ("", "-wal"):
        with contextlib.suppress(OSError):
            total += (directory / f"{NAME}{part}").stat().st_size
    return total
