"""What the published bindings of one TensorRT release have: classes, members, signatures, enum values.

Two sources: `tensorrt_api/<release>.json` beside the checkout (names and the first line of each docstring) and
tests/data/tensorrt_bindings.json, which adds what those leave out (enum values, base classes, overloads).
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[3]
BINDINGS: Final = REPOSITORY / "tests" / "data" / "tensorrt_bindings.json"
RELEASES: Final = ("10.3.0", "10.13.3", "11.4.0")

_ANONYMOUS = re.compile(r"^arg\d+$")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as the docstring gives it; `type` is pybind11's spelling."""

    name: str
    type: str = ""
    required: bool = True

    @property
    def by_keyword(self) -> bool:
        """pybind11 calls a parameter without a name arg0, arg1 …: it takes no keyword."""
        return _ANONYMOUS.match(self.name) is None


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload, without `self`. `variadic` means that the docstring does not tell."""

    parameters: tuple[Parameter, ...] = ()
    returns: str = ""
    variadic: bool = False

    def misfit(self, positional: int, keywords: tuple[str, ...]) -> str | None:
        """Why a call with so many positional arguments and these keywords does not fit, or None."""
        if self.variadic:
            return None
        if positional > len(self.parameters):
            return f"takes {len(self.parameters)} arguments, not {positional}"
        left = self.parameters[positional:]
        for keyword in keywords:
            if not any(keyword == p.name and p.by_keyword for p in left):
                return f"has no parameter {keyword}"
        missing = [p.name for p in left if p.required and p.name not in keywords]
        return f"needs {', '.join(missing)}" if missing else None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a class, or a name of the module: `kind` is callable, property, class or an enum's name."""

    name: str
    kind: str
    signatures: tuple[Signature, ...] = ()
    value: int | None = None


@dataclass(frozen=True, slots=True)
class ApiClass:
    """A class; `values` where it is an enum; `initialisable` is False where only TensorRT makes objects of it."""

    name: str
    members: Mapping[str, Member]
    bases: tuple[str, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)
    special: tuple[str, ...] = ()

    @property
    def initialisable(self) -> bool:
        made = self.members.get("__init__")
        return bool(made and made.signatures)


@dataclass(frozen=True, slots=True)
class Api:
    """One release."""

    release: str
    version: str
    classes: Mapping[str, ApiClass]
    functions: Mapping[str, Member]
    constants: Mapping[str, str]

    def names(self) -> frozenset[str]:
        """Every name of the module."""
        top = (name for name in self.classes if "." not in name)
        return frozenset((*top, *self.functions, *self.constants, "__version__"))

    def mro(self, name: str) -> Iterator[ApiClass]:
        """A class and its bases."""
        entry = self.classes[name]
        yield entry
        for base in entry.bases:
            if base in self.classes:
                yield self.classes[base]


def split_parameters(text: str) -> list[str]:
    """Splits at the commas outside brackets and angle brackets."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>" and text[place - 1 : place + 1] != "->":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def parse_signature(line: str) -> Signature | None:
    """Reads `name(self: T, a: int, b: str = 'x') -> R`; None where the line is no signature."""
    found = re.match(r"^\w+\((.*)\)(?: -> (.*))?$", line.strip(), re.DOTALL)
    if found is None:
        return None
    body, returns = found.group(1), found.group(2) or ""
    if body == "*args, **kwargs":
        return Signature(variadic=True)
    parameters = []
    for part in split_parameters(body):
        head, equals, _ = part.partition(" = ")
        name, _, kind = head.partition(": ")
        if name != "self":
            parameters.append(Parameter(name, kind.strip(), required=not equals))
    return Signature(tuple(parameters), returns)


def api_directory() -> Path:
    """`../shared/tensorrt_api`, found as tests/conftest.py finds the shared data."""
    for candidate in (os.environ.get("EDGE_SHARED"), REPOSITORY.parent / "shared"):
        if candidate and (Path(candidate) / "tensorrt_api").is_dir():
            return Path(candidate) / "tensorrt_api"
    raise FileNotFoundError(
        "no tensorrt_api folder: put the shared data at ../shared or point EDGE_SHARED at it"
    )


def _member(name: str, raw: Mapping[str, Any], overloads: list[str], value: int | None) -> Member:
    kind = str(raw["kind"])
    if overloads and kind == "callable" and name == "name":
        kind = "property"  # ErrorCode.name, whose getter the dump saw as a function
    lines = overloads or [str(raw.get("sig") or "")]
    signatures = tuple(found for line in lines if (found := parse_signature(line)))
    return Member(name, kind, signatures if kind == "callable" else (), value)


def _class(name: str, raw: Mapping[str, Any], extra: Mapping[str, Any]) -> Iterator[ApiClass]:
    values = dict(extra["enum_values"].get(name, {}))
    members = {}
    for member, entry in raw["members"].items():
        if entry["kind"] == "class":
            yield from _class(f"{name}.{member}", entry, extra)
        overloads = extra["overloads"].get(f"{name}.{member}", [])
        members[member] = _member(member, entry, overloads, values.get(member))
    for member in extra["python_level"]["properties"].get(name, []):
        members[member] = Member(member, "property")
    known = {key: value for key, value in values.items() if key in members}
    yield ApiClass(
        name,
        members,
        tuple(extra["bases"].get(name, ())),
        known,
        tuple(extra["special_methods"].get(name, ())),
    )


@cache
def load(release: str) -> Api:
    """The API of one release; only names that `tensorrt_api` has, plus the wheel's own Python level."""
    raw = json.loads((api_directory() / f"{release}.json").read_text(encoding="utf-8"))
    extra = json.loads(BINDINGS.read_text(encoding="utf-8"))["releases"][release]
    classes, functions, constants = {}, {}, {}
    for name, entry in raw.items():
        if entry["kind"] == "class":
            classes.update({made.name: made for made in _class(name, entry, extra)})
        elif entry["kind"] == "callable":
            functions[name] = _member(name, entry, [], None)
        elif name in extra["constants"]:
            constants[name] = extra["constants"][name]
    for name, line in extra["python_level"]["functions"].items():
        functions[name] = _member(name, {"kind": "callable", "sig": line}, [], None)
    return Api(release, extra["version"], classes, functions, constants)
