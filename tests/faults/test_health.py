"""Health readings that fail as ordered, and what the conditions make of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.monitor import BatteryConfig, MonitorConfig
from edge_runtime.faults import Injector, injection, orders_file, write_orders
from edge_runtime.faults.health import HealthFaults
from edge_runtime.guard.conditions import Condition
from edge_runtime.health.linux import Disk, MemoryState, Zone
from edge_runtime.health.reading import Reading, unknown
from edge_runtime.monitor.conditions import Memory, evaluate
from edge_runtime.monitor.readings import BatteryReading, Readings
from edge_runtime.state import StateDirectory
from tests.rigs.cameras import FakeClock

GIB = 1 << 30
SETTINGS = MonitorConfig(batteries={"pack": BatteryConfig()}, hot=80.0, critical=90.0, disk_free_bytes=0)


def readings(now_ns: int, celsius: float = 50.0, charge: float = 0.8) -> Readings:
    memory: Reading[int] = Reading(4 * GIB)
    return Readings(
        disks={"state": Disk(Reading(100 * GIB), Reading(50 * GIB), Reading(10**6), Reading(False))},
        memory=MemoryState(Reading(8 * GIB), memory, Reading(0), Reading(0)),
        memory_full_percent=Reading(0.0),
        temperatures={"cpu": Zone(Reading(celsius), unknown("none"), unknown("none"))},
        throttled=Reading(False),
        batteries={"pack": BatteryReading(now_ns, Reading(charge), Reading(24.0), True, (f"{charge:.3f}",))},
        wall_offset_ns=0,
    )


class Bench:
    """A round of the monitor under orders."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.path = FakeClock(), folder / "faults.json"
        self.faults = HealthFaults(Injector(self.path, self.clock, lambda *_: None, self._refuse))
        self.memory = Memory()

    @staticmethod
    def _refuse(sentence: str) -> None:
        raise AssertionError(sentence)

    def order(self, unit: str, kind: str, amount: float | None = None) -> None:
        one = injection(
            unit,
            kind,
            id="00000001",
            begins_ns=self.clock.now_ns,
            for_s=3600,
            boot_id="test",
            amount=amount,
        )
        write_orders(self.path, [one])

    def round(self, **given: float) -> tuple[Readings, set[Condition]]:
        self.clock.advance(1.0)
        found = self.faults.applied(self.clock.now_ns, readings(self.clock.now_ns, **given))
        judged = evaluate(self.clock.now_ns, found, SETTINGS, self.memory)
        self.memory = judged.memory
        return found, {one for one in Condition if judged.tripped & one.mask}

    def celsius(self, **given: float) -> float | None:
        return self.round(**given)[0].temperatures["cpu"].celsius.value


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_without_an_order_nothing_is_changed(bench: Bench) -> None:
    found, tripped = bench.round()
    assert found == readings(bench.clock.now_ns)
    assert not tripped


@pytest.mark.parametrize(
    ("unit", "kind", "condition"),
    [
        ("temperature", "off", Condition.TEMPERATURE_UNKNOWN),
        ("temperature", "garbage", Condition.TEMPERATURE_UNKNOWN),
        ("battery", "off", Condition.BATTERY_MISSING),
        ("battery", "garbage", Condition.BATTERY_MISSING),
        ("disk", "wrong", Condition.DISK_NEARLY_FULL),
        ("memory", "wrong", Condition.MEMORY_PRESSURE),
    ],
)
def test_what_fails_is_a_condition(bench: Bench, unit: str, kind: str, condition: Condition) -> None:
    bench.order(unit, kind)
    assert condition in bench.round()[1]


def test_a_wrong_sensor_hides_heat_and_a_wrong_gauge_hides_an_empty_battery(bench: Bench) -> None:
    bench.order("temperature", "wrong", -20.0)
    assert bench.celsius(celsius=95.0) == pytest.approx(75.0)
    bench.order("battery", "wrong", 0.5)
    found, tripped = bench.round(charge=0.05)
    assert found.batteries["pack"] is not None
    assert found.batteries["pack"].charge.value == pytest.approx(0.55)
    assert Condition.BATTERY_CRITICAL not in tripped


def test_a_stuck_gauge_goes_on_to_speak_and_is_found_frozen(bench: Bench) -> None:
    bench.round(charge=0.8)
    bench.order("battery", "stuck")
    seen: set[Condition] = set()
    for step in range(310):
        seen = bench.round(charge=0.8 - step / 1000)[1]
    assert seen == {Condition.BATTERY_FROZEN}


def test_slow_and_delayed_give_the_past(bench: Bench) -> None:
    bench.celsius(celsius=50.0)
    bench.order("temperature", "slow", 3.0)
    assert [bench.celsius(celsius=51.0 + step) for step in range(6)] == [50.0, 50.0, 53.0, 53.0, 53.0, 56.0]
    bench.order("temperature", "delayed", 2.0)
    assert bench.celsius(celsius=99.0) == pytest.approx(55.0)


def test_a_delayed_battery_has_its_true_age_and_is_missing(bench: Bench) -> None:
    for _ in range(12):
        bench.round()
    bench.order("battery", "delayed", 10.0)
    assert Condition.BATTERY_MISSING in bench.round()[1]


def test_off_for_disks_and_memory_is_not_evaluated(bench: Bench) -> None:
    for unit, condition in (("disk", Condition.DISK_NEARLY_FULL), ("memory", Condition.MEMORY_PRESSURE)):
        bench.order(unit, "off")
        found, _ = bench.round()
        judged = evaluate(bench.clock.now_ns, found, SETTINGS, Memory())
        assert not judged.evaluated & condition.mask


def test_only_the_named_battery_fails(bench: Bench) -> None:
    bench.order("battery", "off")
    one = injection(
        "battery",
        "off",
        id="00000002",
        begins_ns=bench.clock.now_ns,
        for_s=60,
        boot_id="test",
        name="spare",
    )
    write_orders(bench.path, [one])
    bench.clock.advance(1.0)
    given = readings(bench.clock.now_ns)
    both = replace(given, batteries={**given.batteries, "spare": given.batteries["pack"]})
    found = bench.faults.applied(bench.clock.now_ns, both)
    assert found.batteries["spare"] is None
    assert found.batteries["pack"] is not None


def test_a_day_of_history_is_not_kept(bench: Bench) -> None:
    for _ in range(2000):
        bench.clock.advance(1.0)
        bench.faults.applied(bench.clock.now_ns, readings(bench.clock.now_ns))
    kept = bench.faults._past
    assert (kept[-1][0] - kept[0][0]) / NS_PER_S <= 601


def test_each_beginning_and_each_end_is_news_once(tmp_path: Path) -> None:
    state, clock = StateDirectory(tmp_path / "state").ensure(), FakeClock()
    faults = HealthFaults.following(state, clock, Bench._refuse)
    one = injection("camera", "off", id="0000000a", begins_ns=clock.now_ns, for_s=5, boot_id="test", by="ada")
    write_orders(orders_file(state), [one])
    assert faults.news() == []
    faults.applied(clock.now_ns, readings(clock.now_ns))
    assert [(row["fault"], row["state"], row["by"]) for row in faults.news()] == [
        ("0000000a", "injected", "ada")
    ]
    assert faults.news() == []
    clock.advance(6)
    faults.applied(clock.now_ns, readings(clock.now_ns))
    assert [row["state"] for row in faults.news()] == ["over"]
