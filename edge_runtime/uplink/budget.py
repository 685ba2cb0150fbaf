"""How many bytes a day may cost: one budget over events, evidence and downloads, kept across restarts.

What is spent is claimed in blocks and written down before it is used, so that a killed process has counted too much
by one block at most, never too little. A day is a day in UTC where the clock is synchronised. Where it is not, and
where the stored day lies ahead (the clock was wrong once), a period lasts 24 hours of running.
"""

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock, WallLabel
from edge_runtime.durable import write_file

DAY_NS = 86_400 * NS_PER_S
_MAX_FILE = 1024
_BLOCKS = 200
"""A day's budget is written down in so many blocks at least: 200 small writes a day."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a budget's file holds.

    Attributes:
        day: days since 1970 in UTC, by the clock of then.
        claimed: bytes, used or about to be.
        ran_ns: how long the runtime has run in this period.
    """

    day: int
    claimed: int
    ran_ns: int = 0


def next_period(spent: Spent, wall: WallLabel, ran_ns: int) -> Spent:
    """The same period gone on, or a fresh one.

    Args:
        spent: as it was last written.
        wall: the clock, which may be wrong.
        ran_ns: how long the period has run altogether.
    """
    today = wall.unix_ns // DAY_NS
    if (wall.synced and today > spent.day) or ran_ns >= DAY_NS:
        return Spent(today, 0)
    return Spent(spent.day, spent.claimed, ran_ns)


class ByteBudget:
    """The budget of one day. Safe to use from several threads.

    Args:
        file: where it is kept; its directory exists.
        daily_bytes: None is no limit; bytes are counted all the same.
        overdraft: share of `daily_bytes` that critical events may take beyond it.
        clock: for the day, and for how long a period has run.

    Attributes:
        trouble: a sentence where the file could not be read or written, else None.
    """

    def __init__(self, file: Path, daily_bytes: int | None, overdraft: float, clock: Clock) -> None:
        self._file, self._limit, self._clock = file, daily_bytes, clock
        self._overdraft = int((daily_bytes or 0) * overdraft)
        self._block = max(1, min(64 * 1024, (daily_bytes or 0) // _BLOCKS)) if daily_bytes else 1024 * 1024
        self._lock = threading.Lock()
        self.trouble: str | None = None
        self._spent = self._read() or Spent(clock.wall().unix_ns // DAY_NS, 0)
        self._used = self._spent.claimed
        self._seen_ns = clock.monotonic_ns()

    @property
    def used(self) -> int:
        """Bytes of the present period, counting at most one block too many after a restart."""
        with self._lock:
            self._go_on()
            return self._used

    def left(self, *, critical: bool = False) -> int | None:
        """Bytes that may still be used today; None without a limit."""
        with self._lock:
            self._go_on()
            return self._left(critical=critical)

    def claim(self, count: int, *, critical: bool = False) -> bool:
        """Take bytes from the budget.

        Args:
            count: bytes, 0 or more.
            critical: may overdraw.

        Returns:
            Whether they may be used; if not, nothing was taken.
        """
        with self._lock:
            self._go_on()
            left = self._left(critical=critical)
            if left is not None and count > left:
                return False
            self._take(count)
            return True

    def note(self, count: int) -> None:
        """Count bytes that travelled whatever the budget says: receipts, commands, health."""
        with self._lock:
            self._go_on()
            self._take(count)

    def _left(self, *, critical: bool) -> int | None:
        if self._limit is None:
            return None
        return max(0, self._limit + (self._overdraft if critical else 0) - self._used)

    def _take(self, count: int) -> None:
        self._used += count
        if self._used > self._spent.claimed:
            claimed = self._used + self._block - self._used % self._block
            self._write(Spent(self._spent.day, claimed, self._spent.ran_ns))

    def _go_on(self) -> None:
        now = self._clock.monotonic_ns()
        ran = self._spent.ran_ns + max(0, now - self._seen_ns)
        self._seen_ns = now
        found = next_period(self._spent, self._clock.wall(), ran)
        if (found.day, found.claimed) != (self._spent.day, self._spent.claimed):
            self._used = 0
            self._write(found)
        self._spent = found

    def _read(self) -> Spent | None:
        try:
            with self._file.open("rb") as file:
                found = json.loads(file.read(_MAX_FILE))
            numbers = [found[name] for name in ("day", "claimed", "ran_ns")]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            numbers = []
        if len(numbers) == 3 and all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
            return Spent(*numbers)
        self.trouble = "the byte budget's file is damaged; today's bytes are counted from zero"
        return None

    def _write(self, spent: Spent) -> None:
        self._spent = spent
        text = json.dumps({"day": spent.day, "claimed": spent.claimed, "ran_ns": spent.ran_ns})
        try:
            write_file(self._file, text.encode("ascii"), 0o600)
        except OSError as error:
            self.trouble = f"the byte budget cannot be written down ({error.strerror}); a restart forgets it"
        else:
            self.trouble = None
