"""What the outbox does between batches: expiry, the wall clock's word, and crops that nothing names."""

import hashlib
import os
import re
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock, WallLabel
from edge_runtime.outbox import evidence_rows, held_rows, queue_rows, ranges
from edge_runtime.outbox.engine import Engine
from edge_runtime.outbox.queue_time import TOLERANCE_MS
from edge_runtime.outbox.transaction import Transaction

MAX_CHUNKS = 8
"""Transactions of one round of expiry; the rest comes in the next round."""

SAVE_PERIOD_S = 60.0
"""An idle outbox with events in it saves its time so often, so that a power cut costs no more of it."""

SWEEP_PERIOD_S = 600.0
_CROP = re.compile(r"[0-9a-f]{64}\.jpg(\.part)?|\.[0-9a-f]{16}\.[0-9a-f]{8}\.part")
"""Names of crops, and of those that are being written (`edge_runtime.gate.crops`)."""

_MAX_CROPS = 100_000


def is_due(tx: Transaction, engine: Engine, wall: WallLabel) -> bool:
    """Whether a round of upkeep would change anything. An idle outbox writes nothing to the disk."""
    before = tx.now_ms
    read_wall(tx, engine, wall)
    now = tx.now_ms
    if queue_rows.runs_out(tx):
        return True
    for table in ("held", "evidence"):
        lowest = tx.database.execute(f"SELECT min(deadline) FROM {table}")[0][0]  # noqa: S608 - our own names
        if lowest is not None and lowest <= now:
            return True
    if now - before > TOLERANCE_MS:
        return True
    return tx.books.queued + tx.books.held > 0 and engine.is_stale(SAVE_PERIOD_S)


def expire_all(tx: Transaction) -> int:
    """One chunk of everything that is past its deadline; how many rows it was."""
    ended = queue_rows.expire(tx) + held_rows.expire(tx) + evidence_rows.expire(tx)
    ranges.bound_outcomes(tx.database, tx.books)
    tx.copy_books = True
    return ended


def read_wall(tx: Transaction, engine: Engine, wall: WallLabel) -> None:
    """Let the queue's time hear a synchronised wall clock."""
    if wall.synced:
        engine.time.read_wall(
            engine.boot_ms(), wall.unix_ns // NS_PER_MS, lambda time_ms: queue_rows.share_past(tx, time_ms)
        )
        tx.now_ms = engine.now_ms()


def identity_of(receipt: bytes) -> bytes:
    """16 bytes that name a receipt whose decision's id was not given."""
    return hashlib.sha256(receipt).digest()[:16]


class CropSweep:
    """Deletes crops in the evidence folder that no event names, once two looks ten minutes apart found them so.

    A crop is written before its event is submitted; what was never submitted, or not accepted, stays behind.

    Args:
        folder: the evidence folder.
        clock: measures between looks.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._suspects: set[str] = set()
        self._next_ns = clock.monotonic_ns()

    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return self._clock.monotonic_ns() >= self._next_ns

    def run(self, known: set[str]) -> int:
        """Look once; how many files were deleted.

        Args:
            known: names of the crops that are accounted for.
        """
        self._next_ns = self._clock.monotonic_ns() + round(SWEEP_PERIOD_S * NS_PER_S)
        unknown: set[str] = set()
        deleted = 0
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if not _is_crop(entry.name) or entry.name in known:
                        continue
                    if entry.name in self._suspects:
                        (self._folder / entry.name).unlink(missing_ok=True)
                        deleted += 1
                    elif len(unknown) < _MAX_CROPS:
                        unknown.add(entry.name)
        except OSError:
            pass  # no such folder yet, or a disk that fails: the next look is in ten minutes
        self._suspects = unknown
        return deleted


def _is_crop(name: str) -> bool:
    """Whether the gate made a file: a crop, or one that it was killed over while it wrote it."""
    return _CROP.fullmatch(name) is not None
