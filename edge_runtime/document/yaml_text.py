"""YAML text → plain data with line numbers, without YAML's surprises.

The scalars are those of YAML 1.2's core schema: only `true` and `false` are booleans, so a key `on`, a label
`no` and a time `22:30` are what they look like (PyYAML's own loader reads them as True, False and 1350).
Keys are always text. Duplicate keys, unknown tags, documents that expand without bound and deep nesting are
refused with their line. Nothing in the text can construct an object.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from yaml.composer import Composer
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import AliasEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from edge_runtime.document.problem import Location, Problem, visible
from edge_runtime.document.syntax import Refused, syntax_problem

MAX_DEPTH = 40
MAX_NODES = 50_000
"""Values after aliases are expanded; a site with a hundred cameras has a few thousand."""

_TAG = "tag:yaml.org,2002:"

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_SCALARS = (("null", _NULL), ("bool", _BOOL), ("int", _INT), ("float", _FLOAT))


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document as plain data.

    Attributes:
        data: dicts with text keys, lists, str, int, float, bool, None.
        lines: 1-based line of each location; of the key where it has one.
        problems: what was refused without stopping the reading, such as duplicate keys.
    """

    data: Any
    lines: dict[Location, int]
    problems: tuple[Problem, ...]

    def line(self, location: Location) -> int | None:
        """The line of `location`, or of the nearest section around it."""
        for length in range(len(location), -1, -1):
            if location[:length] in self.lines:
                return self.lines[location[:length]]
        return None


class Unreadable(Exception):
    """The text is not YAML that this project reads; `problem` says where and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def read_document(text: str, most: int = MAX_NODES) -> Document:
    """Parse one document.

    Args:
        text: of the file.
        most: keys and values that the text may hold; parsing ends there. 20,000 keys take two seconds.

    Raises:
        Unreadable: the text cannot be parsed further than the problem's line.
    """
    unprintable = Reader.NON_PRINTABLE.search(text)
    if unprintable:
        char = unprintable.group()
        raise Unreadable(
            Problem(
                f"holds the control character U+{ord(char):04X}: this is not a text file, or it is damaged",
                line=text.count("\n", 0, unprintable.start()) + 1,
            )
        )
    composer = _Composer(text, most)
    try:
        node = composer.get_single_node()
    except MarkedYAMLError as error:
        raise Unreadable(syntax_problem(error, text)) from error
    except YAMLError as error:
        raise Unreadable(Problem(visible(" ".join(str(error).split())))) from error
    if node is None:
        return Document(None, {}, ())
    builder = _Builder()
    data = builder.build(node, ())
    return Document(data, builder.lines, tuple(builder.problems))


class _Composer(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's parser up to the node graph, bounded in depth and number, with the scalars of YAML 1.2."""

    def __init__(self, text: str, most: int) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth, self._left, self._most = 0, most, most

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event: Event = self.peek_event()  # type: ignore[no-untyped-call]
        if self._depth > MAX_DEPTH:
            raise Refused.at(event, f"nested more than {MAX_DEPTH} levels deep")
        if not self._left:
            raise Refused.at(event, f"holds more than {self._most} keys and values")
        self._left -= 1
        if isinstance(event, AliasEvent) and event.anchor not in self.anchors:
            raise Refused.at(
                event,
                f"*{event.anchor} names no anchor above; text that starts with * must stand in quotes",
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        if kind is ScalarNode:
            if not implicit[0]:
                return _TAG + "str"
            name = next((name for name, pattern in _SCALARS if pattern.fullmatch(value)), "str")
            return _TAG + name
        return _TAG + ("seq" if kind is SequenceNode else "map")


class _Builder:
    """Node graph → plain data."""

    def __init__(self) -> None:
        self.lines: dict[Location, int] = {}
        self.problems: list[Problem] = []
        self._open: set[int] = set()
        self._count = 0
        self._merging = 0

    def build(self, node: Node, location: Location) -> Any:
        self.lines.setdefault(location, _line(node))
        self._count += 1
        if self._count > MAX_NODES:
            raise Unreadable(
                Problem(f"expands to more than {MAX_NODES} values: too many aliases", line=_line(node))
            )
        if id(node) in self._open:
            raise Unreadable(Problem("an anchor contains itself", location, _line(node)))
        self._open.add(id(node))
        try:
            if isinstance(node, ScalarNode):
                return self._scalar(node, location)
            if isinstance(node, SequenceNode):
                self._expect(node, "seq", location)
                return [self.build(item, (*location, index)) for index, item in enumerate(node.value)]
            self._expect(node, "map", location)
            return self._mapping(node, location)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: Node, location: Location) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merges: list[Node] = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._problem("a key must be text, not a list or a section", location, key_node)
                continue
            key = self._text(key_node.value, location, key_node)
            if key == "<<" and key_node.style is None:
                merges.append(value_node)
                continue
            inner = (*location, key)
            if key in data:
                self._problem(f"is given twice; the first is on line {self.lines[inner]}", inner, key_node)
                continue
            self.lines.setdefault(inner, _line(key_node))
            data[key] = self.build(value_node, inner)
        for merge in merges:
            self._merge(merge, data, location)
        return data

    def _merge(self, node: Node, data: dict[str, Any], location: Location) -> None:
        """`<<: *defaults`: keys of another section that this one does not state itself."""
        sections = node.value if isinstance(node, SequenceNode) else [node]
        for section in sections:
            if not isinstance(section, MappingNode):
                self._problem("<< takes a section, or a list of sections", location, section)
                continue
            self._merging += 1
            merged = self.build(section, location)
            self._merging -= 1
            for key, value in merged.items():
                data.setdefault(key, value)

    def _scalar(self, node: ScalarNode, location: Location) -> Any:
        text = self._text(node.value, location, node)
        tag = node.tag.removeprefix(_TAG)
        if tag == "str":
            return text
        if tag == "null" and _NULL.fullmatch(text):
            return None
        if tag == "bool" and _BOOL.fullmatch(text):
            return text.lower() == "true"
        if tag == "int" and _INT.fullmatch(text):
            return self._integer(text, location, node)
        if tag in ("float", "int") and _FLOAT.fullmatch(text):
            return _real(text)
        if tag in ("null", "bool", "int", "float"):
            self._problem(f"does not hold what its tag !!{tag} says", location, node)
        else:
            self._unknown_tag(node, location)
        return text

    def _text(self, text: str, location: Location, node: Node) -> str:
        """Text whose escaped surrogate pairs, which JSON writers produce, are one character again."""
        if not any("\ud800" <= char <= "\udfff" for char in text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._problem("holds half of a character: a lone surrogate", location, node)
            return text.encode("ascii", "replace").decode()

    def _integer(self, text: str, location: Location, node: Node) -> int:
        if len(text) > 64:
            self._problem("is a number with too many digits", location, node)
            return 0
        if text.startswith(("0o", "0x")):
            return int(text, 0)
        return int(text)

    def _expect(self, node: Node, tag: str, location: Location) -> None:
        if node.tag != _TAG + tag:
            self._unknown_tag(node, location)

    def _unknown_tag(self, node: Node, location: Location) -> None:
        tag = node.tag.replace(_TAG, "!!")
        self._problem(
            f"the tag {visible(tag)} is not allowed; for a secret write ${{env:NAME}} or ${{file:PATH}}",
            location,
            node,
        )

    def _problem(self, text: str, location: Location, node: Node) -> None:
        if self._merging:
            return  # said already where the section stands
        self.problems.append(Problem(text, location, _line(node)))


def _real(text: str) -> float:
    lower = text.lower()
    if lower.endswith("inf"):
        return -math.inf if lower.startswith("-") else math.inf
    return math.nan if lower == ".nan" else float(text)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
