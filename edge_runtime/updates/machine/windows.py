"""When this device may put a new release in use: weekly windows of local time in a named zone.

A window is an interval between two instants: its start and its end are local times, turned into UTC before anything
is compared. So a night with 23 or 25 hours opens it once: a start within the hour that is skipped in spring lies as
long after midnight as the clock would have said without the change, and of the hour that comes twice in autumn the
first one counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEK = 7


@dataclass(frozen=True, slots=True)
class Window:
    """One window.

    Attributes:
        days: on which it starts, some of `DAYS`; empty means all.
        start, end: local times; an end that is not after the start is that of the next day.
    """

    days: tuple[str, ...]
    start: time
    end: time


@dataclass(frozen=True, slots=True)
class Windows:
    """All of a device; without any it may do so at any time."""

    windows: Sequence[Window]
    zone: tzinfo

    def is_open(self, unix_ms: int) -> bool:
        """Whether one is open at a time in milliseconds since 1970."""
        now = _instant(unix_ms)
        return not self.windows or any(start <= now < end for start, end in self._around(now))

    def opens_ms(self, unix_ms: int) -> int | None:
        """When the next one opens; None where one is open, or where there are none."""
        now = _instant(unix_ms)
        if self.is_open(unix_ms):
            return None
        return min(round(start.timestamp() * 1000) for start, end in self._around(now) if start > now)

    def _around(self, now: datetime) -> list[tuple[datetime, datetime]]:
        today = now.astimezone(self.zone).date()
        days = [today + timedelta(days=offset) for offset in range(-2, _WEEK + 2)]
        return [
            self._interval(window, day)
            for window in self.windows
            for day in days
            if not window.days or DAYS[day.weekday()] in window.days
        ]

    def _interval(self, window: Window, day: date) -> tuple[datetime, datetime]:
        last = day if window.end > window.start else day + timedelta(days=1)
        return self._utc(day, window.start), self._utc(last, window.end)

    def _utc(self, day: date, clock: time) -> datetime:
        return datetime.combine(day, clock, self.zone).astimezone(timezone.utc)


ALWAYS = Windows((), timezone.utc)


def _instant(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms / 1000, timezone.utc)
