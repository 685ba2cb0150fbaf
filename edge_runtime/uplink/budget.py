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
UPLINK_FILE, UPDATES_FILE = "budget.json", "bytes-of-the-day.json"
"""Names of the two files of a device: of events and evidence, and of releases."""

_MAX_FILE = 1024
_BESIDE_NS = 5 * NS_PER_S
"""How often the file of another process is read."""

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
        own_bytes: what this budget alone may take of `daily_bytes`; None is all of it.
        beside: file of another process's budget, whose bytes of the same day count against `daily_bytes` as well;
            both see what the other has claimed within seconds.

    Attributes:
        trouble: a sentence where the file could not be read or written, else None.
    """

    def __init__(
        self,
        file: Path,
        daily_bytes: int | None,
        overdraft: float,
        clock: Clock,
        *,
        own_bytes: int | None = None,
        beside: Path | None = None,
    ) -> None:
        self._file, self._limit, self._clock = file, daily_bytes, clock
        self._own, self._beside = own_bytes, beside
        self._elsewhere, self._looked_ns = 0, -_BESIDE_NS
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
        own = None if self._own is None else self._own - self._used
        if self._limit is None:
            return None if own is None else max(0, own)
        shared = self._limit + (self._overdraft if critical else 0) - self._used - self._claimed_elsewhere()
        return max(0, shared if own is None else min(own, shared))

    def _claimed_elsewhere(self) -> int:
        """Bytes of this day that the other process has claimed."""
        now_ns = self._clock.monotonic_ns()
        if self._beside is not None and now_ns - self._looked_ns >= _BESIDE_NS:
            self._looked_ns = now_ns
            found = _read(self._beside)
            self._elsewhere = (
                found.claimed if isinstance(found, Spent) and found.day == self._spent.day else 0
            )
        return self._elsewhere

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
        found = _read(self._file)
        if isinstance(found, _Damaged):
            self.trouble = "the byte budget's file is damaged; today's bytes are counted from zero"
            return None
        return found

    def _write(self, spent: Spent) -> None:
        self._spent = spent
        text = json.dumps({"day": spent.day, "claimed": spent.claimed, "ran_ns": spent.ran_ns})
        try:
            write_file(self._file, text.encode("ascii"), 0o600)
        except OSError as error:
            self.trouble = f"the byte budget cannot be written down ({error.strerror}); a restart forgets it"
        else:
            self.trouble = None


class _Damaged:
    """A file that holds no budget."""


def _read(path: Path) -> Spent | _Damaged | None:
    """What a budget's file holds; None where there is none."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX_FILE))
        numbers = [found[name] for name in ("day", "claimed", "ran_ns")]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return _Damaged()
    if all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        return Spent(*numbers)
    return _Damaged()
