"""Times in sentences."""

from datetime import datetime, timezone


def instant(ms: int) -> str:
    """A time for people, in UTC to the minute."""
    return f"{datetime.fromtimestamp(ms / 1000, tz=timezone.utc):%Y-%m-%d %H:%M} UTC"
