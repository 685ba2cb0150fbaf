"""Which conditions hold: a pure function of one round's readings, the settings, and what was known before.

What is unknown never clears anything: a sensor that vanishes while it is hot, or a gauge while it is low, leaves
its condition as it was, and is a condition of its own. What nobody could look at is not evaluated, and the guard
counts it as tripped.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.monitor import MonitorConfig
from edge_runtime.guard.conditions import Condition, mask_of
from edge_runtime.health.linux import Disk, Zone
from edge_runtime.monitor.batteries import BATTERY_CONDITIONS, BatteryMemory, judge_batteries
from edge_runtime.monitor.readings import Readings

STEP_HELD_NS = NS_PER_S
"""A step of the clock is seen in one round and told for so long: the guard looks less often than the rounds go."""

_HOST = (
    Condition.DISK_NEARLY_FULL,
    Condition.MEMORY_PRESSURE,
    Condition.CLOCK_STEPPED,
    Condition.SOC_HOT,
    Condition.SOC_CRITICAL,
    Condition.SOC_THROTTLED,
    Condition.TEMPERATURE_UNKNOWN,
)
_LEAST_FREE_FILES = 1000
_NO_PROCESSOR = re.compile(r"pmic|nvme|drivetemp|iwlwifi|bat\d|.*battery", re.IGNORECASE)
"""Sensors of disks, radios and batteries, and a PMIC's zone, which is a threshold: nothing about the processor."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered from round to round.

    Attributes:
        hot, critical: sensors that were hot, or critical, when they were last read.
        batteries: by name.
        wall_offset_ns: at the last round that knew it.
        stepped_until_ns: until when a step of the clock is told.
    """

    hot: frozenset[str] = frozenset()
    critical: frozenset[str] = frozenset()
    batteries: Mapping[str, BatteryMemory] = field(default_factory=dict)
    wall_offset_ns: int | None = None
    stepped_until_ns: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one round found.

    Attributes:
        evaluated, tripped: masks of conditions.
        why: a few words for each that holds, or could not be looked at.
        memory: for the next round.
    """

    evaluated: int
    tripped: int
    why: Mapping[Condition, str]
    memory: Memory


def evaluated_by(settings: MonitorConfig) -> int:
    """Mask of the conditions that a monitor with these settings looks at; of no others, a body may need none."""
    found = list(_HOST)
    if settings.batteries:
        found += BATTERY_CONDITIONS
    if settings.pose is not None:
        found.append(Condition.POSE_STALE)
    if settings.map is not None:
        found.append(Condition.MAP_STALE)
    return mask_of(found)


def evaluate(now_ns: int, readings: Readings, settings: MonitorConfig, memory: Memory) -> Judgement:
    """Judge everything that the settings ask for.

    Args:
        now_ns: CLOCK_MONOTONIC.
        readings: of this round.
        settings: bounds.
        memory: of the last round.
    """
    why: dict[Condition, str] = {}
    blind: dict[Condition, str] = {}
    _disks(readings, settings, why, blind)
    _memory(readings, settings, why, blind)
    hot, critical = _heat(readings, settings, memory, why)
    offset_ns, stepped_until_ns = _clock(now_ns, readings, settings, memory)
    if now_ns < stepped_until_ns:
        why[Condition.CLOCK_STEPPED] = "the wall clock was set"
    batteries = judge_batteries(now_ns, readings.batteries, settings.batteries, memory.batteries, why)
    _place(now_ns, readings, settings, why)
    return Judgement(
        evaluated_by(settings) & ~mask_of(blind),
        mask_of(why),
        {**why, **blind},
        Memory(hot, critical, batteries, offset_ns, stepped_until_ns),
    )


def _disks(
    readings: Readings, settings: MonitorConfig, why: dict[Condition, str], blind: dict[Condition, str]
) -> None:
    for name, disk in readings.disks.items():
        found = _full(disk, settings)
        if found:
            why.setdefault(Condition.DISK_NEARLY_FULL, f"{name}: {found}")
        elif found is None:
            blind.setdefault(Condition.DISK_NEARLY_FULL, f"{name}: {disk.free_bytes.reason}")
    if Condition.DISK_NEARLY_FULL in why:
        blind.pop(Condition.DISK_NEARLY_FULL, None)


def _full(disk: Disk, settings: MonitorConfig) -> str | None:
    """Why a disk is nearly full; empty where it is not, None where nobody knows."""
    total, free = disk.total_bytes.value, disk.free_bytes.value
    if total is None or free is None:
        return None
    if disk.read_only.value:
        return "read-only"
    if free < max(settings.disk_free_bytes, settings.disk_free * total):
        return f"{free / 2**20:.0f} MiB free of {total / 2**20:.0f}"
    files = disk.free_files.value
    return f"{files} files free" if files is not None and files < _LEAST_FREE_FILES else ""


def _memory(
    readings: Readings, settings: MonitorConfig, why: dict[Condition, str], blind: dict[Condition, str]
) -> None:
    total, available = readings.memory.total_bytes, readings.memory.available_bytes
    # unknown where the kernel measures no pressure: then bytes decide
    full = readings.memory_full_percent.value
    if full is not None and full >= 100 * settings.memory_pressure:
        why[Condition.MEMORY_PRESSURE] = f"all work waits for memory {full:.0f} % of the time"
    elif total.value is None or available.value is None:
        blind[Condition.MEMORY_PRESSURE] = total.reason or available.reason
    elif available.value < settings.memory_available * total.value:
        why[Condition.MEMORY_PRESSURE] = (
            f"{available.value / 2**20:.0f} MiB available of {total.value / 2**20:.0f}"
        )


def _heat(
    readings: Readings, settings: MonitorConfig, memory: Memory, why: dict[Condition, str]
) -> tuple[frozenset[str], frozenset[str]]:
    """The hot and the critical sensors; what cannot be read any more stays what it was."""
    sensors = processor_sensors(readings.temperatures)
    hot = frozenset(
        _held(sensors, memory.hot, settings.hot, settings.hot_margin, lambda zone: zone.throttles_at.value)
    )
    critical = frozenset(
        _held(
            sensors,
            memory.critical,
            settings.critical,
            settings.critical_margin,
            lambda zone: zone.critical_at.value,
        )
    )
    if hot:
        why[Condition.SOC_HOT] = _sensors_text(hot, sensors)
    if critical:
        why[Condition.SOC_CRITICAL] = _sensors_text(critical, sensors)
    if readings.throttled.value:
        why[Condition.SOC_THROTTLED] = "a limiter is at work"
    unread = not any(zone.celsius.known for zone in sensors.values())
    if unread and settings.temperature == "expected":
        why[Condition.TEMPERATURE_UNKNOWN] = "no sensor of the processor measures"
    return hot, critical


def processor_sensors(temperatures: Mapping[str, Zone]) -> Mapping[str, Zone]:
    """Sensors that say something about the processor."""
    return {name: zone for name, zone in temperatures.items() if not _NO_PROCESSOR.match(name)}


def _held(
    sensors: Mapping[str, Zone],
    before: frozenset[str],
    degrees: float | None,
    margin: float,
    own: Callable[[Zone], float | None],
) -> Iterator[str]:
    """Sensors at or above their bound, and those that were when they were last read."""
    for name in sorted(before - sensors.keys()):
        yield name
    for name, zone in sensors.items():
        limit = own(zone)
        bound = degrees if degrees is not None else None if limit is None else limit - margin
        celsius = zone.celsius.value
        if name in before if celsius is None else bound is not None and celsius >= bound:
            yield name


def _sensors_text(names: frozenset[str], sensors: Mapping[str, Zone]) -> str:
    """The hottest of some sensors; one that is no longer read where none of them is."""
    known = {name: celsius for name in names if (celsius := _celsius(sensors.get(name))) is not None}
    if not known:
        return f"{min(names)}: no longer read"
    worst = max(known, key=lambda name: known[name])
    return f"{worst}: {known[worst]:.1f} C"


def _celsius(zone: Zone | None) -> float | None:
    return None if zone is None else zone.celsius.value


def _clock(
    now_ns: int, readings: Readings, settings: MonitorConfig, memory: Memory
) -> tuple[int | None, int]:
    """The new offset of the wall clock, and until when a step is told."""
    offset_ns, before_ns = readings.wall_offset_ns, memory.wall_offset_ns
    if offset_ns is None:  # the next round finds what was missed now
        return before_ns, memory.stepped_until_ns
    if before_ns is not None and abs(offset_ns - before_ns) > settings.clock_step * NS_PER_S:
        return offset_ns, now_ns + STEP_HELD_NS
    return offset_ns, memory.stepped_until_ns


def _place(now_ns: int, readings: Readings, settings: MonitorConfig, why: dict[Condition, str]) -> None:
    """Pose and map, of a body that has them."""
    if settings.pose is not None:
        pose = readings.pose
        if pose is None:
            why[Condition.POSE_STALE] = "none was reported"
        elif now_ns - pose.captured_ns > settings.pose.max_age * NS_PER_S:
            why[Condition.POSE_STALE] = f"{(now_ns - pose.captured_ns) / NS_PER_S:.2f} s old"
        elif pose.spread_m > settings.pose.max_spread:
            why[Condition.POSE_STALE] = f"uncertain by {pose.spread_m:.2f} m"
    if settings.map is not None:
        built_ns = readings.map_built_ns
        if built_ns is None:
            why[Condition.MAP_STALE] = "none was reported"
        elif now_ns - built_ns > settings.map.max_age * NS_PER_S:
            why[Condition.MAP_STALE] = f"{(now_ns - built_ns) / NS_PER_S:.1f} s old"
