"""Reading records ten times sooner, with the same verdict: msgspec types that are made out of the pydantic ones.

The pydantic record stays the one definition, and the judge of every refusal. A `FastReader` reads what is exactly
of this protocol version and within every bound; whatever it does not accept goes to the record itself, which
accepts it or says in its own words why not. So the fast way may know less than the record, and never more. It is
made when the module is imported, out of the record's own fields: a kind of field that it does not know is an error
there, not a hole. tests/fleet_server/ingest/test_fast_records.py compares both ways value by value.
"""

import functools
import math
import operator
import re
import types
from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin

import annotated_types as bounds
import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES, PROTOCOL, WireRecord, plain

_LARGEST = 1.7976931348623157e308
"""The largest float: bounds up to it leave out NaN and both infinities, as the records do."""

_INT64 = 1 << 63
_MOST_REMEMBERED = 4096
_OUR_VERSION = tuple[Literal[PROTOCOL[0]], Literal[PROTOCOL[1]]]  # type: ignore[valid-type]
_CONSTRAINED = (str, bytes, int, float, tuple)

RecordT = TypeVar("RecordT", bound=WireRecord)


class FastReader(Generic[RecordT]):
    """Decodes one kind of record.

    Args:
        kind: the record.
        repeated: two or more fields, as dotted names, whose texts hardly change from one record to the next: the
            digest of a configuration and the like. Their patterns take a third of the time; texts that were found
            right together are remembered, and only others are looked at again.

    Raises:
        TypeError: a field of it, or of a record in it, is of a kind that is not known here.
    """

    def __init__(self, kind: type[RecordT], repeated: tuple[str, ...] = ()) -> None:
        self._kind = kind
        self._patterns = [re.compile(_pattern_at(kind, path)) for path in repeated]
        self._texts = operator.attrgetter(*repeated) if repeated else _no_texts
        self._found_right: set[object] = set()
        self._decode = msgspec.msgpack.Decoder(_outermost(kind, repeated)).decode

    def decode(self, payload: bytes, max_bytes: int = MAX_PAYLOAD_BYTES) -> RecordT:
        """The record in a payload: one of its kind, or a value with the same attributes that only reads like one.

        Raises:
            WireError: exactly where the record's own `decode` raises it, with the same text.
        """
        try:
            found = self._decode(plain(payload, max_bytes))
        # msgspec knows three faults of its own; text that is no UTF-8 is Python's
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._kind.decode(payload, max_bytes)
        texts = self._texts(found)
        if texts in self._found_right or self._are_right(texts):
            return cast("RecordT", found)
        return self._kind.decode(payload, max_bytes)

    def _are_right(self, texts: tuple[Any, ...]) -> bool:
        if not all(map(_fits, texts, self._patterns)):
            return False
        if len(self._found_right) >= _MOST_REMEMBERED:
            self._found_right.clear()
        self._found_right.add(texts)
        return True


def _no_texts(_found: object) -> tuple[Any, ...]:
    return ()


def _fits(value: str | tuple[str, ...] | None, pattern: re.Pattern[str]) -> bool:
    """Whether a text, or each of several, has a pattern; that there may be none was looked at before."""
    if isinstance(value, str):
        return pattern.search(value) is not None
    return all(pattern.search(text) is not None for text in value or ())


def _outermost(kind: type[WireRecord], repeated: tuple[str, ...]) -> type[msgspec.Struct]:
    """The type of a whole payload, which must name our very version: a newer minor one may have new fields."""
    fields = [field for field in _fields(kind, repeated) if field[0] != "v"]
    return _struct(kind.__name__, [("v", _OUR_VERSION), *fields])


@functools.cache
def _inner(kind: type[BaseModel]) -> type[msgspec.Struct]:
    return _struct(kind.__name__, _fields(kind))


def _struct(name: str, fields: Iterable[tuple[Any, ...]]) -> type[msgspec.Struct]:
    # gc=False: records hold no cycles, and the collector need not look at them
    return msgspec.defstruct(name, fields, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False)


def _fields(kind: type[BaseModel], repeated: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    """Names, types and defaults for msgspec; without the patterns of the fields that are named."""
    decorators = kind.__pydantic_decorators__
    if decorators.model_validators or decorators.field_validators or decorators.validators:
        raise TypeError(f"{kind.__name__} has rules in Python, which are not known here")
    if kind.model_config.get("extra") != "forbid":
        raise TypeError(f"{kind.__name__} takes fields that it does not name")
    found: list[tuple[Any, ...]] = []
    for name, field in kind.model_fields.items():
        if field.default_factory is not None or field.alias is not None:
            raise TypeError(f"{kind.__name__}.{name} has a made default or another name")
        below = tuple(path.partition(".")[2] for path in repeated if path.startswith(f"{name}."))
        if below:
            record = field.annotation
            assert isinstance(record, type)
            converted: Any = _struct(record.__name__, _fields(record, below))
        else:
            converted = _converted(field.annotation, field.metadata, with_pattern=name not in repeated)
        found.append((name, converted) if field.is_required() else (name, converted, field.default))
    return found


def _converted(annotation: Any, metadata: Iterable[Any] = (), *, with_pattern: bool = True) -> Any:
    """A type annotation of a record as one of msgspec's."""
    convert = functools.partial(_converted, with_pattern=with_pattern)
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        return convert(inner, [*_metadata(notes), *metadata])
    constraints = _constraints(annotation, metadata)
    if not with_pattern:
        constraints.pop("pattern", None)
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        converted: Any = Union[tuple(convert(choice) for choice in get_args(annotation))]  # noqa: UP007
    elif origin is tuple:
        parts = tuple(part if part is Ellipsis else convert(part) for part in get_args(annotation))
        converted = tuple[parts]  # type: ignore[valid-type]
    elif origin is Literal or annotation in (bool, int, float, str, bytes, type(None)):
        converted = annotation
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        converted = _inner(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        converted = annotation
    else:
        raise TypeError(f"a field of the kind {annotation} is not known here")
    if not constraints:
        return converted
    if annotation not in _CONSTRAINED and origin not in _CONSTRAINED:
        raise TypeError(f"bounds of a field of the kind {annotation} are not known here")
    return Annotated[converted, msgspec.Meta(**constraints)]


def _pattern_at(kind: type[BaseModel], path: str) -> str:
    """The one pattern of the texts of a field."""
    name, _, below = path.partition(".")
    field = kind.model_fields[name]
    if below:
        if not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            raise TypeError(f"{kind.__name__}.{name} is no record that is always there")
        return _pattern_at(field.annotation, below)
    found = _patterns_in(field.annotation, field.metadata)
    if len(found) != 1:
        raise TypeError(f"{kind.__name__}.{name} has not one pattern")
    return found.pop()


def _patterns_in(annotation: Any, metadata: Iterable[Any]) -> set[str]:
    constraints = _constraints(annotation, metadata) if get_origin(annotation) is not Annotated else {}
    found = {constraints["pattern"]} if "pattern" in constraints else set()
    for part in get_args(annotation) if get_origin(annotation) is not Literal else ():
        notes = part.__metadata__ if get_origin(part) is Annotated else ()
        found |= _patterns_in(part.__origin__ if notes else part, _metadata(notes))
    return found


def _metadata(notes: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for note in notes:
        found += note.metadata if isinstance(note, FieldInfo) else [note]
    return found


def _constraints(annotation: Any, metadata: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for note in metadata:
        if isinstance(note, bounds.MinLen):
            found["min_length"] = note.min_length
        elif isinstance(note, bounds.MaxLen):
            found["max_length"] = note.max_length
        elif isinstance(note, (bounds.Ge, bounds.Gt, bounds.Le, bounds.Lt)):
            found |= _bound(note)
        elif getattr(note, "__dict__", {}).keys() == {"pattern"}:
            found["pattern"] = _pattern(note.pattern)
        else:
            raise TypeError(f"a bound of the kind {note} is not known here")
    if annotation is float:
        if "ge" not in found and "gt" not in found:
            found["ge"] = -_LARGEST
        if "le" not in found and "lt" not in found:
            found["le"] = _LARGEST
        if not all(math.isfinite(value) for value in found.values()):
            raise TypeError("a bound that is no finite number is not known here")
    return found


def _bound(note: bounds.Ge | bounds.Gt | bounds.Le | bounds.Lt) -> dict[str, Any]:
    if isinstance(note, bounds.Lt):
        # msgspec's own bounds are 64-bit numbers
        return {"le": _INT64 - 1} if note.lt == _INT64 else {"lt": note.lt}
    if isinstance(note, bounds.Le):
        return {"le": note.le}
    return {"ge": note.ge} if isinstance(note, bounds.Ge) else {"gt": note.gt}


def _pattern(text: str) -> str:
    r"""Python's `$` also matches before a last line break, that of the records does not: `\Z` is the same."""
    if not (text.startswith("^") and text.endswith("$")) or "|" in text or "\\" in text or "$" in text[:-1]:
        raise TypeError(f"the pattern {text} is of a kind that is not known here")
    return text[:-1] + r"\Z"
