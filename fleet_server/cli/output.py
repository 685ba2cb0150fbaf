"""How commands print: tables, JSON for programs, and no control character from outside."""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
NARROWEST = 40
CUT = "…"
"""In the place of the middle of a name."""


def clean(text: object) -> str:
    """A text from a device or a person, without what would move a terminal's cursor or turn its writing around."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def say(line: str) -> None:
    """One line for people, on stderr."""
    sys.stderr.write(clean(line) + "\n")
    sys.stderr.flush()


def write(line: str) -> None:
    """One line of a result, on stdout, at once: whoever follows a pipe waits for it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write_json(data: Any) -> None:
    """One JSON value, on stdout."""
    write(json.dumps(data, indent=2, ensure_ascii=False))


def write_json_line(data: Any) -> None:
    """One JSON value on a line of its own, on stdout."""
    write(json.dumps(data, separators=(",", ":"), ensure_ascii=False))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "") -> None:
    """A table on stdout.

    Args:
        columns: headings; `#` in front is a number; at the end `!` is always whole, `~` is an id.
        rows: cells; None is shown as a dash.
        empty: what to say on stderr when there is no row.
    """
    from fleet_server.cli.table import Column, lay_out

    cells = [["-" if cell is None else clean(cell) for cell in row] for row in rows]
    if not cells:
        if empty:
            say(empty)
        return
    for line in lay_out([Column.parse(name) for name in columns], cells, width()):
        write(line)


def width() -> int | None:
    """Cells of the terminal; None in a pipe or a file, where every value is whole."""
    if not sys.stdout.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def when(ms: int | None) -> str | None:
    """A time in UTC, to the second."""
    return None if ms is None else f"{datetime.fromtimestamp(ms / 1000, tz=timezone.utc):%Y-%m-%d %H:%M:%S}"


def when_short(ms: int) -> str:
    """A time of the last months in UTC, to the second, without its year."""
    return f"{datetime.fromtimestamp(ms / 1000, tz=timezone.utc):%m-%d %H:%M:%S}"


def size(count: int) -> str:
    """Bytes with one unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
