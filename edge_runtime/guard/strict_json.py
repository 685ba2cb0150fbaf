"""JSON of which there is one reading: UTF-8, no key twice, no NaN."""

import json
import math
import os
from collections.abc import Callable
from typing import TypeVar

from edge_runtime.errors import ConfigError

_T = TypeVar("_T")


def strict_json(data: bytes) -> object:
    """What the bytes say.

    Raises:
        ValueError: not JSON in UTF-8, a key twice, a constant that JSON does not have, or nested too deep.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_settings(fd: int, largest: int) -> bytes:
    """What a process was handed by a descriptor, which is read to its end and closed.

    Args:
        fd: of a pipe.
        largest: bytes; one more is read, so that longer settings can be told from those that fit.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with os.fdopen(fd, "rb") as file:
            return file.read(largest + 1)
    except OSError as error:
        raise ConfigError(f"descriptor {fd}: the settings cannot be read: {error.strerror}") from None


def settings_in(data: bytes, largest: int) -> "JsonObject":
    """The one JSON object that a process was handed.

    Raises:
        ConfigError: it is too long, not JSON, or not an object.
    """
    if len(data) > largest:
        raise ConfigError(f"settings: longer than {largest} bytes")
    try:
        value = strict_json(data)
    except ValueError as error:
        raise ConfigError(f"settings: not JSON: {error}") from None
    return JsonObject(value, "settings")


def finite(value: object) -> float | None:
    """A finite double from what JSON gave; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


class JsonObject:
    """A JSON object of which every key is taken once and none is left over.

    Args:
        value: what JSON gave.
        place: how errors call it.

    Raises:
        ConfigError: from every method, naming the place that cannot be used.
    """

    def __init__(self, value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise ConfigError(f"{place}: not an object")
        self._left: dict[str, object] = dict(value)
        self.place = place

    def has(self, key: str) -> bool:
        """Whether there is such a key that was not taken yet."""
        return key in self._left

    def take(self, key: str) -> object:
        """The value of a key, whatever it is."""
        if key not in self._left:
            raise ConfigError(f"{self.place}.{key}: missing")
        return self._left.pop(key)

    def end(self) -> None:
        """There must be no more keys."""
        if self._left:
            raise ConfigError(f"{self.place}.{min(self._left)}: no such setting")

    def rest(self) -> dict[str, object]:
        """All keys that were not taken."""
        left, self._left = self._left, {}
        return left

    def text(self, key: str, longest: int) -> str:
        """A text of at most so many printable characters."""
        value = self.take(key)
        if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
            raise ConfigError(f"{self.place}.{key}: not a text of 1 to {longest} printable characters")
        return value

    def whole(self, key: str, low: int, high: int) -> int:
        """A whole number in a range, both ends in it."""
        value = self.take(key)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ConfigError(f"{self.place}.{key}: not a whole number from {low} to {high}")
        return value

    def number(self, key: str) -> float:
        """A finite number."""
        value = finite(self.take(key))
        if value is None:
            raise ConfigError(f"{self.place}.{key}: not a finite number")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.take(key)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.place}.{key}: not true or false")
        return value

    def items(self, key: str, most: int) -> list[object]:
        """A list of at most so many things."""
        value = self.take(key)
        if not isinstance(value, list) or len(value) > most:
            raise ConfigError(f"{self.place}.{key}: not a list of at most {most}")
        return value

    def texts(self, key: str, most: int) -> tuple[str, ...]:
        """A list of at most so many texts."""
        found = []
        for item in self.items(key, most):
            if not isinstance(item, str) or not 0 < len(item) <= 1024 or "\0" in item:
                raise ConfigError(f"{self.place}.{key}: not a list of texts")
            found.append(item)
        return tuple(found)

    def named(self, key: str, most: int, make: Callable[[object, str], _T]) -> dict[str, _T]:
        """An object whose keys are names, each value made into something."""
        value = JsonObject(self.take(key), f"{self.place}.{key}")
        left = value.rest()
        if not 0 < len(left) <= most:
            raise ConfigError(f"{value.place}: not 1 to {most} entries")
        for name in left:
            if not 0 < len(name) <= 64 or not name.isprintable():
                raise ConfigError(f"{value.place}: a name has 1 to 64 printable characters")
        return {name: make(item, f"{value.place}.{name}") for name, item in left.items()}


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
