"""A monitor's readings as JSON and back: a round is written as what has changed since the one before."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from edge_runtime.health.linux import Disk, MemoryState, Zone
from edge_runtime.health.reading import Reading
from edge_runtime.monitor.readings import BatteryReading, Pose, Readings

_FIELDS = tuple(field.name for field in fields(Readings))


def changed(before: Readings | None, now: Readings) -> dict[str, Any]:
    """The fields of a round that are not those of the round before; all of them where there is none."""
    return {
        name: _plain(getattr(now, name))
        for name in _FIELDS
        if before is None or getattr(before, name) != getattr(now, name)
    }


def laid_over(before: Readings | None, found: Mapping[str, Any]) -> Readings:
    """The readings of a round, from those of the round before and what had changed.

    Raises:
        ValueError: it is no such record, or the first one does not have everything.
    """
    values = {} if before is None else {name: getattr(before, name) for name in _FIELDS}
    try:
        values |= {name: _READ[name](value) for name, value in found.items() if name in _READ}
        return Readings(**values)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"no readings of a monitor: {type(error).__name__}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Reading):
        return {"value": value.value} if value.known else {"unknown": value.reason}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Disk | MemoryState | Zone | BatteryReading | Pose):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def _reading(found: Mapping[str, Any]) -> Reading[Any]:
    return Reading(found["value"]) if "value" in found else Reading(None, str(found["unknown"]))


def _all(kind: Any, found: Mapping[str, Any]) -> Any:
    """A record of which every field is a reading."""
    return kind(**{field.name: _reading(found[field.name]) for field in fields(kind)})


def _battery(found: Mapping[str, Any] | None) -> BatteryReading | None:
    if found is None:
        return None
    return BatteryReading(
        int(found["taken_ns"]),
        _reading(found["charge"]),
        _reading(found["volts"]),
        bool(found["draining"]),
        tuple(str(text) for text in found["raw"]),
    )


_READ: Mapping[str, Callable[[Any], Any]] = {
    "disks": lambda found: {name: _all(Disk, disk) for name, disk in found.items()},
    "memory": lambda found: _all(MemoryState, found),
    "memory_full_percent": _reading,
    "temperatures": lambda found: {name: _all(Zone, zone) for name, zone in found.items()},
    "throttled": _reading,
    "batteries": lambda found: {name: _battery(battery) for name, battery in found.items()},
    "pose": lambda found: (
        None if found is None else Pose(int(found["captured_ns"]), float(found["spread_m"]))
    ),
    "map_built_ns": lambda found: None if found is None else int(found),
    "wall_offset_ns": lambda found: None if found is None else int(found),
}
