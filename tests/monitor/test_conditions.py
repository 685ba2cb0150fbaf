"""What holds, by tables: each bound from both sides, and that what is unknown never clears anything."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.config.monitor import MonitorConfig
from edge_runtime.guard.conditions import Condition, conditions_in, mask_of
from edge_runtime.health.linux import Disk, MemoryState, Zone
from edge_runtime.health.reading import Reading, unknown
from edge_runtime.monitor.conditions import (
    STEP_HELD_NS,
    Judgement,
    Memory,
    evaluate,
    evaluated_by,
    processor_sensors,
)
from edge_runtime.monitor.readings import Pose, Readings

MIB = 1 << 20
NOW = 1_000 * NS_PER_S
NONE: Reading[Any] = unknown("not there")
C = Condition


def disk(free_mib: int = 50_000, total_mib: int = 100_000, files: int | None = 10_000, **more: Any) -> Disk:
    found = Disk(
        Reading(total_mib * MIB),
        Reading(free_mib * MIB),
        NONE if files is None else Reading(files),
        Reading(value=False),
    )
    return replace(found, **more)


def memory_of(available_mib: int = 4000, total_mib: int = 8000) -> MemoryState:
    return MemoryState(Reading(total_mib * MIB), Reading(available_mib * MIB), NONE, NONE)


def zone(celsius: float | None, throttles: float | None = 99.0, critical: float | None = 104.5) -> Zone:
    def known(value: float | None) -> Reading[float]:
        return NONE if value is None else Reading(value)

    return Zone(known(celsius), known(throttles), known(critical))


WELL = Readings(
    disks={"state": disk()},
    memory=memory_of(),
    memory_full_percent=Reading(0.0),
    temperatures={"cpu-thermal": zone(50.0)},
    throttled=Reading(value=False),
    wall_offset_ns=0,
)
SETTINGS = MonitorConfig()


def settings(**values: Any) -> MonitorConfig:
    return MonitorConfig.model_validate(values)


def judged(
    changes: dict[str, Any], config: MonitorConfig = SETTINGS, memory: Memory | None = None
) -> Judgement:
    return evaluate(NOW, replace(WELL, **changes), config, memory or Memory())


def tripped(*found: Any, **more: Any) -> set[Condition]:
    return set(conditions_in(judged(*found, **more).tripped))


def test_on_a_well_device_everything_is_looked_at_and_nothing_holds() -> None:
    found = judged({})
    assert (found.evaluated, found.tripped, found.why) == (evaluated_by(SETTINGS), 0, {})
    assert set(conditions_in(found.evaluated)) == {
        C.DISK_NEARLY_FULL,
        C.MEMORY_PRESSURE,
        C.CLOCK_STEPPED,
        C.SOC_HOT,
        C.SOC_CRITICAL,
        C.SOC_THROTTLED,
        C.TEMPERATURE_UNKNOWN,
    }


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ({"pose": {}}, {C.POSE_STALE}),
        ({"map": {"max_age": 60}}, {C.MAP_STALE}),
        (
            {"batteries": {"main": {}}},
            {C.BATTERY_MISSING, C.BATTERY_FROZEN, C.BATTERY_LOW, C.BATTERY_CRITICAL},
        ),
    ],
)
def test_what_a_body_does_not_have_is_not_looked_at(values: dict[str, Any], more: set[Condition]) -> None:
    assert evaluated_by(settings(**values)) == evaluated_by(SETTINGS) | mask_of(more)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"disks": {"state": disk(free_mib=2000)}}, set()),
        ({"disks": {"state": disk(free_mib=1999)}}, {C.DISK_NEARLY_FULL}),
        ({"disks": {"state": disk(free_mib=256, total_mib=1000)}}, set()),
        ({"disks": {"state": disk(free_mib=255, total_mib=1000)}}, {C.DISK_NEARLY_FULL}),
        ({"disks": {"state": disk(), "evidence": disk(free_mib=0)}}, {C.DISK_NEARLY_FULL}),
        ({"disks": {"state": disk(files=999)}}, {C.DISK_NEARLY_FULL}),
        ({"disks": {"state": disk(files=1000)}}, set()),
        ({"disks": {"state": disk(files=None)}}, set()),
        ({"disks": {"state": disk(read_only=Reading(value=True))}}, {C.DISK_NEARLY_FULL}),
        ({"memory": memory_of(640)}, set()),
        ({"memory": memory_of(639)}, {C.MEMORY_PRESSURE}),
        ({"memory_full_percent": Reading(19.9)}, set()),
        ({"memory_full_percent": Reading(20.0)}, {C.MEMORY_PRESSURE}),
        ({"memory_full_percent": NONE}, set()),
        ({"memory_full_percent": Reading(50.0), "memory": MemoryState(*[NONE] * 4)}, {C.MEMORY_PRESSURE}),
        ({"temperatures": {"cpu-thermal": zone(93.9)}}, set()),
        ({"temperatures": {"cpu-thermal": zone(94.0)}}, {C.SOC_HOT}),
        ({"temperatures": {"cpu-thermal": zone(101.4)}}, {C.SOC_HOT}),
        ({"temperatures": {"cpu-thermal": zone(101.5)}}, {C.SOC_HOT, C.SOC_CRITICAL}),
        ({"temperatures": {"a": zone(20.0), "b": zone(95.0)}}, {C.SOC_HOT}),
        ({"temperatures": {"a": zone(200.0, None, None)}}, set()),
        ({"temperatures": {"nvme.Composite": zone(120.0), "cpu": zone(50.0)}}, set()),
        ({"temperatures": {"PMIC-Die": zone(100.0), "cpu": zone(50.0)}}, set()),
        ({"temperatures": {"nvme.Composite": zone(40.0)}}, {C.TEMPERATURE_UNKNOWN}),
        ({"temperatures": {"cpu-thermal": zone(None)}}, {C.TEMPERATURE_UNKNOWN}),
        ({"temperatures": {"a": zone(None), "b": zone(40.0)}}, set()),
        ({"temperatures": {}}, {C.TEMPERATURE_UNKNOWN}),
        ({"throttled": Reading(value=True)}, {C.SOC_THROTTLED}),
        ({"throttled": NONE}, set()),
    ],
)  # fmt: skip
def test_bounds_from_both_sides(changes: dict[str, Any], expected: set[Condition]) -> None:
    found = judged(changes)
    assert set(conditions_in(found.tripped)) == expected
    assert found.evaluated == evaluated_by(SETTINGS)
    assert set(found.why) == expected
    assert all(found.why.values())


def test_configured_degrees_come_before_a_sensors_own() -> None:
    config = settings(hot=60, critical=70)
    for celsius, expected in ((59.9, set()), (60.0, {C.SOC_HOT}), (70.0, {C.SOC_HOT, C.SOC_CRITICAL})):
        for limits in ((99.0, 104.5), (None, None)):
            assert tripped({"temperatures": {"cpu": zone(celsius, *limits)}}, config) == expected


def test_a_machine_without_sensors_may_be_said_to_be_one() -> None:
    assert tripped({"temperatures": {}}, settings(temperature="none")) == set()


@pytest.mark.parametrize(
    ("changes", "blind"),
    [
        ({"disks": {"state": Disk(NONE, NONE, NONE, NONE)}}, C.DISK_NEARLY_FULL),
        ({"memory": MemoryState(*[NONE] * 4)}, C.MEMORY_PRESSURE),
        ({"memory": MemoryState(Reading(1), NONE, NONE, NONE)}, C.MEMORY_PRESSURE),
    ],
)
def test_what_cannot_be_looked_at_is_not_evaluated_and_says_why(
    changes: dict[str, Any], blind: Condition
) -> None:
    found = judged(changes)
    assert found.evaluated == evaluated_by(SETTINGS) & ~blind.mask
    assert found.tripped == 0
    assert list(found.why) == [blind]
    assert found.why[blind].endswith("not there")


def test_a_full_disk_is_told_although_another_cannot_be_asked() -> None:
    found = judged({"disks": {"state": Disk(NONE, NONE, NONE, NONE), "evidence": disk(free_mib=1)}})
    assert found.tripped == C.DISK_NEARLY_FULL.mask
    assert found.evaluated & C.DISK_NEARLY_FULL.mask


@pytest.mark.parametrize("after", [{"cpu-thermal": zone(None)}, {}])
def test_a_sensor_that_vanishes_while_it_is_critical_clears_nothing(after: dict[str, Zone]) -> None:
    hot = judged({"temperatures": {"cpu-thermal": zone(103.0)}})
    gone = judged({"temperatures": after}, memory=hot.memory)
    assert set(conditions_in(gone.tripped)) == {C.SOC_HOT, C.SOC_CRITICAL, C.TEMPERATURE_UNKNOWN}
    other = judged({"temperatures": {**after, "gpu-thermal": zone(40.0)}}, memory=gone.memory)
    assert set(conditions_in(other.tripped)) == {C.SOC_HOT, C.SOC_CRITICAL}
    assert judged({}, memory=other.memory).tripped == 0


@pytest.mark.parametrize(
    ("step_ms", "told"), [(0, False), (500, False), (501, True), (-501, True), (3_600_000, True)]
)
def test_a_step_of_the_wall_clock_is_told_for_a_second(step_ms: int, told: bool) -> None:
    config = settings(clock_step=0.5)
    first = evaluate(NOW, WELL, config, Memory())
    stepped = replace(WELL, wall_offset_ns=step_ms * NS_PER_MS)
    second = evaluate(NOW, stepped, config, first.memory)
    assert bool(second.tripped & C.CLOCK_STEPPED.mask) is told
    third = evaluate(NOW + STEP_HELD_NS - 1, stepped, config, second.memory)
    assert bool(third.tripped & C.CLOCK_STEPPED.mask) is told
    assert evaluate(NOW + STEP_HELD_NS, stepped, config, third.memory).tripped == 0


def test_a_step_is_seen_also_when_the_clocks_could_not_be_read_in_between() -> None:
    first = judged({})
    blind = judged({"wall_offset_ns": None}, memory=first.memory)
    assert blind.tripped == 0
    assert tripped({"wall_offset_ns": NS_PER_S}, memory=blind.memory) == {C.CLOCK_STEPPED}


PLACED = settings(pose={"max_age": 0.5, "max_spread": 0.3}, map={"max_age": 60})


@pytest.mark.parametrize(
    ("pose", "built_s", "expected"),
    [
        (Pose(NOW, 0.1), 10, set()),
        (Pose(NOW - NS_PER_S // 2, 0.3), 60, set()),
        (Pose(NOW - NS_PER_S // 2 - 1, 0.1), 10, {C.POSE_STALE}),
        (Pose(NOW, 0.31), 10, {C.POSE_STALE}),
        (None, 10, {C.POSE_STALE}),
        (Pose(NOW, 0.1), 60.1, {C.MAP_STALE}),
        (Pose(NOW, 0.1), None, {C.MAP_STALE}),
    ],
)
def test_pose_and_map_grow_old(pose: Pose | None, built_s: float | None, expected: set[Condition]) -> None:
    built_ns = None if built_s is None else NOW - round(built_s * NS_PER_S)
    assert tripped({"pose": pose, "map_built_ns": built_ns}, PLACED) == expected
    assert tripped({"pose": pose, "map_built_ns": built_ns}) == set()


@pytest.mark.parametrize(
    "values",
    [
        {"pose": {"max_age": 0}},
        {"pose": {"max_spread": 0}},
        {"map": {"max_age": 0}},
        {"map": {}},
        {"batteries": {"main": {"max_age": 0}}},
        {"batteries": {"main": {"frozen_after": 0}}},
        {"batteries": {"main": {"low": 0.1, "critical": 0.1}}},
        {"batteries": {"main": {"low_volts": 20, "critical_volts": 21}}},
        {"batteries": {"main": {"supply": "../BAT0"}}},
        {"hot": 80, "critical": 80},
        {"memory_pressure": 0},
        {"clock_step": 0},
    ],
)
def test_bounds_that_mean_nothing_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        settings(**values)


def test_sensors_of_other_parts_are_passed_over() -> None:
    names = (
        "cpu-thermal",
        "PMIC-Die",
        "nvme.Composite",
        "drivetemp.temp1",
        "iwlwifi_1.temp1",
        "BAT0.temp1",
        "tj",
    )
    assert set(processor_sensors({name: zone(1.0) for name in names})) == {"cpu-thermal", "tj"}


READINGS = st.builds(
    Readings,
    disks=st.dictionaries(
        st.sampled_from(["state", "evidence"]),
        st.one_of(st.just(Disk(NONE, NONE, NONE, NONE)), st.builds(disk, st.integers(0, 100_000))),
    ),
    memory=st.one_of(st.just(MemoryState(*[NONE] * 4)), st.builds(memory_of, st.integers(0, 8000))),
    memory_full_percent=st.one_of(st.just(NONE), st.builds(Reading, st.floats(0, 100))),
    temperatures=st.dictionaries(
        st.sampled_from(["cpu", "gpu", "pmic"]),
        st.builds(zone, *[st.one_of(st.none(), st.floats(-60, 200))] * 3),
    ),
    throttled=st.sampled_from([NONE, Reading(value=True), Reading(value=False)]),
    pose=st.one_of(st.none(), st.builds(Pose, st.integers(0, NOW), st.floats(0, 10))),
    map_built_ns=st.one_of(st.none(), st.integers(0, NOW)),
    wall_offset_ns=st.one_of(st.none(), st.integers(-(10**18), 10**18)),
)


@given(st.lists(READINGS, max_size=6))
def test_whatever_is_read_only_what_is_configured_is_judged_and_each_has_its_reason(
    rounds: list[Readings],
) -> None:
    memory = Memory()
    for at, readings in enumerate(rounds):
        found = evaluate(NOW + at * NS_PER_S, readings, PLACED, memory)
        memory = found.memory
        every = evaluated_by(PLACED)
        assert found.evaluated & ~every == 0
        assert found.tripped & ~found.evaluated == 0
        assert mask_of(found.why) == found.tripped | every & ~found.evaluated
        assert all(found.why.values())
