"""From when on records are shown: a time, or so long before the newest record, which also fits a dead device."""

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from edge_runtime.errors import ConfigError
from edge_runtime.monitor.flight import Damage, FlightRecord, read_flight

_SPAN = re.compile(r"(\d{1,6})\s*(s|min|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def since_ms(text: str, newest_ms: int) -> int:
    """Milliseconds since 1970 from which on records are wanted.

    Args:
        text: `30s`, `15m`, `2h`, `1d` before the newest record, or a time as in 2026-11-29T23:00, in UTC where it
            names no zone.
        newest_ms: wall label of the newest record.

    Raises:
        ConfigError: it is neither.
    """
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        return newest_ms - int(span[1]) * _SECONDS[span[2]] * 1000
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"--since {text[:40]!r}: write 30s, 15m, 2h or 1d before the newest record, or a time as in "
            f"2026-11-29T23:00"
        ) from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return int(aware.timestamp() * 1000)


def wanted(folder: Path, text: str | None, damage: Damage) -> Iterator[FlightRecord]:
    """Records of a folder, oldest first, from a time on.

    Args:
        folder: of the recorder.
        text: see `since_ms`; None: all of them.
        damage: told what could not be read.

    Raises:
        ConfigError: `text` cannot be understood.
    """
    if text is None:
        yield from read_flight(folder, damage)
        return
    newest_ms = max((record.wall_ms for record in read_flight(folder, Damage())), default=0)
    first_ms = since_ms(text, newest_ms)
    for record in read_flight(folder, damage):
        if record.wall_ms >= first_ms:
            yield record
