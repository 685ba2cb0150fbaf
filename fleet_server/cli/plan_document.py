"""A plan's file as plain data: YAML as devices read theirs, TOML, or what `rollout plan --json` says."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.document import Document, Location, Unreadable, format_location, read_document
from edge_runtime.errors import ConfigError

MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """A plan as somebody wrote it.

    Attributes:
        data: keys and values.
        source: how messages call it; empty for options alone.
        lines: line of each place, from 1; a file of another kind than YAML has none.
        is_record: it is the server's own record, and no words stand for values.
    """

    data: Mapping[str, Any]
    source: str = ""
    lines: Mapping[Location, int] = field(default_factory=dict)
    is_record: bool = False

    def where(self, place: Location) -> str:
        """File and line of a place, or of the nearest around it, to stand before a message."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return f"{self.source}:{self.lines[place[:length]]}: "
        return f"{self.source}: " if self.source else ""


def read_plan(path: Path) -> PlanDocument:
    """Read a plan's file; its name's ending says of which kind it is.

    Raises:
        ConfigError: it cannot be read, or is not of that kind.
    """
    text = _text(path)
    kind = path.suffix.lower()
    if kind == ".toml":
        return PlanDocument(_toml(text, path), str(path))
    if kind == ".json":
        return _json(text, path)
    if kind not in (".yaml", ".yml"):
        raise ConfigError(f"{path}: a plan's file ends in .yaml, .toml or .json")
    document = _yaml(text, path)
    return PlanDocument(_table(document.data, path), str(path), document.lines)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            found = stream.read(MAX_BYTES + 1)
        if len(found) > MAX_BYTES:
            raise ConfigError(f"{path}: a plan has at most {MAX_BYTES} bytes")
        return found.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not text in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _toml(text: str, path: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover - the same parser under its older name, which only a server's machine has
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise ConfigError(
                f"{path}: Python 3.10 reads TOML with tomli: install it, or write YAML"
            ) from None
    try:
        found: Mapping[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())[:200]}") from None
    return found


def _json(text: str, path: Path) -> PlanDocument:
    try:
        found = _table(json.loads(text), path)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: it is not JSON: {' '.join(str(error).split())[:200]}") from None
    # what `plan --json` prints has the plan in it, and may be given back as it is
    return PlanDocument(
        found["plan"] if isinstance(found.get("plan"), dict) else found, str(path), is_record=True
    )


def _table(found: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: a plan is a table of keys and values")
    return found


def _yaml(text: str, path: Path) -> Document:
    try:
        found = read_document(text)
    except Unreadable as error:
        raise ConfigError(error.problem.show(str(path))) from None
    if found.problems:
        raise ConfigError(found.problems[0].show(str(path)))
    endless = _endless(found.data, ())
    if endless is not None:
        place = f"{path}:{found.line(endless)}: {format_location(endless)}"
        raise ConfigError(f"{place}: infinity and what is no number are no values of a plan")
    return found


def _endless(data: Any, place: Location) -> Location | None:
    """The first place that holds a value without an end, or one that is no number."""
    if isinstance(data, float):
        return None if math.isfinite(data) else place
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return next(
        (found for key, value in inner if (found := _endless(value, (*place, key))) is not None), None
    )
