"""Reads a JSON object strictly: each field is asked for once, and what nobody asked for is a fault.

The guard has the standard library only, so this does in a page what it needs of a schema: kinds, ranges, closed
lists, and one sentence that names the field by its path.
"""

from collections.abc import Collection, Iterator, Mapping

from edge_runtime.errors import ConfigError

NS_PER_MS = 1_000_000

LONGEST_MS = 24 * 60 * 60 * 1000
"""No time in a profile is longer than a day: what takes longer is no reaction."""

MOST_GROUPS = 32
LONGEST_TEXT = 200


class ProfileError(ConfigError):
    """A profile cannot be used as written; the text names the field."""


class Fields:
    """The fields of one JSON object.

    Args:
        given: what a JSON parser returned.
        path: what the object is called in a fault.

    Raises:
        ProfileError: it is no object; every method raises it for its own field.
    """

    def __init__(self, given: object, path: str) -> None:
        if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
            raise ProfileError(f"{path}: must be an object, not {_kind(given)}")
        self._given: dict[str, object] = dict(given)
        self._path = path

    def has(self, name: str) -> bool:
        """Whether a field is there and has not been asked for."""
        return name in self._given

    def end(self) -> None:
        """Say that all fields have been asked for."""
        for name in self._given:
            raise ProfileError(f"{self._path}.{name}: there is no such field")

    def group(self, name: str, *, optional: bool = False) -> "Fields":
        """An object; an optional one that is missing has no fields."""
        return Fields({} if optional and not self.has(name) else self._take(name), f"{self._path}.{name}")

    def groups(self, name: str) -> Iterator[tuple[str, "Fields"]]:
        """An object of named objects, in the order in which they are written; at least one."""
        group = self.group(name)
        if not 1 <= len(group._given) <= MOST_GROUPS:
            raise ProfileError(
                f"{group._path}: must have 1 to {MOST_GROUPS} entries, not {len(group._given)}"
            )
        for key in list(group._given):
            yield key, group.group(key)

    def text(self, name: str) -> str:
        """A text of 1 to 200 characters."""
        value = self._take(name)
        if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT:
            raise self._fault(name, f"must be a text of 1 to {LONGEST_TEXT} characters", value)
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._take(name) if self.has(name) else default
        if not isinstance(value, bool):
            raise self._fault(name, "must be true or false", value)
        return value

    def number(self, name: str, *, least: float, most: float) -> float:
        """A number within bounds."""
        value = self._take(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._fault(name, "must be a number", value)
        if not least <= value <= most:  # nor is NaN
            raise self._fault(name, f"must be from {least:g} to {most:g}", value)
        return float(value)

    def count(self, name: str, *, default: int | None, least: int, most: int) -> int:
        """A whole number within bounds; without a default it has to be there."""
        value = default if default is not None and not self.has(name) else self._take(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fault(name, "must be a whole number", value)
        if not least <= value <= most:
            raise self._fault(name, f"must be from {least} to {most}", value)
        return value

    def duration_ns(self, name: str, *, default: int | None = None, least: int = 1) -> int:
        """A time, written as whole milliseconds, in nanoseconds."""
        return NS_PER_MS * self.count(name, default=default, least=least, most=LONGEST_MS)

    def choice(self, name: str, choices: Mapping[str, str], *, default: str) -> str:
        """What stands for one of some words."""
        if not self.has(name):
            return default
        value = self._take(name)
        if not isinstance(value, str) or value not in choices:
            raise self._fault(name, f"must be one of {', '.join(choices)}", value)
        return choices[value]

    def words(self, name: str, allowed: Collection[str]) -> tuple[str, ...]:
        """A list of some words, each once; a missing field is an empty list."""
        value = self._take(name) if self.has(name) else []
        if not isinstance(value, list):
            raise self._fault(name, "must be a list", value)
        for word in value:
            if not isinstance(word, str) or word not in allowed:
                raise self._fault(name, f"must hold only words of {', '.join(allowed)}", word)
        if len(set(value)) < len(value):
            raise self._fault(name, "must hold each word once", value)
        return tuple(value)

    def _take(self, name: str) -> object:
        if name not in self._given:
            raise ProfileError(f"{self._path}.{name}: is missing")
        return self._given.pop(name)

    def _fault(self, name: str, demand: str, value: object) -> ProfileError:
        return ProfileError(f"{self._path}.{name}: {demand}, not {_kind(value)}")


def _kind(value: object) -> str:
    """A value as it is shown in a fault: short, and of a container only what it is."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"'{value[:40]}'"
    return f"{value}"[:40].lower()
