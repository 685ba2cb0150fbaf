"""The time that a log puts before its fields: labels only, nothing is measured with them."""

import re
from typing import TypeAlias

Stamp: TypeAlias = str
"""ISO 8601, with a zone only where the text names one; empty where the line has no time."""

_AMERICAN = re.compile(r"(\d{2})[-/](\d{2})[-/](\d{4})\s+(\d{2}:\d{2}:\d{2}(?:\.\d+)?)")
_ISO = re.compile(r"\[?(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2}(?:[.,]\d+)?)(Z|[+-]\d{2}:?\d{2})?\]?")


def leading_stamp(text: str) -> tuple[Stamp, str]:
    """The time at the start of `text`, and what follows it.

    tegrastats prints month-day-year from JetPack 5 on; loggers put ISO 8601 before lines of older ones.
    """
    if found := _AMERICAN.match(text):
        month, day, year, clock = found.groups()
        if int(month) > 12:
            month, day = day, month
        return f"{year}-{month}-{day}T{clock}", text[found.end() :]
    if found := _ISO.match(text):
        day, clock, zone = found.groups()
        return f"{day}T{clock.replace(',', '.')}{zone or ''}", text[found.end() :].lstrip(" :")
    return "", text
