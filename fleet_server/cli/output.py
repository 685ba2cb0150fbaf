"""How commands print: tables within 80 columns, JSON for programs, and no control character from outside."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
NARROWEST = 80


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


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """A table on stdout; columns whose name begins with `#` are numbers, and stand on the right.

    Args:
        columns: headings; one that ends in `!` is never cut, others give way on a narrow terminal.
        rows: cells; None is shown as a dash.
        empty: what to say on stderr when there is no row.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, padding=(0, 1))
    for name in columns:
        keep = name.endswith("!")
        table.add_column(
            name.strip("#!"),
            justify="right" if name.startswith("#") else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None,
            ratio=None,
            max_width=None if keep else 28,
        )
    any_row = False
    for row in rows:
        any_row = True
        table.add_row(*("-" if cell is None else _escaped(clean(cell)) for cell in row))
    if not any_row:
        say(empty)
        return
    print_rich(table)


def print_rich(what: Any) -> None:
    """Anything that rich draws, on stdout; where that is no terminal, 80 columns wide."""
    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else _width()).print(what)


def _width() -> int:
    import os

    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) >= 20 else NARROWEST


def when(ms: int | None) -> str | None:
    """A time in UTC, to the second."""
    return None if ms is None else f"{datetime.fromtimestamp(ms / 1000, tz=timezone.utc):%Y-%m-%d %H:%M:%S}"


def span(ms: int) -> str:
    """A duration in its two largest units."""
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


def size(count: int) -> str:
    """Bytes with one unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
