"""Times, durations and numbers in sentences for people."""

from datetime import datetime, timezone


def instant(ms: int) -> str:
    """A time in UTC to the minute."""
    return f"{datetime.fromtimestamp(ms / 1000, tz=timezone.utc):%Y-%m-%d %H:%M} UTC"


def span(ms: int) -> str:
    """A duration in its two largest units: `5d`, `3h 20m`, `45s`."""
    seconds = max(0, ms) // 1000
    for unit, size, smaller, smaller_size in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size}{unit} {rest}{smaller}" if rest else f"{seconds // size}{unit}"
    return f"{seconds}s"


def many(count: int, one: str) -> str:
    """A number of things: `1 device`, `2 devices`."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"
