"""Lines of jetson_stats (`jtop`) and of its users' notes: what came out of it, not what it does.

People keep three texts of it beside tegrastats: what its service writes to the journal about the zones and rails
it found, a CSV of one moment (`key, value`) or of a recording (a row of names, then rows of values), and lists of
zones made by hand. Each line is a small record; nothing here knows a board.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_runtime.health.reading import Reading, temperature, unknown

_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?")
_JOURNAL_ZONE = re.compile(r'Found thermal "(?P<name>[^"]{1,60})" in thermal_zone(?P<zone>\d{1,4})')
_LISTED_ZONE = re.compile(
    r"^(?:/\S*/)?thermal_zone(?P<zone>\d{1,4})(?:/(?P<file>type|temp))?\s*[:=]\s*(?P<word>\S{1,60})\s*$"
)
_SKIPPED = re.compile(r"Skipped (?P<name>\S{1,60}) (?P<path>/\S{1,200})")
_ALARMS = re.compile(r"Alarms (?P<name>\S{1,60}) - \{(?P<alarms>[^{}]{0,200})\}")
_ALARM = re.compile(r"'(?P<name>\w{1,40})': (?P<value>\d{1,9})")
_LEAST_COLUMNS = 4
_OTHER_LINE = "not in this line"


@dataclass(frozen=True, slots=True)
class ZoneName:
    """What a thermal zone is called, or how warm it was: a line has one of them."""

    zone: int
    name: Reading[str]
    celsius: Reading[float]


@dataclass(frozen=True, slots=True)
class RailNote:
    """What was said of a power rail: skipped, with its path, or the states of its alarms by name."""

    name: str
    skipped: Reading[str]
    alarms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Values:
    """Values by name: one of `key, value`, all columns of a recording's row. Text stays text."""

    values: Mapping[str, Reading[int | float | str]]


def note_of(line: str) -> ZoneName | RailNote | None:
    """A line about zones or rails, or None."""
    if found := _JOURNAL_ZONE.search(line):
        return ZoneName(int(found["zone"]), Reading(found["name"]), unknown(_OTHER_LINE))
    if found := _LISTED_ZONE.match(line.strip()):
        return _listed(int(found["zone"]), found["file"], found["word"])
    if found := _SKIPPED.search(line):
        return RailNote(found["name"], Reading(found["path"]), {})
    if found := _ALARMS.search(line):
        alarms = {alarm["name"]: int(alarm["value"]) for alarm in _ALARM.finditer(found["alarms"])}
        return RailNote(found["name"], unknown("not skipped"), alarms)
    return None


def _listed(zone: int, file: str | None, word: str) -> ZoneName:
    """`thermal_zone0: AO-therm`, and what `grep . thermal_zone*/*` prints of names and of millidegrees."""
    if file != "temp":
        return ZoneName(zone, Reading(word), unknown(_OTHER_LINE))
    if _NUMBER.fullmatch(word) is None:
        return ZoneName(zone, unknown(_OTHER_LINE), unknown(f"{word[:20]!r} is not a number"))
    return ZoneName(zone, unknown(_OTHER_LINE), temperature(float(word) / 1000))


def columns_of(line: str) -> tuple[str, ...] | None:
    """The names of a recording's columns if this is its first row, or None."""
    words = tuple(word.strip().strip('"') for word in line.split(","))
    named = all(words) and not any(_NUMBER.fullmatch(word) for word in words)
    return words if len(words) >= _LEAST_COLUMNS and words[0].lower() == "time" and named else None


def is_heading(line: str) -> bool:
    """Whether this is the first line of a file of `key, value`: its heading, as `<key>, <value>` or `key,value`."""
    return [word.strip().strip("<>").lower() for word in line.split(",")] == ["key", "value"]


def begins_pairs(line: str) -> bool:
    """Whether this is the first pair of a file without a heading: the time."""
    return re.match(r"time\s*,\s*\d{4}-\d{2}-\d{2}[ T][\d:.]+\s*$", line, re.IGNORECASE) is not None


def value_of(line: str) -> Values | None:
    """A line `key, value`, or None."""
    name, comma, value = line.partition(",")
    if not comma or not name.strip() or len(name) > 60 or "," in value:
        return None
    return Values({name.strip(): _reading(name.strip(), value.strip())})


def row_of(line: str, columns: Sequence[str]) -> Values | None:
    """A row of a recording, or None where it does not have a value for each column."""
    words = [word.strip().strip('"') for word in line.split(",")]
    if len(words) != len(columns):
        return None
    return Values({name: _reading(name, word) for name, word in zip(columns, words, strict=True)})


def _reading(name: str, word: str) -> Reading[int | float | str]:
    if word.upper() in ("", "OFF", "NA", "N/A", "NONE", "NAN"):
        # `jetson_clocks, OFF` and `fan, OFF` are states; a number that is missing says the same word
        return Reading(word) if name == "jetson_clocks" else unknown(word.lower() or "no value")
    if _NUMBER.fullmatch(word) is None:
        return Reading(word)
    number = float(word) if "." in word else int(word)
    if name.lower().startswith("temp"):
        measured = temperature(number)
        return Reading(measured.value) if measured.value is not None else unknown(measured.reason)
    return Reading(number)
