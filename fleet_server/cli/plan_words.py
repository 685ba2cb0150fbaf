"""Words of a plan that stand for values: shares, sizes, times of the week, releases. Each reader takes one value.

Readers raise `ValueError` with words that stand behind the name of what they read.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from edge_runtime.protocol.release import BUCKETS, ReleaseKind
from edge_runtime.protocol.windows import EXAMPLE, Window
from fleet_server.cli.values import seconds_of, unix_ms_of

_PERCENT = re.compile(r"(?P<number>\d{1,3}(\.\d{1,4})?) ?(?P<sign>%?)")
_SIZE = re.compile(r"(?P<number>\d{1,15}(\.\d{1,3})?) ?(?P<unit>B|[kKMGT]i?B)?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_RELEASE = re.compile(
    r"(?P<role>models|configurations)/(?P<name>[^/]+)/(?P<counter>\d{1,15})(/bundle\.json)?"
)
_INTEGER = re.compile(r"-?\d{1,18}")
_FLOAT = re.compile(r"-?\d{1,18}\.\d{1,18}([eE]-?\d{1,2})?")


def seconds(value: Any) -> int:
    """Seconds of `90s`, `15m`, `24h` or `7d`."""
    found = seconds_of(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a duration with its unit, such as 90s, 15m, 24h or 7d")
    return found


def basis_points(value: Any) -> int:
    """Hundredths of a percent of `2`, `2%` or `0.5%`."""
    points = _percent(value) * 100
    if not 1 <= points <= BUCKETS or abs(points - round(points)) > 1e-6:
        raise ValueError("must be a share of 0.01 to 100 percent, such as 10%")
    return round(points)


def ratio(value: Any) -> float:
    """0 to 1 of `5%`. The sign is asked for: 0.8 may be meant as 80 % or be read as less than one."""
    if not (isinstance(value, str) and value.strip().endswith("%")):
        raise ValueError("must be a share with its sign, such as 5%")
    percent = _percent(value)
    if percent > 100:
        raise ValueError("must be at most 100%")
    return percent / 100


def bytes_of(value: Any) -> int:
    """Bytes of a number, or of `500 MB` and `20 GiB`."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    found = _SIZE.fullmatch(str(value).strip()) if is_number or isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a number of bytes, such as 500 MB or 20 GiB")
    unit = found["unit"] or "B"
    base = 1024 if unit.endswith("iB") else 1000
    return round(float(found["number"]) * float(base) ** _POWERS.get(unit[0], 0))


def unix_ms(value: Any) -> int:
    """Milliseconds since 1970 of an ISO 8601 time, or of TOML's own; without a zone it is UTC."""
    text = value.isoformat() if isinstance(value, datetime) else value
    found = unix_ms_of(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("must be a time after 1970, such as 2026-03-01T12:00:00Z")
    return found


def release_of(value: Any) -> Mapping[str, Any]:
    """Kind, name and counter of `models/NAME/COUNTER`."""
    found = _RELEASE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            "must be models/NAME/COUNTER or configurations/NAME/COUNTER (see fleet release list)"
        )
    kind = next(kind for kind in ReleaseKind if kind.role == found["role"])
    return {"kind": kind, "name": found["name"], "counter": int(found["counter"])}


def window(value: Any) -> Mapping[str, Any]:
    """A weekly window of `mon-fri 22:00-05:00 Europe/Berlin`; without a zone it is UTC."""
    if not isinstance(value, str):
        raise ValueError(f"must be a weekly window such as {EXAMPLE}")
    found = Window.parse(value)
    start, end = (f"{clock:%H:%M}" for clock in (found.start, found.end))
    return {"days": list(found.days), "start": start, "end": end, "time_zone": str(found.zone)}


def scalar(text: str) -> str | int | float | bool:
    """A value on the command line: a number or `true` and `false` where it is one, else the text itself."""
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _percent(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    found = _PERCENT.fullmatch(str(value).strip()) if is_number or isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a share in percent, such as 10%")
    return float(found["number"])
