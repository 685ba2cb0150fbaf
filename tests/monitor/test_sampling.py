"""Reading the machine once a second: sensors found once, measured often, and a slow one within its bound."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_MS, NS_PER_S, WallLabel
from edge_runtime.config.monitor import BatteryConfig, MonitorConfig
from edge_runtime.guard.conditions import Condition, conditions_in
from edge_runtime.health import HealthReader, read_health
from edge_runtime.monitor.conditions import Memory, evaluate
from edge_runtime.monitor.readings import Readings
from edge_runtime.monitor.sampling import FIND_NS, HostSample, HostSampler, wall_offset_ns
from tests.rigs import boards
from tests.rigs.boards import Board, FixedClock

ALL = (boards.orin_nano, boards.agx_orin, boards.xavier, boards.thor, boards.computer)


def tripped(sample: HostSample, config: MonitorConfig | None = None) -> set[Condition]:
    readings = Readings(
        disks=sample.disks,
        memory=sample.memory,
        memory_full_percent=sample.memory_full_percent,
        temperatures=sample.temperatures,
        throttled=sample.throttled,
        batteries=sample.batteries,
        wall_offset_ns=0,
    )
    return set(
        conditions_in(
            evaluate(FixedClock().monotonic_ns(), readings, config or MonitorConfig(), Memory()).tripped
        )
    )


@pytest.mark.parametrize("make", ALL)
def test_it_reads_what_a_whole_look_at_the_device_reads(make: object, tmp_path: Path) -> None:
    assert callable(make)
    make(tmp_path)
    clock = FixedClock()
    sampler = HostSampler(clock, {"state": tmp_path}, {}, tmp_path)
    whole = read_health(HealthReader(clock, root=tmp_path, disks=(tmp_path,)))
    for _ in range(2):  # finding, and measuring what was found
        sample = sampler.look()
        assert sample.temperatures == whole.temperatures
        assert (sample.throttled, sample.throttled_by) == (whole.throttling.active, whole.throttling.by)
        assert (sample.memory, sample.memory_full_percent) == (
            whole.memory,
            whole.pressure["memory"].full_10s,
        )
        assert list(sample.disks) == ["state"]


def test_boards_at_rest_are_well_and_hot_ones_are_not(tmp_path: Path) -> None:
    board = boards.orin_nano(tmp_path)
    sampler = HostSampler(FixedClock(), {"state": tmp_path}, {}, tmp_path)
    assert tripped(sampler.look()) == set()
    zone = "/sys/class/thermal/thermal_zone0/temp"
    for millidegrees, expected in (
        (94_000, {Condition.SOC_HOT}),
        (101_600, {Condition.SOC_HOT, Condition.SOC_CRITICAL}),
    ):
        board.put(zone, millidegrees)
        assert tripped(sampler.look()) == expected
    board.put(zone, 50_000)
    board.put("/sys/class/thermal/cooling_device1/cur_state", 1)
    assert tripped(sampler.look()) == {Condition.SOC_THROTTLED}
    for number in range(9):
        path = tmp_path / f"sys/class/thermal/thermal_zone{number}/temp"
        if path.is_file():
            path.unlink()
    assert tripped(sampler.look()) == {Condition.SOC_THROTTLED, Condition.TEMPERATURE_UNKNOWN}


def test_a_sensor_that_comes_up_late_is_found_within_a_minute(tmp_path: Path) -> None:
    board, clock = Board(tmp_path), FixedClock()
    board.usual(processors="0", total_kb=100, available_kb=50)
    sampler = HostSampler(clock, {}, {}, tmp_path)
    assert tripped(sampler.look()) == {Condition.TEMPERATURE_UNKNOWN}
    board.zones({"cpu-thermal": 40_000})
    assert tripped(sampler.look()) == {Condition.TEMPERATURE_UNKNOWN}
    clock.now_ns += FIND_NS
    assert tripped(sampler.look()) == set()


def test_batteries_are_those_of_the_configuration(tmp_path: Path) -> None:
    board = Board(tmp_path)
    for name, capacity in (("BAT0", 50), ("BAT1", 5)):
        for file, value in (("type", "Battery"), ("capacity", capacity), ("status", "Discharging")):
            board.put(f"/sys/class/power_supply/{name}/{file}", value)
    batteries = {
        "main": BatteryConfig(supply="BAT0"),
        "arm": BatteryConfig(supply="BAT2"),
        "tool": BatteryConfig(),
    }
    found = HostSampler(FixedClock(), {}, batteries, tmp_path).look().batteries
    assert set(found) == {"main", "arm"}
    assert found["arm"] is None
    assert found["main"] is not None
    assert found["main"].charge.value == 0.5
    board.put("/sys/class/power_supply/BAT0/present", 0)
    assert HostSampler(FixedClock(), {}, batteries, tmp_path).look().batteries["main"] is None


def test_a_slow_sensor_takes_no_more_than_its_time(tmp_path: Path) -> None:
    boards.orin_nano(tmp_path)
    clock = FixedClock(step_ms=30)
    before_ns = clock.now_ns
    sample = HostSampler(clock, {"state": tmp_path}, {}, tmp_path).look()
    assert clock.now_ns - before_ns < NS_PER_S
    assert not any(zone.celsius.known for zone in sample.temperatures.values())
    assert sample.memory.available_bytes.known
    assert sample.disks["state"].free_bytes.known


def test_a_look_that_was_held_up_is_made_good_by_the_next(tmp_path: Path) -> None:
    boards.orin_nano(tmp_path)
    clock = FixedClock()
    sampler = HostSampler(clock, {}, {}, tmp_path)
    known = [name for name, zone in sampler.look().temperatures.items() if zone.celsius.known]
    clock.now_ns += FIND_NS
    clock._step_ns = 30 * NS_PER_MS
    sampler.look()
    clock._step_ns = 0
    assert [name for name, zone in sampler.look().temperatures.items() if zone.celsius.known] == known


@dataclass
class HeldUp(FixedClock):
    """A clock whose reader is held up between readings, the first few times."""

    held_ns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def boottime_ns(self) -> int:
        self.now_ns += self.held_ns.pop(0) if self.held_ns else 0
        return self.now_ns

    def wall(self) -> WallLabel:
        return WallLabel(self.now_ns + 7, synced=True, boot_id="a-boot")


@pytest.mark.parametrize(
    ("held_ms", "known"),
    [
        ([], True),
        ([0, 19], True),
        ([0, 100, 0, 100], True),
        ([0, 100, 0, 100, 0, 100], False),
    ],
)
def test_a_busy_machine_is_no_step_of_the_clock(held_ms: list[int], known: bool) -> None:
    offset_ns = wall_offset_ns(HeldUp([milliseconds * NS_PER_MS for milliseconds in held_ms]))
    assert offset_ns == (7 if known else None)
