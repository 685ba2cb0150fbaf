"""Weekly windows: the one rule for nights of 23 and of 25 hours in several zones, midnight, and weekdays."""

from datetime import datetime, time, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.protocol.windows import ALWAYS, DAYS, Window, Windows, zone_of

MINUTE = 60_000
HOUR = 60 * MINUTE
BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def windows(*texts: str) -> Windows:
    return Windows(tuple(Window.parse(text) for text in texts))


@pytest.mark.parametrize(
    ("window", "zone", "evening", "opened"),
    [
        # 28 March 2027 in Berlin: 02:00 becomes 03:00 at 01:00 UTC
        ("01:00-05:00", BERLIN, "2027-03-27T20:00", [("00:00", "03:00")]),
        ("02:30-03:30", BERLIN, "2027-03-27T20:00", [("01:00", "01:30")]),
        ("01:30-02:30", BERLIN, "2027-03-27T20:00", [("00:30", "01:00")]),
        ("02:10-02:50", BERLIN, "2027-03-27T20:00", []),
        ("02:00-03:00", BERLIN, "2027-03-27T20:00", []),
        # 31 October 2027: 03:00 becomes 02:00 at 01:00 UTC
        ("01:00-05:00", BERLIN, "2027-10-30T20:00", [("23:00", "04:00")]),
        ("02:10-02:50", BERLIN, "2027-10-30T20:00", [("00:10", "00:50")]),
        ("02:30-05:00", BERLIN, "2027-10-30T20:00", [("00:30", "04:00")]),
        ("01:30-02:30", BERLIN, "2027-10-30T20:00", [("23:30", "00:30")]),
        # 14 March 2027 in New York: 02:00 becomes 03:00 at 07:00 UTC; 7 November: 02:00 becomes 01:00 at 06:00
        ("02:30-03:30", NEW_YORK, "2027-03-14T00:00", [("07:00", "07:30")]),
        ("02:00-02:59", NEW_YORK, "2027-03-14T00:00", []),
        ("01:10-01:50", NEW_YORK, "2027-11-07T00:00", [("05:10", "05:50")]),
        ("01:30-03:00", NEW_YORK, "2027-11-07T00:00", [("05:30", "08:00")]),
        # Lord Howe changes by half an hour: 3 October 2027, 02:00 becomes 02:30 at 15:30 UTC of the day before
        ("02:10-02:40", LORD_HOWE, "2027-10-02T04:00", [("15:30", "15:40")]),
        # any other night
        ("01:00-05:00", BERLIN, "2027-06-10T20:00", [("23:00", "03:00")]),
        ("23:00-01:00", BERLIN, "2027-06-10T20:00", [("21:00", "23:00")]),
    ],
)
def test_the_nights_of_23_and_of_25_hours(
    window: str, zone: str, evening: str, opened: list[tuple[str, str]]
) -> None:
    begin = at(evening)
    found = windows(f"daily {window} {zone}").spans(begin, begin + 20 * HOUR)
    shown = [
        tuple(f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%H:%M}" for ms in span) for span in found
    ]
    assert shown == opened


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
    assert windows(f"daily 22:00-05:00 {BERLIN}").is_open(at(moment)) is opened


def test_one_that_a_night_leaves_out_waits_for_its_next_day() -> None:
    sunday = windows(f"sun 02:10-02:50 {BERLIN}")
    assert sunday.opens_ms(at("2027-03-28T00:00")) == at("2027-04-04T02:10", BERLIN)
    assert not sunday.is_open(at("2027-03-28T01:00"))


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    friday = windows("fri 22:00-02:00 Europe/Zurich")
    assert friday.is_open(at("2026-06-12T21:00"))
    assert friday.is_open(at("2026-06-12T23:30")), "Saturday morning, in Zurich"
    assert not friday.is_open(at("2026-06-11T23:30"))
    assert not friday.is_open(at("2026-06-13T00:00"))


def test_one_that_was_missed_waits_for_the_next() -> None:
    monday = windows("mon 22:00-23:00")
    assert monday.opens_ms(at("2027-01-11T23:00")) == at("2027-01-18T22:00")
    assert monday.opens_ms(at("2027-01-11T22:30")) == at("2027-01-11T22:30"), "it is open"
    assert not monday.is_open(at("2027-01-12T22:30"))


def test_windows_that_touch_or_overlap_are_counted_once_whatever_their_zones() -> None:
    three = windows("daily 08:00-10:00", f"daily 10:00-12:00 {BERLIN}", "daily 11:00-12:00")
    begin = at("2027-01-15T00:00")
    assert three.spans(begin, begin + 24 * HOUR) == [(begin + 8 * HOUR, begin + 12 * HOUR)]


def test_from_midnight_to_midnight_is_a_whole_day() -> None:
    begin = at("2027-01-15T00:00")
    for text in ("daily 00:00-24:00", "daily 00:00-00:00"):
        assert windows(text).open_ms(begin, begin + 48 * HOUR) == 48 * HOUR
    assert windows(f"wed 00:00-24:00 {BERLIN}").open_ms(begin, begin + 14 * 24 * HOUR) == 48 * HOUR


def test_without_any_it_is_always_open() -> None:
    assert (ALWAYS.is_open(5), ALWAYS.opens_ms(5), ALWAYS.open_ms(5, 9), ALWAYS.open_ms(9, 5)) == (
        True,
        5,
        4,
        0,
    )


def test_no_days_are_all_days() -> None:
    every = Windows((Window((), time(22), time(5), zone_of(BERLIN)),))
    begin = at("2027-03-20T00:00")
    assert every.spans(begin, begin + 300 * HOUR) == windows(f"daily 22:00-05:00 {BERLIN}").spans(
        begin, begin + 300 * HOUR
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mon 22:00", "must be a weekly window"),
        ("someday 22:00-23:00", "must name days"),
        ("fri-tuesday 22:00-23:00", "must name days"),
        ("mon 25:00-26:00", "must name times"),
        ("mon 24:00-01:00", "must name times"),
        ("mon 02:00-02:00", "are the same"),
        ("mon 02:00-03:00 Europe/Atlantis", "no time zone"),
        ("mon 02:00-03:00 ../etc/passwd", "no time zone"),
        ("mon 02:00-03:00 /etc/localtime", "no time zone"),
    ],
)
def test_what_is_no_window_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Window.parse(text)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("daily", DAYS),
        ("fri-mon", ("mon", "fri", "sat", "sun")),
        ("sun,sat", ("sat", "sun")),
        ("tue", ("tue",)),
    ],
)
def test_days_in_words(text: str, days: tuple[str, ...]) -> None:
    assert Window.parse(f"{text} 01:00-02:00").days == days


@settings(max_examples=30, deadline=None)
@given(
    st.integers(at("2027-01-01T00:00") // MINUTE, at("2027-12-20T00:00") // MINUTE),
    st.integers(0, 47),
    st.integers(0, 47),
    st.sets(st.sampled_from(DAYS), min_size=1),
    st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "Asia/Kolkata", "Pacific/Auckland"]),
)
def test_no_minute_is_open_that_the_clock_on_the_wall_puts_outside(
    minute: int, start: int, end: int, days: set[str], zone: str
) -> None:
    """Against a slow walk: the two differ only where the clock shows an hour for the second time."""
    if start == end:
        end = (start + 1) % 48
    window = Window(tuple(days), _half(start), _half(end), ZoneInfo(zone))
    found, begin = Windows((window,)), minute * MINUTE
    for number in range(24 * 12):
        now = begin + number * 5 * MINUTE
        if found.is_open(now) != _walked(window, now):
            seen = datetime.fromtimestamp(now / 1000, window.zone)
            again = datetime.fromtimestamp((now - HOUR) / 1000, window.zone).utcoffset()
            assert seen.fold == 1 or seen.utcoffset() != again, "another minute than those that come twice"


def _half(number: int) -> time:
    return time(number // 2, number % 2 * 30)


def _walked(window: Window, now: int) -> bool:
    local = datetime.fromtimestamp(now / 1000, window.zone)
    today, before, clock = DAYS[local.weekday()], DAYS[local.weekday() - 1], local.time()
    if window.start < window.end:
        return today in window.days and window.start <= clock < window.end
    return (today in window.days and clock >= window.start) or (before in window.days and clock < window.end)


@given(
    st.integers(at("2026-01-01T00:00"), at("2027-01-01T00:00")),
    st.times(),
    st.times(),
    st.sampled_from([(), ("mon",), ("sat", "sun")]),
    st.sampled_from(["Europe/Zurich", NEW_YORK, LORD_HOWE, "UTC", "Asia/Kolkata"]),
)
def test_where_it_says_that_it_opens_it_is_open(
    at_ms: int, start: time, end: time, days: tuple[str, ...], zone: str
) -> None:
    start, end = start.replace(microsecond=0, tzinfo=None), end.replace(microsecond=0, tzinfo=None)
    if start == end:
        start = end = time(0)
    found = Windows((Window(days, start, end, ZoneInfo(zone)),))
    opens_ms = found.opens_ms(at_ms)
    assert found.is_open(opens_ms)
    assert (opens_ms == at_ms) == found.is_open(at_ms)
    if opens_ms > at_ms:
        assert not found.is_open(opens_ms - 1)
        assert opens_ms - at_ms <= 14 * 24 * HOUR
