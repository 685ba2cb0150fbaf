"""Windows over changes of the clock, past midnight, and against a slow walk minute by minute."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fleet_server.rollouts.records import WeeklyWindow
from fleet_server.rollouts.windows import is_open, next_opening, open_ms, spans

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTE = 60_000
HOUR = 60 * MINUTE


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def window(begins: str, ends: str, zone: str = "Europe/Berlin", days: Any = DAYS) -> WeeklyWindow:
    return WeeklyWindow(days=tuple(days), begins=begins, ends=ends, zone=zone)


@pytest.mark.parametrize(
    ("moment", "opened"),
    [
        ("2027-01-15T20:59:59", False),
        ("2027-01-15T21:00:00", True),
        ("2027-01-16T03:59:59", True),
        ("2027-01-16T04:00:00", False),
        ("2027-07-15T19:59:59", False),  # in summer an hour sooner by UTC
        ("2027-07-15T20:00:00", True),
    ],
)
def test_a_window_in_local_time_goes_past_midnight_and_follows_summer(moment: str, opened: bool) -> None:
    assert is_open([window("22:00", "05:00")], at(moment)) is opened


def test_the_night_in_which_an_hour_is_left_out_is_shorter_and_the_other_is_longer() -> None:
    night = [window("01:00", "04:00")]
    spring, autumn = at("2027-03-27T23:00:00"), at("2027-10-30T22:00:00")
    assert open_ms(night, spring, spring + 6 * HOUR) == 2 * HOUR
    assert open_ms(night, autumn, autumn + 6 * HOUR) == 4 * HOUR


def test_a_time_that_the_clock_leaves_out_opens_after_the_gap() -> None:
    # 02:30 does not exist on that morning: at 02:00 it is 03:00
    assert next_opening([window("02:30", "03:30")], at("2027-03-28T00:00:00")) == at("2027-03-28T01:00:00")
    assert open_ms([window("02:10", "02:50")], at("2027-03-28T00:00:00"), at("2027-03-28T12:00:00")) == 0


def test_a_missed_window_comes_again() -> None:
    weekly = [window("22:00", "23:00", "UTC", ["mon"])]
    assert next_opening(weekly, at("2027-01-11T23:00:00")) == at("2027-01-18T22:00:00")
    assert not is_open(weekly, at("2027-01-12T22:30:00"))


def test_windows_that_touch_or_overlap_are_counted_once() -> None:
    both = [window("08:00", "10:00", "UTC"), window("09:00", "11:00", "UTC"), window("11:00", "12:00", "UTC")]
    begin = at("2027-01-15T00:00:00")
    assert spans(both, begin, begin + 24 * HOUR) == [(begin + 8 * HOUR, begin + 12 * HOUR)]


def test_without_windows_it_is_always_open() -> None:
    assert (is_open([], 5), next_opening([], 5), open_ms([], 5, 9), open_ms([], 9, 5)) == (True, 5, 4, 0)


def test_the_whole_day_is_one_window() -> None:
    begin = at("2027-01-15T00:00:00")
    assert open_ms([window("00:00", "24:00", "UTC")], begin, begin + 48 * HOUR) == 48 * HOUR


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", "/etc/localtime"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError, match=r"time zone|pattern"):
        window("08:00", "09:00", zone)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(at("2027-03-20T00:00:00") // MINUTE, at("2027-11-05T00:00:00") // MINUTE),
    st.integers(0, 23),
    st.integers(0, 23),
    st.sets(st.sampled_from(DAYS), min_size=1),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"]),
)
def test_each_minute_is_where_its_own_wall_clock_says(
    minute: int, begins: int, ends: int, days: set[str], zone: str
) -> None:
    one = window(f"{begins:02}:00", f"{ends:02}:00", zone, sorted(days))
    start = minute * MINUTE
    if open_ms([one], start, start + 12 * HOUR) != _walked(one, start, 12 * 60):
        # a change of the clock within the window's own border hour may be read either way
        assert any(_offset(zone, start + h * HOUR) != _offset(zone, start) for h in range(-24, 37))


def _walked(one: WeeklyWindow, start: int, minutes: int) -> int:
    zone = ZoneInfo(one.zone)
    total = 0
    for number in range(minutes):
        local = datetime.fromtimestamp((start + number * MINUTE) / 1000, zone)
        begins, ends, now = int(one.begins[:2]), int(one.ends[:2]), local.hour
        today, before = DAYS[local.weekday()], DAYS[local.weekday() - 1]
        if begins < ends:
            total += today in one.days and begins <= now < ends
        else:
            total += (today in one.days and now >= begins) or (before in one.days and now < ends)
    return total * MINUTE


def _offset(zone: str, moment: int) -> object:
    return datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).utcoffset()
