"""Maintenance windows in a named zone, on the two nights of the year that are not 24 hours long (kind 21)."""

from datetime import datetime, time, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.updates.machine.windows import ALWAYS, Window, Windows

ZURICH = ZoneInfo("Europe/Zurich")
MINUTE_MS = 60_000


def ms(text: str) -> int:
    """Of a time in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


def windows(start: str, end: str, *days: str, zone: ZoneInfo = ZURICH) -> Windows:
    return Windows((Window(days, time.fromisoformat(start), time.fromisoformat(end)),), zone)


def open_minutes(found: Windows, begin: str, minutes: int = 1500) -> int:
    start = ms(begin)
    return sum(found.is_open(start + minute * MINUTE_MS) for minute in range(minutes))


@pytest.mark.parametrize(
    ("start", "end", "night", "minutes"),
    [
        # 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC
        ("01:00", "05:00", "2026-03-28T20:00", 180),
        ("02:00", "03:00", "2026-03-28T20:00", 0),
        ("02:00", "02:30", "2026-03-28T20:00", 30),
        ("01:30", "02:30", "2026-03-28T20:00", 60),
        # 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC
        ("01:00", "05:00", "2026-10-24T20:00", 300),
        ("02:00", "02:30", "2026-10-24T20:00", 30),
        ("01:30", "02:30", "2026-10-24T20:00", 60),
        # any other night
        ("01:00", "05:00", "2026-06-10T20:00", 240),
        ("23:00", "01:00", "2026-06-10T20:00", 120),
    ],
)
def test_nights_of_23_and_of_25_hours(start: str, end: str, night: str, minutes: int) -> None:
    assert open_minutes(windows(start, end), night, 24 * 60 - 60) == minutes


def test_the_skipped_hour_opens_as_late_as_the_clock_would_have_said() -> None:
    """02:00 to 02:30 does not exist on that night; it opens once, from 03:00 to 03:30 of the new time."""
    night = windows("02:00", "02:30")
    assert night.is_open(ms("2026-03-29T01:00"))
    assert night.is_open(ms("2026-03-29T01:29"))
    assert not night.is_open(ms("2026-03-29T00:59"))
    assert not night.is_open(ms("2026-03-29T01:30"))


def test_the_hour_that_comes_twice_counts_once() -> None:
    night = windows("02:00", "02:30")
    assert night.is_open(ms("2026-10-25T00:15"))
    assert not night.is_open(ms("2026-10-25T01:15"))


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    friday = windows("22:00", "02:00", "fri")
    assert friday.is_open(ms("2026-06-12T21:00"))
    assert friday.is_open(ms("2026-06-12T23:30")), "Saturday morning, in Zurich"
    assert not friday.is_open(ms("2026-06-11T23:30"))
    assert not friday.is_open(ms("2026-06-13T00:00"))


def test_one_that_was_missed_waits_for_the_next() -> None:
    sunday = windows("03:00", "04:00", "sun")
    assert sunday.opens_ms(ms("2026-06-14T02:00")) == ms("2026-06-21T01:00")
    assert sunday.opens_ms(ms("2026-06-14T01:30")) is None


def test_from_midnight_to_midnight_is_a_whole_day() -> None:
    assert open_minutes(windows("00:00", "00:00", "wed"), "2026-06-09T00:00", 3 * 24 * 60) == 24 * 60


def test_without_any_it_is_always_open() -> None:
    assert ALWAYS.is_open(0)
    assert ALWAYS.opens_ms(0) is None


@given(
    st.integers(ms("2026-01-01T00:00"), ms("2027-01-01T00:00")),
    st.times(),
    st.times(),
    st.sampled_from([(), ("mon",), ("sat", "sun")]),
    st.sampled_from(["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kolkata"]),
)
def test_where_it_says_that_it_opens_it_is_open(
    at_ms: int, start: time, end: time, days: tuple[str, ...], zone: str
) -> None:
    start, end = start.replace(microsecond=0, tzinfo=None), end.replace(microsecond=0, tzinfo=None)
    found = Windows((Window(days, start, end),), ZoneInfo(zone))
    opens_ms = found.opens_ms(at_ms)
    assert (opens_ms is None) == found.is_open(at_ms)
    if opens_ms is not None:
        assert opens_ms > at_ms
        assert opens_ms - at_ms <= 8 * 86_400_000 + 7_200_000
