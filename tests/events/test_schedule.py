"""Schedules on the local wall clock."""

from datetime import datetime

import pytest

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.config.rules import Schedule
from edge_runtime.events.schedule import is_active, is_active_at

# 2026-11-27 is a Friday.
FRIDAY_NIGHT = {"days": ("fri",), "start": "22:00", "end": "06:00"}
OFFICE = {"days": ("mon", "tue"), "start": "08:00", "end": "17:30"}


@pytest.mark.parametrize(
    ("schedule", "local", "expected"),
    [
        ({}, "2026-11-27 00:00", True),
        ({}, "2026-11-27 23:59", True),
        (OFFICE, "2026-11-23 08:00", True),  # the start belongs to it
        (OFFICE, "2026-11-23 07:59", False),
        (OFFICE, "2026-11-23 17:29", True),
        (OFFICE, "2026-11-23 17:30", False),  # the end does not
        (OFFICE, "2026-11-25 12:00", False),
        (FRIDAY_NIGHT, "2026-11-27 21:59", False),
        (FRIDAY_NIGHT, "2026-11-27 22:00", True),
        (FRIDAY_NIGHT, "2026-11-27 23:59", True),
        (FRIDAY_NIGHT, "2026-11-28 00:00", True),  # past midnight it is still Friday's
        (FRIDAY_NIGHT, "2026-11-28 05:59", True),
        (FRIDAY_NIGHT, "2026-11-28 06:00", False),
        (FRIDAY_NIGHT, "2026-11-28 22:00", False),  # Saturday's is not on the list
        (FRIDAY_NIGHT, "2026-11-27 03:00", False),  # Thursday's neither
        ({"days": ("sun",)}, "2026-11-29 12:00", True),
        ({"days": ("sun",)}, "2026-11-30 00:00", False),
        ({"days": ("sun",), "start": "20:00", "end": "20:00"}, "2026-11-30 19:59", True),  # a whole day
        ({"days": ("sun",), "start": "20:00", "end": "20:00"}, "2026-11-30 20:00", False),
    ],
)
def test_table(schedule: dict[str, object], local: str, expected: bool) -> None:
    assert is_active(Schedule.model_validate(schedule), datetime.fromisoformat(local)) is expected


def label(local: str, *, synced: bool) -> WallLabel:
    return WallLabel(round(datetime.fromisoformat(local).timestamp() * NS_PER_S), synced, "boot")


def test_the_wall_clock_is_read_as_local_time() -> None:
    office = Schedule.model_validate(OFFICE)
    assert is_active_at(office, label("2026-11-23 08:00", synced=True))
    assert not is_active_at(office, label("2026-11-23 07:59", synced=True))


def test_a_clock_that_nobody_set_leaves_rules_active() -> None:
    assert is_active_at(Schedule.model_validate(OFFICE), label("2026-11-25 03:00", synced=False))
    assert is_active_at(None, label("2026-11-25 03:00", synced=True))
