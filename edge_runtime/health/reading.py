"""A measured value that may be unknown: None with the reason, never a zero that nobody measured.

Boards differ, sensors are switched off with the part they sit in, and files vanish between two reads. A number
made up for any of these hides a fault or raises a false one (jetson_stats #885, #863; a powered-off GPU of an Orin
reads -256 C). Everything in this room that may be missing is therefore a `Reading`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

COLDEST_C, HOTTEST_C = -60.0, 200.0
"""Outside of these no sensor of a board measures: -256 C, -127 C and 255 C are drivers' words for no value."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """One value, or None and why there is none.

    Attributes:
        value: what was measured.
        reason: why there is no value, in a few words; empty where there is one.
    """

    value: T | None
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) == (not self.reason):
            raise ValueError("a reading has either a value or a reason")

    @property
    def known(self) -> bool:
        """Whether there is a value."""
        return self.value is not None


def unknown(reason: str) -> Reading[Any]:
    """No value, because of `reason`."""
    return Reading(None, reason)


def temperature(celsius: float) -> Reading[float]:
    """A temperature in degrees Celsius, or unknown where no sensor could have measured it."""
    if celsius == -256:
        return unknown("-256 C: the part that the sensor sits in is powered off")
    if not COLDEST_C <= celsius <= HOTTEST_C:  # NaN too
        return unknown(f"{celsius:g} C is not a temperature of a board")
    return Reading(float(celsius))


def distinct_name(taken: Mapping[str, object], name: str) -> str:
    """`name`, or `name#2`, `name#3` … where it is taken: two rails may both be called NC."""
    if name not in taken:
        return name
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"


def plain(record: Any) -> dict[str, Any]:
    """A record of this room as JSON: values and null, with the reasons under `unknown`.

    Args:
        record: a dataclass of readings, plain values, mappings, tuples and other such dataclasses.

    Returns:
        The fields by name. `unknown` maps the path of each null (`temperatures.gpu.celsius`, `cpus.4.mhz`) to
        its reason, so that a number is always a number: `jq .temperatures.cpu.celsius`.
    """
    reasons: dict[str, str] = {}
    found = _plain(record, "", reasons)
    if not isinstance(found, dict):
        raise TypeError(f"{type(record).__name__} is not a record")
    return {**found, "unknown": reasons}


def _plain(value: Any, path: str, reasons: dict[str, str]) -> Any:
    if isinstance(value, Reading):
        if value.value is None:
            reasons[path] = value.reason
            return None
        return _plain(value.value, path, reasons)
    if is_dataclass(value) and not isinstance(value, type):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: _plain(item, _join(path, name), reasons) for name, item in named}
    if isinstance(value, Mapping):
        return {str(name): _plain(item, _join(path, name), reasons) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item, _join(path, index), reasons) for index, item in enumerate(value)]
    return value


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
