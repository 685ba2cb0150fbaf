"""Time as it was: the clock of a replay stands where the record is, and local time is that of the recording."""

import contextlib
import os
import time
from collections.abc import Iterator

from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.monitor.flight import FlightRecord


class ReplayClock:
    """All clocks of the device that was recorded; they move from record to record."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._wall = WallLabel(0, synced=False, boot_id="unknown")

    def stand_at(self, record: FlightRecord) -> None:
        """It is now as it was when this was recorded."""
        self._now_ns = record.at_ns
        self._wall = WallLabel(record.wall_ms * NS_PER_MS, record.synced, record.boot)

    def monotonic_ns(self) -> int:
        """Nanoseconds on CLOCK_MONOTONIC."""
        return self._now_ns

    def boottime_ns(self) -> int:
        """The same: how long the device slept was not recorded, and nothing here asks."""
        return self._now_ns

    def wall(self) -> WallLabel:
        """The wall clock as a label."""
        return self._wall


@contextlib.contextmanager
def local_time(utc_offset_s: int) -> Iterator[None]:
    """Let local time of this process be that of the recording: schedules of rules go by it."""
    before = os.environ.get("TZ")
    sign = "-" if utc_offset_s >= 0 else "+"  # POSIX counts to the west
    hours, seconds = divmod(abs(utc_offset_s), 3600)
    os.environ["TZ"] = f"REC{sign}{hours:02d}:{seconds // 60:02d}:{seconds % 60:02d}"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
