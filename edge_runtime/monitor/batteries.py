"""Batteries, each by itself, so that one that vanishes does not hide behind another's value.

ArduPilot and PX4 flew on an average, or on the last value, of batteries of which one had fallen silent
(ardupilot #27359, PX4 #3324): missing is not last known, and no reading is not ready.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.monitor import BatteryConfig
from edge_runtime.guard.conditions import Condition
from edge_runtime.monitor.readings import BatteryReading

BATTERY_CONDITIONS = (
    Condition.BATTERY_MISSING,
    Condition.BATTERY_FROZEN,
    Condition.BATTERY_LOW,
    Condition.BATTERY_CRITICAL,
)
"""What is judged here."""

FROZEN_S = 300.0
"""A voltage moves within minutes, also one that is told in steps of a tenth of a volt."""

FROZEN_WITHOUT_VOLTS_S = 900.0
"""One percent of a battery that lasts a day."""


@dataclass(frozen=True, slots=True)
class BatteryMemory:
    """What is remembered of one battery.

    Attributes:
        raw: its last reading while it drained; None while it does not.
        since_ns: since when that is the same.
        low, critical: by its last reading.
    """

    raw: tuple[str, ...] | None = None
    since_ns: int = 0
    low: bool = False
    critical: bool = False


def judge_batteries(
    now_ns: int,
    readings: Mapping[str, BatteryReading | None],
    settings: Mapping[str, BatteryConfig],
    memory: Mapping[str, BatteryMemory],
    why: MutableMapping[Condition, str],
) -> dict[str, BatteryMemory]:
    """Add what holds to `why`, in a few words about the first battery of which it does.

    Args:
        now_ns: CLOCK_MONOTONIC.
        readings: by name; one that is absent or None is a missing one.
        settings: bounds of every battery that has to be there.
        memory: of the last round.
        why: of this round.

    Returns:
        What is remembered for the next round.
    """
    after: dict[str, BatteryMemory] = {}
    for name, bounds in settings.items():
        before, reading = memory.get(name, BatteryMemory()), readings.get(name)
        missing = _missing(now_ns, reading, bounds)
        if missing or reading is None:
            why.setdefault(Condition.BATTERY_MISSING, f"{name}: {missing}")
            found = before
        else:
            found = _known(now_ns, reading, bounds, before)
            frozen_s = (now_ns - found.since_ns) / NS_PER_S
            if reading.draining and frozen_s > _frozen_after_s(reading, bounds):
                why.setdefault(Condition.BATTERY_FROZEN, f"{name}: the same for {frozen_s:.0f} s")
        if found.low:
            why.setdefault(Condition.BATTERY_LOW, _charge_text(name, reading))
        if found.critical:
            why.setdefault(Condition.BATTERY_CRITICAL, _charge_text(name, reading))
        after[name] = found
    return after


def _missing(now_ns: int, reading: BatteryReading | None, bounds: BatteryConfig) -> str:
    """Why there is no reading; empty where there is one."""
    if reading is None:
        return "no reading"
    if now_ns - reading.taken_ns > bounds.max_age * NS_PER_S:
        return f"last heard of {(now_ns - reading.taken_ns) / NS_PER_S:.1f} s ago"
    by_volts = None not in (bounds.low_volts, bounds.critical_volts) and reading.volts.known
    return "" if reading.charge.known or by_volts else reading.charge.reason


def _frozen_after_s(reading: BatteryReading, bounds: BatteryConfig) -> float:
    if bounds.frozen_after is not None:
        return bounds.frozen_after
    return FROZEN_S if reading.volts.known else FROZEN_WITHOUT_VOLTS_S


def _known(
    now_ns: int, reading: BatteryReading, bounds: BatteryConfig, before: BatteryMemory
) -> BatteryMemory:
    raw = reading.raw if reading.draining else None
    same = raw is not None and before.raw == raw
    return BatteryMemory(
        raw,
        before.since_ns if same else now_ns,
        _below(reading, bounds.low, bounds.low_volts, before=before.low),
        _below(reading, bounds.critical, bounds.critical_volts, before=before.critical),
    )


def _below(reading: BatteryReading, charge: float, volts: float | None, *, before: bool) -> bool:
    """By the worse of what is known; where nothing is, it stays as it was."""
    pairs = ((reading.charge.value, charge), (reading.volts.value, volts))
    known = [value <= bound for value, bound in pairs if value is not None and bound is not None]
    return any(known) if known else before


def _charge_text(name: str, reading: BatteryReading | None) -> str:
    if reading is None:
        return f"{name}: was so when it was last read"
    charge, volts = reading.charge.value, reading.volts.value
    parts = ["" if charge is None else f"{100 * charge:.0f} %", "" if volts is None else f"{volts:.2f} V"]
    return f"{name}: " + (", ".join(part for part in parts if part) or "was so when it was last read")
