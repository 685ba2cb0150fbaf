"""Classes that have exactly what one release's bindings have, and refuse the rest as pybind11 does.

A class is made from its entry in the API: an unknown name is an AttributeError, an argument that no overload
takes a TypeError. What a call does is found in `acts`, by class: a member without an act says that the double does
not play it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tests.rigs.tensorrt_double.api import Api, ApiClass, Member, Signature

Classes = dict[str, type[Any]]

_BUFFERS = ("buffer", "typing_extensions.Buffer")
_INTEGERS = ("int", "typing.SupportsInt")
_NUMBERS = ("float", "typing.SupportsFloat")
_LISTS = ("List[", "list[", "collections.abc.Sequence[")
_ALIASES = {"nvonnxparser::OnnxParserFlag": "OnnxParserFlag", "nvonnxparser::IParserError": "ParserError"}


class NotPlayed(NotImplementedError):
    """The release has this, the double does not act it: teach it, or do without."""


def class_name(text: str) -> str:
    """The class that a docstring's type means."""
    return _ALIASES.get(text, text.removeprefix("tensorrt."))


def takes(value: Any, kind: str, classes: Classes, *, nullable: bool) -> bool:
    """Whether pybind11 would convert `value` to a parameter of this type."""
    if value is None:
        return nullable or class_name(kind) in classes or kind in ("object", "")
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool | np.bool_)
    if kind in _INTEGERS:
        return not isinstance(value, float) and hasattr(value, "__index__")
    if kind in _NUMBERS:
        return hasattr(value, "__float__")
    if kind in _BUFFERS:
        return _is_buffer(value)
    if kind in ("tuple", "list"):
        return isinstance(value, tuple if kind == "tuple" else list)
    if kind.startswith(_LISTS):
        inner = kind[kind.index("[") + 1 : -1]
        return _is_sequence(value) and all(takes(v, inner, classes, nullable=False) for v in value)
    name = class_name(kind)
    if name in ("Dims", "Permutation") and isinstance(value, tuple | list):
        return all(hasattr(v, "__index__") for v in value)
    wanted = classes.get(name)
    return wanted is None or isinstance(value, wanted)


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes)


def bind(
    label: str,
    signatures: Sequence[Signature],
    classes: Classes,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """The arguments by name, after the first overload that takes them.

    Raises:
        TypeError: no overload does; the text says why.
    """
    reasons = []
    for signature in signatures:
        if signature.variadic:
            return {"args": args, **kwargs}
        if reason := signature.misfit(len(args), tuple(kwargs)):
            reasons.append(f"{label} {reason}")
            continue
        given = dict(zip((p.name for p in signature.parameters), args, strict=False)) | dict(kwargs)
        kinds = {p.name: (p.type, not p.required) for p in signature.parameters}
        wrong = [n for n, v in given.items() if not takes(v, kinds[n][0], classes, nullable=kinds[n][1])]
        if not wrong:
            return given
        reasons += [f"{label}: {n} must be {kinds[n][0]}, not {type(given[n]).__name__}" for n in wrong]
    raise TypeError(f"incompatible function arguments: {'; '.join(reasons) or label + ' takes none'}")


def make_enum(entry: ApiClass) -> type[Any]:
    """As `py::enum_` makes it: no integer, though `int()` of it is its value."""

    class Enum:
        __members__: ClassVar[dict[str, Any]] = {}
        _known: ClassVar[dict[int, Any]] = {}

        def __new__(cls, value: int) -> Any:
            if not hasattr(value, "__index__"):
                raise TypeError(f"{entry.name}() needs an int, not {type(value).__name__}")
            return cls._known[int(value)] if int(value) in cls._known else _unknown(entry.name, value)

        def __int__(self) -> int:
            return self.value

        __index__ = __int__

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Enum) and type(other) is type(self) and other.value == self.value

        def __hash__(self) -> int:
            return hash(self.value)

        def __repr__(self) -> str:
            return f"<{entry.name}.{self.name}: {self.value}>"

        def __str__(self) -> str:
            return f"{entry.name}.{self.name}"

        value: int
        name: str

    made: Any = type(entry.name.rpartition(".")[2], (Enum,), {"__members__": {}, "_known": {}})
    for name, value in entry.values.items():
        member = made._known.get(value)
        if member is None:
            member = object.__new__(made)
            member.name, member.value = name, value
            made._known[value] = member
        made.__members__[name] = member
        setattr(made, name, member)
    result: type[Any] = made
    return result


def _unknown(name: str, value: int) -> Any:
    raise ValueError(f"{value} is no {name}")


class _Initialised(type):
    """A subclass whose `__init__` leaves out that of the base is refused, as pybind11 does."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if "_act" not in made.__dict__:
            raise TypeError(f"tensorrt.{made._label}.__init__() must be called when overriding __init__")
        return made


class Strict(metaclass=_Initialised):
    """Base of the classes: `_act` holds the object that acts. A user's subclass may have attributes of its own."""

    _label = "?"
    _act: Any

    def __setattr__(self, name: str, value: Any) -> None:
        if "_label" in type(self).__dict__ and name != "_act" and not hasattr(type(self), name):
            raise AttributeError(f"{self._label!r} object has no attribute {name!r}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'tensorrt.{self._label}' object has no attribute {name!r}")


def _guard(act: Any, member: str) -> None:
    guard = getattr(act, "guard", None)
    if guard is not None:
        guard(member)


def _method(entry: ApiClass, member: Member, classes: Classes) -> Callable[..., Any]:
    label = f"{entry.name}.{member.name}"

    def call(self: Strict, *args: Any, **kwargs: Any) -> Any:
        given = bind(label, member.signatures, classes, args, kwargs)
        _guard(self._act, member.name)
        act = getattr(self._act, member.name, None)
        if act is None:
            raise NotPlayed(f"the double does not play {label}")
        return act(**given)

    call.__name__ = member.name
    call.__qualname__ = label
    return call


def _property(entry: ApiClass, name: str) -> property:
    def read(self: Strict) -> Any:
        _guard(self._act, name)
        try:
            return getattr(self._act, name)
        except AttributeError:
            raise NotPlayed(f"the double does not play {entry.name}.{name}") from None

    def write(self: Strict, value: Any) -> None:
        _guard(self._act, name)
        settable = getattr(type(self._act), "settable", ())
        if name not in settable:
            raise AttributeError(f"property of 'tensorrt.{entry.name}' object has no setter: {name}")
        setattr(self._act, name, value)

    return property(read, write)


def make_class(
    entry: ApiClass, bases: tuple[type[Any], ...], classes: Classes, act: type[Any] | None
) -> type[Any]:
    """One class of the module; `act` is made when a user makes an object of it."""

    def init(self: Strict, *args: Any, **kwargs: Any) -> None:
        if not entry.initialisable:
            raise TypeError(f"tensorrt.{entry.name}: No constructor defined!")
        given = bind(f"{entry.name}.__init__", entry.members["__init__"].signatures, classes, args, kwargs)
        self._act = None
        if act is not None:
            self._act = act(self, **given)

    body: dict[str, Any] = {"__init__": init, "_label": entry.name, "__module__": "tensorrt"}
    for name, member in entry.members.items():
        if name == "__init__":
            continue
        if member.kind == "callable":
            body[name] = _method(entry, member, classes)
        elif member.kind == "property":
            body[name] = _property(entry, name)
        elif member.kind == "int":
            body[name] = 8  # MAX_DIMS
    return type(entry.name.rpartition(".")[2], bases, body)


def make_classes(api: Api, acts: Mapping[str, type[Any]], ready: Mapping[str, type[Any]]) -> Classes:
    """Every class of a release.

    Args:
        api: the release.
        acts: what objects do that users make.
        ready: whole classes that take the place of made ones (those with a buffer or a length).
    """
    classes: Classes = {}

    def make(name: str) -> type[Any]:
        if name in classes:
            return classes[name]
        entry = api.classes[name]
        if name in ready:
            classes[name] = ready[name]
        elif entry.values:
            classes[name] = make_enum(entry)
        else:
            base = next((make(b) for b in entry.bases if b in api.classes), Strict)
            classes[name] = make_class(entry, (base,), classes, acts.get(name))
        return classes[name]

    for name in api.classes:
        make(name)
    for name, entry in api.classes.items():
        if "." not in name and f"{name}.Severity" in classes:
            severity = classes["ILogger.Severity"]
            classes[name].Severity = severity
            for value in severity.__members__:
                if value in entry.members:
                    setattr(classes[name], value, severity.__members__[value])
    return classes


def wrap(cls: type[Any], act: Any) -> Any:
    """An object of a class that only TensorRT makes."""
    made: Any = object.__new__(cls)
    made._act = act
    return made
