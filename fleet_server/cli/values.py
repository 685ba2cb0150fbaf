"""Words on the command line that stand for values: durations, instants, labels."""

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.errors import ConfigError

_SPAN = re.compile(r"(?P<count>[0-9]{1,6}) ?(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def span_s(text: str, option: str) -> int:
    """Seconds in a duration such as `90s`, `15m`, `24h` or `7d`.

    Raises:
        ConfigError: it is none.
    """
    found = seconds_of(text)
    if found is None:
        raise ConfigError(f"{option}: a duration such as 90s, 15m, 24h or 7d")
    return found


def seconds_of(text: str) -> int | None:
    """Seconds in a duration such as `90s`; None where it is none."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else int(found["count"]) * _SECONDS[found["unit"]]


def unix_ms_of(text: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time, without a zone in UTC; None where it is none, or before 1970."""
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        value = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return value if value >= 0 else None


def instant_ms(text: str | None, option: str, clock: Clock) -> int | None:
    """Milliseconds since 1970 of a duration ago (`1h`), or of an ISO 8601 time; without a zone it is UTC.

    Raises:
        ConfigError: it is neither.
    """
    if text is None:
        return None
    if (ago_s := seconds_of(text)) is not None:
        return max(0, clock.wall().unix_ns // NS_PER_MS - ago_s * 1000)
    value = unix_ms_of(text)
    if value is None:
        raise ConfigError(f"{option}: a duration such as 1h, or a time such as 2026-03-01T12:00:00Z")
    return value


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    """Labels of `KEY=VALUE` texts.

    Raises:
        ConfigError: one is not of that form.
    """
    labels = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise ConfigError(f"--label {text[:80]}: it is KEY=VALUE")
        labels[key] = value
    return labels
