"""Weekly windows in a time zone of their own, as spans of UTC: a clock change moves them as people expect.

A window is written in local time and turned into UTC for each day by itself, so that it begins at 22:00 on the wall
all year. A local time that a change of the clock leaves out is the moment at which the clock was set forward.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from fleet_server.rollouts.records import WeeklyWindow

Span = tuple[int, int]
"""Milliseconds since 1970: from, until (not included)."""

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_AHEAD_MS = 15 * 86_400_000
"""A weekly window comes again within eight days, whatever the clocks do."""


def is_open(windows: Sequence[WeeklyWindow], now_ms: int) -> bool:
    """Whether a moment lies in one of the windows; without any window every moment does."""
    return not windows or bool(spans(windows, now_ms, now_ms + 1))


def next_opening(windows: Sequence[WeeklyWindow], now_ms: int) -> int:
    """The first moment from now on that lies in a window, milliseconds since 1970."""
    if not windows:
        return now_ms
    return spans(windows, now_ms, now_ms + _AHEAD_MS)[0][0]


def open_ms(windows: Sequence[WeeklyWindow], begin_ms: int, end_ms: int) -> int:
    """How long of a span lies in windows, in milliseconds; 0 for a span that ends before it begins."""
    if end_ms <= begin_ms:
        return 0
    if not windows:
        return end_ms - begin_ms
    return sum(end - begin for begin, end in spans(windows, begin_ms, end_ms))


def spans(windows: Sequence[WeeklyWindow], begin_ms: int, end_ms: int) -> list[Span]:
    """The windows within a span, in order and joined where they touch."""
    found = sorted(span for window in windows for span in _of(window, begin_ms, end_ms))
    joined: list[Span] = []
    for begin, end in found:
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _of(window: WeeklyWindow, begin_ms: int, end_ms: int) -> list[Span]:
    zone = ZoneInfo(window.zone)
    begins, ends = _minutes(window.begins), _minutes(window.ends)
    if ends <= begins:
        ends += 24 * 60
    day = datetime.fromtimestamp(begin_ms / 1000, zone).date() - timedelta(
        days=2
    )  # one may have begun before
    last = datetime.fromtimestamp(end_ms / 1000, zone).date()
    found = []
    while day <= last:
        if _DAYS[day.weekday()] in window.days:
            begin, end = (max(_utc_ms(day, begins, zone), begin_ms), min(_utc_ms(day, ends, zone), end_ms))
            if begin < end:
                found.append((begin, end))
        day += timedelta(days=1)
    return found


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _utc_ms(day: date, minutes: int, zone: ZoneInfo) -> int:
    local = (datetime(day.year, day.month, day.day) + timedelta(minutes=minutes)).replace(tzinfo=zone)
    found = local.astimezone(timezone.utc)
    if found.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        after = found.astimezone(zone).utcoffset()
        while (found - timedelta(minutes=1)).astimezone(zone).utcoffset() == after:
            found -= timedelta(minutes=1)
    return int(found.timestamp()) * 1000
