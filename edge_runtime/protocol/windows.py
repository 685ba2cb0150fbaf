"""Windows of the week in local time: when a fleet offers a release, and when a device puts one in use.

One rule says what a time on the wall is in a night of 23 or of 25 hours: the first moment of that day at which the
clock shows it, or has gone past it. So no window begins before its start or outlasts its end by the clock on the
wall. One that lies within the hour that is skipped in spring does not open that night and waits for its next day;
of an hour that comes twice in autumn the first counts, for starts and for ends. From 01:00 to 05:00 are three
hours in the one night and five in the other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXAMPLE = "mon-fri 22:00-05:00 Europe/Berlin"
"""A window, for messages."""

Span = tuple[int, int]
"""Milliseconds since 1970: from, until (not included)."""

_TEXT = re.compile(r"(?P<days>[a-z,-]+) (?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)( (?P<zone>\S+))?")
_AHEAD_MS = 15 * 86_400_000
"""Further than any window lies ahead: a week, and another where a change of the clock takes one away."""


@dataclass(frozen=True, slots=True)
class Window:
    """One window.

    Attributes:
        days: on which it starts, some of `DAYS`; empty means all.
        start, end: local times of `zone`; an end that is not after the start is of the next day.

    Raises:
        ValueError: start and end are the same, other than from midnight to midnight, which is a whole day.
    """

    days: tuple[str, ...]
    start: time
    end: time
    zone: tzinfo = timezone.utc

    def __post_init__(self) -> None:
        """Refuse what could be read as never and as always."""
        require_length(self.start, self.end)

    @classmethod
    def parse(cls, text: str) -> "Window":
        """Of `mon-fri 22:00-05:00 Europe/Berlin`: days or `daily`, times up to 24:00, and a zone, or else UTC.

        Raises:
            ValueError: it is none; the text of the error stands behind the name of what was read.
        """
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"must be a weekly window such as {EXAMPLE}")
        end = "00:00" if found["end"] == "24:00" else found["end"]
        days, zone = parse_days(found["days"]), zone_of(found["zone"] or "UTC")
        try:
            start, until = time.fromisoformat(found["start"]), time.fromisoformat(end)
        except ValueError:
            raise ValueError("must name times of a day from 00:00 to 24:00") from None
        return cls(days, start, until, zone)


@dataclass(frozen=True, slots=True)
class Windows:
    """Several; without any it is always open. Times are milliseconds since 1970."""

    windows: Sequence[Window] = ()

    def is_open(self, unix_ms: int) -> bool:
        """Whether a moment lies in one of them."""
        return not self.windows or bool(self.spans(unix_ms, unix_ms + 1))

    def opens_ms(self, unix_ms: int) -> int:
        """The first moment from one on at which one is open: that moment itself where one is, or without any."""
        return self.spans(unix_ms, unix_ms + _AHEAD_MS)[0][0] if self.windows else unix_ms

    def open_ms(self, begin_ms: int, end_ms: int) -> int:
        """How long of a span lies in windows, in milliseconds; 0 for a span that ends before it begins."""
        if not self.windows:
            return max(0, end_ms - begin_ms)
        return sum(end - begin for begin, end in self.spans(begin_ms, end_ms))

    def spans(self, begin_ms: int, end_ms: int) -> list[Span]:
        """The windows within a span, in order and joined where they touch."""
        found = sorted(span for window in self.windows for span in _within(window, begin_ms, end_ms))
        joined: list[Span] = []
        for begin, end in found:
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((begin, end))
        return joined


ALWAYS = Windows()


def parse_days(text: str) -> tuple[str, ...]:
    """Days of `mon-fri`, `sat,sun` or `daily`, in the order of the week; a range may go over its end.

    Raises:
        ValueError: it names others.
    """
    if text == "daily":
        return DAYS
    chosen: set[str] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"must name days by {', '.join(DAYS)}, or daily")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        chosen.update(DAYS[(begin + step) % len(DAYS)] for step in range((end - begin) % len(DAYS) + 1))
    return tuple(day for day in DAYS if day in chosen)


def zone_of(name: str) -> tzinfo:
    """The zone of a name such as Europe/Zurich.

    Raises:
        ValueError: this machine knows none of that name.
    """
    if name == "UTC":  # no data of zones is needed for it
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(
            "is no time zone that this machine knows, such as Europe/Zurich; its data may not be installed (tzdata)"
        ) from None


def require_length(start: time, end: time) -> None:
    """Have a window last.

    Raises:
        ValueError: it could be read as never and as always.
    """
    if start == end and start != time(0):
        raise ValueError("start and end are the same; a whole day is from 00:00 to 00:00")


def _within(window: Window, begin_ms: int, end_ms: int) -> list[Span]:
    """A window's spans within one, shortened to it."""
    if end_ms <= begin_ms:
        return []
    # one may have begun two days before by the local calendar, where a zone once left out a day
    first, last = (datetime.fromtimestamp(ms / 1000, window.zone).date() for ms in (begin_ms, end_ms))
    found = []
    for offset in range(-2, (last - first).days + 1):
        day = first + timedelta(days=offset)
        if window.days and DAYS[day.weekday()] not in window.days:
            continue
        until = day if window.end > window.start else day + timedelta(days=1)
        begin, end = _unix_ms(day, window.start, window.zone), _unix_ms(until, window.end, window.zone)
        begin, end = max(begin, begin_ms), min(end, end_ms)
        if begin < end:
            found.append((begin, end))
    return found


def _unix_ms(day: date, clock: time, zone: tzinfo) -> int:
    """The first moment of a day at which its clock shows a time or has gone past it."""
    local = datetime.combine(day, clock, zone)
    found = local.astimezone(timezone.utc)
    if found.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
        return round(found.timestamp() * 1000)
    # skipped: the clock was set forward between this time by the offset after the change and by the one before it
    early, late = round(local.replace(fold=1).timestamp()), round(found.timestamp())
    while late - early > 1:
        middle = (early + late) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == local.utcoffset():
            early = middle
        else:
            late = middle
    return late * 1000
