"""A TOML file as a record: every problem is told with its line, and nothing unknown is accepted."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from edge_runtime.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.]+)\s*\]\]?")
_KEY = re.compile(r"\s*([A-Za-z0-9_.]+)\s*=")

Location = tuple[str | int, ...]
RecordT = TypeVar("RecordT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class TomlFile(Generic[RecordT]):
    """What a file says, and where it says it.

    Attributes:
        path: of the file.
        record: its content.
        lines: of tables and keys.
    """

    path: Path
    record: RecordT
    lines: Mapping[Location, int]

    def told(self, problems: Sequence[tuple[Location, str]]) -> str:
        """Problems as text, one a line, each with the line that it is about."""
        return _text(self.path, self.lines, problems)


def read_toml(
    path: Path, kind: type[RecordT], refusal: type[ConfigError], reader: str = "a scenario"
) -> TomlFile[RecordT]:
    """Read and check one file.

    Args:
        path: of the file.
        kind: of record.
        refusal: raised where it is none.
        reader: who does not know an unknown key, for the sentence about it.

    Raises:
        ConfigError: a `refusal`: it cannot be read, is no TOML, or says what no such file says.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refusal(f"{path}: {error}") from None
    lines = _lines(text)
    try:
        return TomlFile(path, kind.model_validate(data), lines)
    except ValidationError as error:
        problems = [(_place(item["loc"], data), _sentence(item, reader)) for item in error.errors()]
        raise refusal(_text(path, lines, problems)) from None


def _text(path: Path, lines: Mapping[Location, int], problems: Sequence[tuple[Location, str]]) -> str:
    told = []
    for place, sentence in problems:
        at = place
        while at and at not in lines:
            at = at[:-1]
        line = f":{lines[at]}" if at else ""
        told.append(f"{path}{line}: {'.'.join(map(str, place)) or 'the file'}: {sentence}")
    return "\n".join(told)


def _place(found: Sequence[str | int], data: Any) -> Location:
    """Pydantic's location without the words that it adds for kinds of values."""
    place: list[str | int] = []
    for part in found:
        known = isinstance(data, dict) or (isinstance(data, list) and isinstance(part, int))
        if not known:
            break
        if isinstance(data, dict) and part not in data and place and _is_tag(part, data):
            continue
        place.append(part)
        try:
            data = data[part]
        except (KeyError, IndexError):
            break
    return tuple(place)


def _is_tag(part: str | int, data: Mapping[str, Any]) -> bool:
    """Whether it is the value by which pydantic chose among several kinds of tables."""
    return part in [value for value in data.values() if isinstance(value, str)]


def _sentence(item: Any, reader: str) -> str:
    if item["type"] == "extra_forbidden":
        return f"is nothing that {reader} knows here"
    if item["type"] == "missing":
        return "is missing"
    text: str = item["msg"]
    return text.removeprefix("Value error, ")


def _lines(text: str) -> dict[Location, int]:
    """Lines of tables and keys. Keys of a table that is written in one line have that line."""
    found: dict[Location, int] = {}
    counts: dict[str, int] = {}
    here: Location = ()
    for number, line in enumerate(text.split("\n"), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            name = header[2]
            here = tuple(name.split("."))
            if header[1] == "[[":
                counts[name] = counts.get(name, -1) + 1
                here = (*here, counts[name])
            found.setdefault(here, number)
        elif key is not None:
            found.setdefault((*here, *key[1].split(".")), number)
    return found
