"""A plan's file as plain data: YAML with the scalars of version 1.2, TOML, or what `rollout plan --json` says.

YAML's surprises are left out, as in a device's configuration: a window `22:00-05:00` is text and `no` is a word.
Anchors, tags and keys that are given twice are refused; nothing in a file can make an object.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yaml.composer import Composer
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import AliasEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from edge_runtime.errors import ConfigError

MAX_BYTES = 1024 * 1024
_MAX_DEPTH = 20
_TAG = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", re.compile(r"~|null|Null|NULL|")),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("int", re.compile(r"[-+]?[0-9]{1,18}")),
    ("float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")),
)
_READ: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda _text: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
}

Place = tuple[str | int, ...]


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
    lines: Mapping[Place, int] = field(default_factory=dict)
    is_record: bool = False

    def where(self, place: Place) -> str:
        """File and line of a place, or of the nearest around it, to stand before a message."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return f"{self.source}:{self.lines[place[:length]]}: "
        return f"{self.source}: " if self.source else ""


def read_document(path: Path) -> PlanDocument:
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
    lines: dict[Place, int] = {}
    return PlanDocument(_table(_yaml(text, path, lines), path), str(path), lines)


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


def _yaml(text: str, path: Path, lines: dict[Place, int]) -> Any:
    if unprintable := Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, unprintable.start()) + 1
        raise ConfigError(f"{path}:{line}: it holds the control character U+{ord(unprintable.group()):04X}")
    try:
        node = _Composer(text).get_single_node()
        return None if node is None else _built(node, (), lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = str(path) if mark is None else f"{path}:{mark.line + 1}"
        raise ConfigError(f"{place}: {error.problem or error.context or 'it is not YAML'}") from None
    except YAMLError as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())[:200]}") from None


class _Refused(MarkedYAMLError):
    """YAML that is not taken, though it is some."""

    def __init__(self, at: Event | Node, text: str) -> None:
        super().__init__(problem=text, problem_mark=at.start_mark)  # type: ignore[arg-type]


class _Composer(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's parser up to the nodes, bounded in depth, with the scalars of YAML 1.2 and without anchors."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event: Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
            raise _Refused(
                event, "anchors are not taken in a plan; text that begins with * or & stands in quotes"
            )
        if self._depth > _MAX_DEPTH:
            raise _Refused(event, f"nested more than {_MAX_DEPTH} levels deep")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        if kind is ScalarNode:
            if not implicit[0]:
                return _TAG + "str"
            return _TAG + next((name for name, pattern in _SCALARS if pattern.fullmatch(value)), "str")
        return _TAG + ("seq" if kind is SequenceNode else "map")


def _built(node: Node, place: Place, lines: dict[Place, int]) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, ScalarNode) and kind in _READ:
        return _READ[kind](node.value)
    if isinstance(node, SequenceNode) and kind == "seq":
        return [_built(item, (*place, number), lines) for number, item in enumerate(node.value)]
    if not isinstance(node, MappingNode) or kind != "map":
        raise _Refused(node, "tags are not taken in a plan")
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise _Refused(key, "a key must be text")
        name = str(key.value)
        if name in found:
            raise _Refused(key, f"{name} is given twice")
        inner = (*place, name)
        lines[inner] = key.start_mark.line + 1
        found[name] = _built(value, inner, lines)
    return found
