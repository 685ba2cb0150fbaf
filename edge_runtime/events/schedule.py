"""When a rule is active, on the device's local wall clock."""

from datetime import datetime

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.config.rules import Schedule

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def is_active(schedule: Schedule, local: datetime) -> bool:
    """Whether a rule is active at a local time.

    `start` belongs to the active time and `end` does not. A period whose end is not after its start runs past
    midnight and belongs to the day on which it starts: fri 22:00 to 06:00 ends on Saturday morning.
    """
    clock = local.time().replace(tzinfo=None)
    day = local.weekday()
    today, yesterday = _DAYS[day], _DAYS[day - 1]
    days = schedule.days or _DAYS
    start, end = schedule.start, schedule.end
    if start < end:
        return today in days and start <= clock < end
    return (today in days and clock >= start) or (yesterday in days and clock < end)


def is_active_at(schedule: Schedule | None, wall: WallLabel) -> bool:
    """The same for a wall label; without a schedule, or with a clock that nobody has set, a rule is active."""
    if schedule is None or not wall.synced:
        return True
    return is_active(schedule, datetime.fromtimestamp(wall.unix_ns / NS_PER_S))
