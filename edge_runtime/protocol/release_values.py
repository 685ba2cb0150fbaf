"""Values of single devices: what people who sign a configuration let the fleet server set, and within which bounds.

The overlay of a release declares them, and the declaration is signed with its terms. The director's key, which lies
on the server, can then choose within the bounds and set nothing else: the same rule is asked where a rollout is
planned, where an assignment is signed, and on the device before it takes one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

MAX_VALUES = 64
Value = str | int | float | bool
ValueName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Values = Annotated[Mapping[ValueName, Value], Field(max_length=MAX_VALUES)]

DECLARED = "values"
"""The section of an overlay that declares them."""

REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)(\}?)")
"""What looks like a reference: a `$` before it that makes it plain text, what it names, and its end."""

NAMED = re.compile(r"values\.([a-z][a-z0-9_]{0,31})")
"""What a reference to a value names."""

_FRACTION = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
_MOST_CHOICES = 64
_SHOWN = 40
_BY_PEOPLE: Final = "by people"
"""Context of validation: an overlay. Elsewhere a fraction may be text, for signed metadata knows no other."""

_Text = Annotated[str, Strict(), Field(min_length=1, max_length=64, pattern=r"^[^$]*$")]


def _number(value: Any, info: ValidationInfo) -> Any:
    """What may become a number: people sign for what they read, and `true` or "0.5" is none."""
    fraction = isinstance(value, str) and info.context != _BY_PEOPLE and _FRACTION.fullmatch(value)
    if fraction or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("number", "a number is needed, without quotes")


_Number = Annotated[float, BeforeValidator(_number)]
_Whole = Annotated[int, Strict()]


class _Bounds(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NumberBounds(_Bounds):
    """A number from `minimum` to `maximum`, both included, or one of a closed list."""

    type: Literal["number"]
    minimum: _Number | None = None
    maximum: _Number | None = None
    one_of: Annotated[tuple[_Number, ...], Field(max_length=_MOST_CHOICES)] = ()

    @model_validator(mode="after")
    def _bounded(self) -> "NumberBounds":
        _require_range(self.minimum, self.maximum, self.one_of)
        return self

    def admits(self, value: Value) -> bool:
        """Whether it is one of these; a whole number is a number too."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return _within(value, self.minimum, self.maximum, self.one_of)

    def words(self) -> str:
        """The bounds, for people."""
        return f"a number {_range_words(self.minimum, self.maximum, self.one_of)}"


class IntegerBounds(_Bounds):
    """A whole number from `minimum` to `maximum`, both included, or one of a closed list."""

    type: Literal["integer"]
    minimum: _Whole | None = None
    maximum: _Whole | None = None
    one_of: Annotated[tuple[_Whole, ...], Field(max_length=_MOST_CHOICES)] = ()

    @model_validator(mode="after")
    def _bounded(self) -> "IntegerBounds":
        _require_range(self.minimum, self.maximum, self.one_of)
        return self

    def admits(self, value: Value) -> bool:
        """Whether it is one of these; 2.0 is no whole number here."""
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return _within(value, self.minimum, self.maximum, self.one_of)

    def words(self) -> str:
        """The bounds, for people."""
        return f"a whole number {_range_words(self.minimum, self.maximum, self.one_of)}"


class TextBounds(_Bounds):
    """One of a closed list of texts; none holds a `$`, which could begin a reference."""

    type: Literal["text"]
    one_of: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=_MOST_CHOICES)]

    def admits(self, value: Value) -> bool:
        """Whether it is one of them."""
        return isinstance(value, str) and value in self.one_of

    def words(self) -> str:
        """The bounds, for people."""
        return f"one of {_listed(self.one_of)}"


class SwitchBounds(_Bounds):
    """True or false."""

    type: Literal["switch"]

    def admits(self, value: Value) -> bool:
        """Whether it is one of the two."""
        return isinstance(value, bool)

    def words(self) -> str:
        """The bounds, for people."""
        return "true or false"


ValueBounds = Annotated[NumberBounds | IntegerBounds | TextBounds | SwitchBounds, Field(discriminator="type")]
Declared = Annotated[dict[ValueName, ValueBounds], Field(max_length=MAX_VALUES)]
"""Every value that may be set, by its name."""

DECLARED_VALUES: TypeAdapter[Declared] = TypeAdapter(Declared)


def value_problem(declared: Mapping[str, ValueBounds], values: Mapping[str, Value]) -> str | None:
    """The first thing about a device's values that nobody signed for, as a sentence; None where all are well.

    Args:
        declared: of the release, as it was signed.
        values: all of one device.
    """
    for name, value in values.items():
        bounds = declared.get(name)
        if bounds is None:
            return f"nobody signed for a value {name[:_SHOWN]}: the release has {_listed(tuple(declared))}"
        if not bounds.admits(value):
            return f"the value {name} is {repr(value)[:_SHOWN]}, and people signed for {bounds.words()}"
    missing = [name for name in declared if name not in values]
    return f"the value {missing[0]} is not given, and the release needs it" if missing else None


def declared_in(overlay: Mapping[Any, Any], *beside: Any) -> Declared:
    """What an overlay declares, once it fits what it uses.

    Args:
        overlay: its plain data.
        beside: plain data of the files that references may stand in as well.

    Raises:
        ValueError: it is no declaration, or another set of values is used than is declared; one sentence.
    """
    section = overlay.get(DECLARED)
    section = {} if section is None else section
    if not isinstance(section, Mapping):
        raise ValueError(f"{DECLARED} is a table: the name of each value with its type and bounds")
    try:
        declared = DECLARED_VALUES.validate_python(section, context=_BY_PEOPLE)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in (DECLARED, *found["loc"]))
        raise ValueError(f"{where}: {found['msg']}") from None
    rest = {key: value for key, value in overlay.items() if key != DECLARED}
    used = {name for data in (rest, *beside) for name in _names(data)}
    if unbounded := sorted(used - declared.keys()):
        raise ValueError(
            f"${{values.{unbounded[0]}}} is used and not declared: name its type and bounds below values"
        )
    if unused := sorted(declared.keys() - used):
        raise ValueError(f"the value {unused[0]} is declared and used nowhere: take it out")
    return declared


def _names(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for item in data.values():
            yield from _names(item)
    elif isinstance(data, list):
        for item in data:
            yield from _names(item)
    elif isinstance(data, str):
        for match in REFERENCE.finditer(data):
            name = None if match[1] else NAMED.fullmatch(match[2])
            if name is not None:
                yield name[1]


def _require_range(minimum: float | None, maximum: float | None, one_of: tuple[float, ...]) -> None:
    if one_of and (minimum is not None or maximum is not None):
        raise ValueError("bounds are minimum and maximum, or one_of")
    if not one_of and (minimum is None or maximum is None or minimum > maximum):
        raise ValueError("a minimum and a maximum that is not below it are needed, or one_of")


def _within(value: float, minimum: float | None, maximum: float | None, one_of: tuple[float, ...]) -> bool:
    if minimum is None or maximum is None:
        return value in one_of
    return minimum <= value <= maximum


def _range_words(minimum: float | None, maximum: float | None, one_of: tuple[float, ...]) -> str:
    if minimum is None or maximum is None:
        return f"of {_listed(tuple(f'{one:g}' for one in one_of))}"
    return f"from {minimum:g} to {maximum:g}"


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(name[:_SHOWN] for name in names[:4]) or "none"
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
