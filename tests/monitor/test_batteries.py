"""Batteries (bug kind B9): one that vanishes or freezes does not hide behind others, or behind its last value."""

from typing import Any

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.monitor import BatteryConfig
from edge_runtime.guard.conditions import Condition
from edge_runtime.health.reading import Reading, unknown
from edge_runtime.monitor.batteries import BatteryMemory, judge_batteries
from edge_runtime.monitor.readings import BatteryReading

NOW = 1_000 * NS_PER_S
C = Condition


def reading(
    charge: float | None = 0.8,
    volts: float | None = 24.0,
    *,
    age_s: float = 0.0,
    draining: bool = True,
    raw: str | None = None,
    at_ns: int = NOW,
) -> BatteryReading:
    return BatteryReading(
        at_ns - round(age_s * NS_PER_S),
        unknown("not reported") if charge is None else Reading(charge),
        unknown("not reported") if volts is None else Reading(volts),
        draining,
        (f"{charge} {volts}" if raw is None else raw,),
    )


def judge(
    readings: dict[str, BatteryReading | None],
    *,
    memory: dict[str, BatteryMemory] | None = None,
    now_ns: int = NOW,
    **bounds: Any,
) -> tuple[set[Condition], dict[str, BatteryMemory]]:
    why: dict[Condition, str] = {}
    config = {name: BatteryConfig.model_validate(bounds) for name in readings}
    after = judge_batteries(now_ns, readings, config, memory or {}, why)
    assert all(why.values())
    return set(why), after


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (reading(), set()),
        (reading(0.21), set()),
        (reading(0.2), {C.BATTERY_LOW}),
        (reading(0.1), {C.BATTERY_LOW, C.BATTERY_CRITICAL}),
        (reading(0.0), {C.BATTERY_LOW, C.BATTERY_CRITICAL}),
        (None, {C.BATTERY_MISSING}),
        (reading(age_s=5.0), set()),
        (reading(age_s=5.1), {C.BATTERY_MISSING}),
        (reading(None), {C.BATTERY_MISSING}),
        (reading(None, None), {C.BATTERY_MISSING}),
        (reading(0.8, None), set()),
        (reading(0.8, 1.0), set()),
    ],
)
def test_one_battery(found: BatteryReading | None, expected: set[Condition]) -> None:
    assert judge({"main": found})[0] == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (reading(None, 24.0), set()),
        (reading(None, 22.0), {C.BATTERY_LOW}),
        (reading(None, 21.0), {C.BATTERY_LOW, C.BATTERY_CRITICAL}),
        (reading(0.9, 21.5), {C.BATTERY_LOW}),
        (reading(0.05, 24.0), {C.BATTERY_LOW, C.BATTERY_CRITICAL}),
        (reading(None, None), {C.BATTERY_MISSING}),
    ],
)
def test_a_voltage_counts_where_it_has_bounds_and_the_worse_one_wins(
    found: BatteryReading, expected: set[Condition]
) -> None:
    assert judge({"main": found}, low_volts=22, critical_volts=21)[0] == expected


def test_each_battery_counts_by_itself() -> None:
    assert judge({"a": reading(0.9), "b": reading(0.05)})[0] == {C.BATTERY_LOW, C.BATTERY_CRITICAL}
    assert judge({"a": reading(0.9), "b": None})[0] == {C.BATTERY_MISSING}
    assert judge({"a": None, "b": reading(0.15)})[0] == {C.BATTERY_MISSING, C.BATTERY_LOW}


def test_one_that_vanishes_while_it_is_low_stays_low() -> None:
    low, memory = judge({"main": reading(0.05)})
    assert low == {C.BATTERY_LOW, C.BATTERY_CRITICAL}
    gone, memory = judge({"main": None}, memory=memory)
    assert gone == {C.BATTERY_MISSING, C.BATTERY_LOW, C.BATTERY_CRITICAL}
    assert judge({"main": reading(0.5)}, memory=memory)[0] == set()


def test_one_whose_voltage_recovers_is_no_longer_low() -> None:
    low, memory = judge({"main": reading(None, 20.0)}, low_volts=22, critical_volts=21)
    assert C.BATTERY_LOW in low
    assert judge({"main": reading(None, 24.0)}, memory=memory, low_volts=22, critical_volts=21)[0] == set()


def frozen_after(seconds: list[tuple[float, BatteryReading | None]], **bounds: Any) -> set[Condition]:
    memory: dict[str, BatteryMemory] = {}
    found: set[Condition] = set()
    for at_s, one in seconds:
        now_ns = NOW + round(at_s * NS_PER_S)
        fresh = None if one is None else BatteryReading(now_ns, one.charge, one.volts, one.draining, one.raw)
        found, memory = judge({"main": fresh}, memory=memory, now_ns=now_ns, **bounds)
    return found


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ([(0, reading()), (60, reading())], set()),
        ([(0, reading()), (60.1, reading())], {C.BATTERY_FROZEN}),
        ([(0, reading()), (50, reading(0.79)), (100, reading(0.79))], set()),
        ([(0, reading()), (50, reading(0.79)), (111, reading(0.79))], {C.BATTERY_FROZEN}),
        ([(0, reading(draining=False)), (100, reading(draining=False))], set()),
        ([(0, reading(draining=False)), (100, reading()), (150, reading())], set()),
        ([(0, reading(draining=False)), (100, reading()), (161, reading())], {C.BATTERY_FROZEN}),
        ([(0, reading()), (50, reading(draining=False)), (70, reading())], set()),
        ([(0, reading()), (30, None), (61, reading())], {C.BATTERY_FROZEN}),
        ([(0, reading()), (100, reading()), (101, reading(0.7))], set()),
    ],
)
def test_a_reading_that_repeats_while_it_drains_is_frozen(
    story: list[tuple[float, BatteryReading | None]], expected: set[Condition]
) -> None:
    assert frozen_after(story, frozen_after=60) == expected


@pytest.mark.parametrize(
    ("volts", "after_s", "expected"),
    [
        (24.0, 300, set()),
        (24.0, 301, {C.BATTERY_FROZEN}),
        (None, 900, set()),
        (None, 901, {C.BATTERY_FROZEN}),
    ],
)
def test_a_gauge_without_a_voltage_is_given_the_time_of_a_step(
    volts: float | None, after_s: float, expected: set[Condition]
) -> None:
    assert frozen_after([(0, reading(0.8, volts)), (after_s, reading(0.8, volts))]) == expected
