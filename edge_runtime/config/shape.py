"""The shape of the configuration, read from the models' annotations.

Error messages, the JSON Schema and the reference all walk it, so none of them can drift from the models.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edge_runtime.document import Location


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand at one place.

    Attributes:
        kind: `section` (a model), `choice` (one of several models, told apart by a field), `map` (free keys),
            `list` (any number of items), `tuple` (a fixed number of items) or `value`.
        annotation: the type without `Annotated` and `None`.
        variants: for `choice`, models by the value of the telling field.
        discriminator: for `choice`, the telling field.
        items: for `map` and `list` the one shape of their values; for `tuple` each item's.
        optional: nothing at all is allowed as well.
    """

    kind: Literal["section", "choice", "map", "list", "tuple", "value"]
    annotation: Any = None
    variants: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    discriminator: str = ""
    items: Sequence["Shape"] = ()
    optional: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """For a `value` from a closed list: its words."""
        if get_origin(self.annotation) is Literal:
            return tuple(str(word) for word in get_args(self.annotation))
        if isinstance(self.annotation, type) and issubclass(self.annotation, Enum):
            return tuple(str(member.value) for member in self.annotation)
        return ()

    @property
    def model(self) -> type[BaseModel] | None:
        """For a `section`: its model."""
        return self.annotation if self.kind == "section" else None


def shape_of(annotation: Any, discriminator: str = "") -> Shape:
    """The shape of a type annotation; `discriminator` where the field states it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *notes = get_args(annotation)
        named = [note.discriminator for note in notes if isinstance(note, FieldInfo)]
        return shape_of(inner, next((name for name in named if isinstance(name, str)), discriminator))
    if origin in (Union, types.UnionType):
        return _union(annotation, discriminator)
    if origin in (dict, tuple):
        return _container(annotation)
    is_section = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return Shape("section" if is_section else "value", annotation)


def _union(annotation: Any, discriminator: str) -> Shape:
    members = [member for member in get_args(annotation) if member is not type(None)]
    optional = len(members) < len(get_args(annotation))
    if len(members) == 1:
        return replace(shape_of(members[0], discriminator), optional=optional)
    variants = {tag: member for member in members for tag in _tags(member, discriminator)}
    return Shape("choice", annotation, variants, discriminator, optional=optional)


def _container(annotation: Any) -> Shape:
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return Shape("map", annotation, items=(shape_of(arguments[1]),))
    if arguments[-1] is Ellipsis:
        return Shape("list", annotation, items=(shape_of(arguments[0]),))
    return Shape("tuple", annotation, items=tuple(shape_of(argument) for argument in arguments))


def field_shape(info: FieldInfo) -> Shape:
    """The shape of a model's field."""
    return shape_of(info.annotation, info.discriminator if isinstance(info.discriminator, str) else "")


def _tags(model: Any, discriminator: str) -> tuple[str, ...]:
    return tuple(str(tag) for tag in get_args(model.model_fields[discriminator].annotation))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pydantic error points.

    Attributes:
        location: in the file: without the tags that pydantic adds for the member of a union.
        shape: what may stand there, or None for a key that does not exist.
        section: the model whose field it is, or None at the top or in a map or list.
        is_key: the error is about the key itself, not its value.
    """

    location: Location
    shape: Shape | None
    section: type[BaseModel] | None = None
    is_key: bool = False


def place_of(steps: Sequence[str | int], root: type[BaseModel]) -> Place:
    """Follow the `loc` of a pydantic error through the models."""
    shape: Shape | None = Shape("section", root)
    location: list[str | int] = []
    section: type[BaseModel] | None = None
    for step in steps:
        if step == "[key]":
            return Place(tuple(location), shape, section, is_key=True)
        if shape is not None and shape.kind == "choice" and step in shape.variants:
            shape = Shape("section", shape.variants[str(step)])
            continue
        location.append(step)
        section = shape.model if shape is not None else None
        shape = _inside(shape, step)
    return Place(tuple(location), shape, section)


def _inside(shape: Shape | None, step: str | int) -> Shape | None:
    if shape is None:
        return None
    if shape.kind == "section" and shape.model is not None:
        info = shape.model.model_fields.get(str(step))
        return None if info is None else field_shape(info)
    if shape.kind in ("map", "list"):
        return shape.items[0]
    if shape.kind == "tuple" and isinstance(step, int) and step < len(shape.items):
        return shape.items[step]
    return None
