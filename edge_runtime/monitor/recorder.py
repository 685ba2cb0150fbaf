"""The flight recorder: takes records at once, and has a thread of its own that waits for the disk.

A card or an eMMC may stall for seconds while it tidies up. Rounds must not: the guard would take the monitor for
hung. What finds no room in memory, or cannot be written, is counted, and told in the next record that can be.
"""

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.monitor.flight import FlightRecord, FlightWriter, encode_record
from edge_runtime.telemetry import get_logger

MOST_WAITING = 4096
"""Records in memory while the disk stalls: some minutes."""


class Recorder:
    """Writes records to a folder.

    Args:
        folder: of the recorder.
        most_bytes: of its files together.
        sync_s: what is not urgent is on the disk after so long.
        clock: time.
        most_waiting: records in memory.
    """

    def __init__(
        self, folder: Path, most_bytes: int, sync_s: float, clock: Clock, most_waiting: int = MOST_WAITING
    ) -> None:
        self._writer = FlightWriter(folder, most_bytes)
        self._sync_ns, self._clock, self._most = int(sync_s * NS_PER_S), clock, most_waiting
        self._waiting: deque[tuple[bytes, bool]] = deque()
        self._changed = threading.Condition()
        self._taken = self._done = self._lost = 0
        self._ending = False
        self._unsynced_ns: int | None = None
        self._failing = ""
        self._log = get_logger()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def append(self, records: Sequence[FlightRecord], *, urgent: bool = False) -> int:
        """Take records; never waits.

        Args:
            records: in their order.
            urgent: put them onto the disk at once.

        Returns:
            A number that `done` reaches when they were written, or lost.

        Raises:
            ValueError: one is longer than `flight.LARGEST_LINE`; none of them is taken.
        """
        lines = [encode_record(record) for record in records]
        with self._changed:
            for line in lines:
                self._taken += 1
                if len(self._waiting) < self._most:
                    self._waiting.append((line, urgent))
                else:
                    self._done += 1
                    self._lost += 1
            self._changed.notify()
            return self._taken

    @property
    def done(self) -> int:
        """How many records were written or lost."""
        with self._changed:
            return self._done

    @property
    def lost(self) -> int:
        """How many could not be written: the disk is full or fails, or stalls for longer than there is room."""
        with self._changed:
            return self._lost

    @property
    def failing(self) -> str:
        """Why nothing can be written now; empty where it can."""
        with self._changed:
            return self._failing

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write and sync what waits, for so long at most; whether all of it was written."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and self.lost == 0

    # ---- in the recorder's thread

    def _run(self) -> None:
        while True:
            batch, ending = self._next()
            if batch:
                self._write(batch)
            if self._due(urgent=ending or any(urgent for _, urgent in batch)):
                self._unsynced_ns = None
                if not self._writer.sync():
                    self._told(self._writer.error)
            if ending and not batch:
                self._writer.close()
                return

    def _next(self) -> tuple[list[tuple[bytes, bool]], bool]:
        with self._changed:
            if not self._waiting and not self._ending:
                self._changed.wait(self._left_s())
            batch = list(self._waiting)
            self._waiting.clear()
            return batch, self._ending

    def _write(self, batch: Sequence[tuple[bytes, bool]]) -> None:
        written = self._writer.append([line for line, _ in batch])
        if self._unsynced_ns is None and written:
            self._unsynced_ns = self._clock.monotonic_ns()
        with self._changed:
            self._done += len(batch)
            self._lost += len(batch) - written
        self._told(self._writer.error)

    def _left_s(self) -> float | None:
        """Until something has to be synced; None where nothing has."""
        if self._unsynced_ns is None:
            return None
        return max(0.0, (self._unsynced_ns + self._sync_ns - self._clock.monotonic_ns()) / NS_PER_S)

    def _due(self, *, urgent: bool) -> bool:
        return self._unsynced_ns is not None and (urgent or self._left_s() == 0.0)

    def _told(self, error: str) -> None:
        with self._changed:
            before, self._failing = self._failing, error
        if error and not before:
            self._log.warning("flight recorder cannot write: records are lost and counted", why=error)
        elif before and not error:
            self._log.info("flight recorder writes again", lost=self.lost)
