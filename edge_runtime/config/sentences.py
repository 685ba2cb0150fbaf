"""Pydantic's findings as plain sentences at the right place, with the nearest known word where one is near.

A value is repeated only where that helps and cannot leak: never one that came from `${…}` and never one of a
field that may hold credentials.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from edge_runtime.config.base import NAME_PATTERN, NAME_RULE, TEXT_PATTERN
from edge_runtime.config.monitor import SUPPLY_PATTERN, SUPPLY_RULE
from edge_runtime.config.shape import Place, Shape, place_of
from edge_runtime.config.updates import (
    HARDWARE_PATTERN,
    HARDWARE_RULE,
    INTERFACE_PATTERN,
    INTERFACE_RULE,
)
from edge_runtime.config.words import but_found, did_you_mean, kind_of, unknown_key
from edge_runtime.document import Location, visible
from edge_runtime.telemetry import redact

MAX_FINDINGS = 1000
"""A hundred are shown; each costs a tenth of a millisecond, and a file can hold fifty thousand."""

_NEVER_SHOWN = frozenset({"password", "username", "url", "proxy", "pipeline"})

_POINTS = "must be a list of points such as [[0, 0], [1, 0], [1, 1]]"
_POINT = "must be a point [x, y]"


def findings(
    error: ValidationError, model: type[BaseModel], data: Any, secret: Collection[Location]
) -> list[tuple[Location, str]]:
    """The findings of `error` as (location, sentence), each once; the first `MAX_FINDINGS` of a hopeless file.

    Args:
        error: of validating `data` against `model`.
        model: the model of the whole file.
        data: the file's data, references resolved.
        secret: locations whose values came from references.
    """
    found: dict[tuple[Location, str], None] = {}
    for details in error.errors(include_url=False)[:MAX_FINDINGS]:
        if details["type"] == "too_short" and _is_long_enough(details):
            continue  # it is short of valid items only, and each invalid one has its own finding
        found[_finding(details, place_of(details["loc"], model), data, secret)] = None
    return _flat_polygons_once(list(found), data)


def _is_long_enough(details: ErrorDetails) -> bool:
    value = details["input"]
    return isinstance(value, (list, dict)) and len(value) >= details.get("ctx", {}).get("min_length", 1)


def value_at(data: Any, location: Location) -> Any:
    """The value at `location`, or None where there is none."""
    for step in location:
        if isinstance(data, Mapping):
            data = data.get(step)
        else:
            inside = isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data)
            data = data[step] if inside else None
    return data


def _finding(
    details: ErrorDetails, place: Place, data: Any, secret: Collection[Location]
) -> tuple[Location, str]:
    kind, value, at = details["type"], details["input"], place.location
    if place.is_key:
        return at, f"is not a usable name: {NAME_RULE}"
    if kind == "extra_forbidden":
        return at, unknown_key(str(at[-1]), list(place.section.model_fields) if place.section else [])
    if kind == "missing":
        return _missing(at, data)
    shape = place.shape or Shape("value")
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _tag(at, shape, data)
    if value is None and not shape.optional:
        required = place.section is not None and place.section.model_fields[str(at[-1])].is_required()
        return at, f"is empty; {_EXPECTED[shape.kind]}" + ("" if required else ", or delete it")
    hidden = at in secret or not _NEVER_SHOWN.isdisjoint(at)
    return at, _SENTENCES.get(kind, _other)(
        _Found(details["msg"], details.get("ctx") or {}, shape, value, "" if hidden else but_found(value))
    )


_EXPECTED = {
    "section": "give it keys",
    "choice": "give it keys",
    "map": "give it a named entry",
    "list": "give it a list",
    "tuple": "give it a list",
    "value": "give it a value",
}


@dataclass(frozen=True, slots=True)
class _Found:
    """What a sentence is made of.

    Attributes:
        message: pydantic's, or that of one of our validators.
        context: bounds and lengths.
        shape: what should stand there.
        value: what stands there.
        shown: `, not 5`, or nothing where the value must not be repeated.
    """

    message: str
    context: Mapping[str, Any]
    shape: Shape
    value: Any
    shown: str

    @property
    def count(self) -> int:
        return len(self.value) if isinstance(self.value, (list, tuple, str)) else 0


def _missing(at: Location, data: Any) -> tuple[Location, str]:
    if not isinstance(at[-1], int):
        return at, "is missing"
    owner = at[:-1]  # an item of a fixed list is missing: y of a point, B of a line
    return owner, _wrong_count(len(value_at(data, owner) or ()), of_points=owner[-1] == "line")


def _wrong_count(count: int, *, of_points: bool) -> str:
    return f"needs {'exactly 2 points' if of_points else '2 numbers, x and y'}, not {count}"


def _tag(at: Location, shape: Shape, data: Any) -> tuple[Location, str]:
    """The field that tells apart the members of a union is missing or has an unknown value."""
    section = value_at(data, at)
    if not isinstance(section, Mapping):
        return at, f"must be a section with {shape.discriminator} and more, not {kind_of(section)}"
    inner, words = (*at, shape.discriminator), tuple(shape.variants)
    if shape.discriminator not in section:
        instead = " (you wrote type)" if "type" in section else ""
        return inner, f"is missing; it is one of {', '.join(words)}{instead}"
    value = section[shape.discriminator]
    return inner, f"must be one of {', '.join(words)}{but_found(value)}{did_you_mean(value, words)}"


def _choice(found: _Found) -> str:
    words = found.shape.words
    if found.value in words:
        return f"must be {found.value} without quotes"
    listed = f"one of {', '.join(words)}" if len(words) > 1 else "".join(words)
    return f"must be {listed}{found.shown}{did_you_mean(found.value, words)}"


NAMES_BY_PATTERN: Mapping[str, str] = {
    NAME_PATTERN: NAME_RULE,
    SUPPLY_PATTERN: SUPPLY_RULE,
    HARDWARE_PATTERN: HARDWARE_RULE,
    INTERFACE_PATTERN: INTERFACE_RULE,
}
"""What each pattern of a name asks for; the only other one is that of text, which a NUL character breaks."""


def _pattern(found: _Found) -> str:
    pattern = str(found.context.get("pattern"))
    if pattern == TEXT_PATTERN:
        return "holds a NUL character"
    return f"is not a usable name: {NAMES_BY_PATTERN.get(pattern, f'it must match {pattern}')}{found.shown}"


def _bound(words: str, key: str) -> Callable[[_Found], str]:
    def sentence(found: _Found) -> str:
        bound = found.context[key]
        hint = "; fractions run from 0 to 1" if key == "le" and bound == 1 else ""
        return f"must be {words} {bound:.12g}{found.shown}{hint}"

    return sentence


def _too_short(found: _Found) -> str:
    least = found.context.get("min_length", 1)
    what = {"map": "named entry", "value": "character"}.get(found.shape.kind, "item")
    return f"needs at least {least} {what}"


def _too_long(found: _Found) -> str:
    if found.shape.kind == "tuple":
        return _wrong_count(found.count, of_points=found.shape.items[0].kind == "tuple")
    return f"must have at most {found.context.get('max_length')} characters, not {found.count}"


def _not_a_list(found: _Found) -> str:
    items = found.shape.items
    if found.shape.kind == "tuple" and items[0].kind == "value":
        return f"{_POINT}, not {kind_of(found.value)}"
    if items and items[0].kind == "tuple":
        what = "must be two points such as [[0.5, 0], [0.5, 1]]" if found.shape.kind == "tuple" else _POINTS
        return f"{what}, not {kind_of(found.value)}"
    example = visible(redact(found.value)) if found.shown and isinstance(found.value, str) else "…"
    return f"must be a list, such as [{example[:40]}], not {kind_of(found.value)}"


def _not_a_section(found: _Found) -> str:
    what = "a section of named entries" if found.shape.kind == "map" else "a section with keys"
    glued = isinstance(found.value, str) and re.match(r"\w+:(?!//)\S", found.value)
    hint = "; a key needs a space after its :" if glued else ""
    return f"must be {what}, not {kind_of(found.value)}{hint}"


def _not_text(found: _Found) -> str:
    hint = "; put it in quotes" if isinstance(found.value, (int, float)) else ""
    return f"must be text, not {kind_of(found.value)}{hint}"


def _own(found: _Found) -> str:
    return found.message.removeprefix("Value error, ")


def _own_with_value(found: _Found) -> str:
    return found.message + found.shown


def _must_be(what: str) -> Callable[[_Found], str]:
    return lambda found: f"must be {what}{found.shown}"


def _other(found: _Found) -> str:
    text = _own(found).replace("Input should be", "must be")
    return text[:1].lower() + text[1:] + found.shown


_SENTENCES: Mapping[str, Callable[[_Found], str]] = {
    "literal_error": _choice,
    "enum": _choice,
    "string_pattern_mismatch": _pattern,
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "too_short": _too_short,
    "string_too_short": _too_short,
    "too_long": _too_long,
    "string_too_long": _too_long,
    "tuple_type": _not_a_list,
    "model_type": _not_a_section,
    "model_attributes_type": _not_a_section,
    "dict_type": _not_a_section,
    "string_type": _not_text,
    "string_unicode": _must_be("text of Unicode characters"),
    "int_type": _must_be("a whole number"),
    "int_parsing": _must_be("a whole number"),
    "int_from_float": _must_be("a whole number"),
    "int_parsing_size": _must_be("a smaller whole number"),
    "float_type": _must_be("a number"),
    "float_parsing": _must_be("a number"),
    "finite_number": lambda _: "must be a finite number",
    "value_error": _own,
    "not_a_number": _own,
    "not_a_flag": _own_with_value,
    "not_a_time": _own_with_value,
}
"""Sentences by pydantic's error type."""


def _flat_polygons_once(found: list[tuple[Location, str]], data: Any) -> list[tuple[Location, str]]:
    """A polygon written as one flat list of numbers is one mistake, not one per number."""
    flat: dict[Location, None] = {}
    kept: list[tuple[Location, str]] = []
    for at, text in found:
        points = value_at(data, at[:-1])
        if text.startswith(_POINT) and not any(isinstance(point, (list, tuple)) for point in points):
            flat[at[:-1]] = None
        else:
            kept.append((at, text))
    return [*kept, *((at, f"{_POINTS}, not a flat list") for at in flat)]
