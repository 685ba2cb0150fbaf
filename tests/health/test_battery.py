"""Batteries as the kernel shows them: gauges that fail, that are taken out, and those that are nobody's power."""

from pathlib import Path

import pytest

from edge_runtime.health.battery import Battery, read_battery
from edge_runtime.health.sysfiles import SysFiles
from tests.rigs.boards import Board, FixedClock

USUAL: dict[str, str | int | None] = {
    "type": "Battery",
    "present": 1,
    "status": "Discharging",
    "capacity": 73,
    "voltage_now": 24_150_000,
    "current_now": -1_250_000,
}


def put(root: Path, name: str, **values: str | int | None) -> None:
    board = Board(root)
    for file, value in {**USUAL, **values}.items():
        if value != "absent":
            board.put(f"/sys/class/power_supply/{name}/{file}", value)


def battery(root: Path, name: str = "BAT0") -> Battery:
    found = read_battery(SysFiles(root, FixedClock()), name)
    assert found is not None
    return found


def test_a_battery_shows_charge_and_volts(tmp_path: Path) -> None:
    put(tmp_path, "BAT0")
    found = battery(tmp_path)
    assert (found.charge.value, found.volts.value, found.draining) == (0.73, 24.15, True)
    assert found.raw == ("73", "", "", "24150000", "-1250000", "")


@pytest.mark.parametrize(
    ("status", "draining"),
    [("Charging", False), ("Full", False), ("Not charging", False), ("Unknown", True), ("absent", True)],
)
def test_only_one_that_says_so_is_not_draining(status: str, draining: bool, tmp_path: Path) -> None:
    put(tmp_path, "BAT0", status=status)
    assert battery(tmp_path).draining is draining


@pytest.mark.parametrize(
    "values",
    [
        {"charge_now": 1_100_000, "charge_full": 2_200_000},
        {"energy_now": 30_000_000, "energy_full": 60_000_000},
        {"charge_now": "no", "charge_full": 2_200_000, "energy_now": 30, "energy_full": 60},
    ],
)
def test_without_a_percentage_what_is_left_of_a_full_charge_counts(
    values: dict[str, str | int], tmp_path: Path
) -> None:
    put(tmp_path, "BAT0", capacity="absent", **values)
    assert battery(tmp_path).charge.value == 0.5


@pytest.mark.parametrize("capacity", ["absent", None, "", "full", -1, 101])
def test_a_gauge_that_fails_gives_no_charge_and_not_zero(capacity: str | int | None, tmp_path: Path) -> None:
    put(tmp_path, "BAT0", capacity=capacity, voltage_now=0)
    found = battery(tmp_path)
    assert found.charge.value is None
    assert found.charge.reason
    assert found.volts.value is None


@pytest.mark.parametrize("values", [{"present": 0}, {"type": "Mains"}, {"type": "absent"}])
def test_one_that_is_taken_out_is_not_there(values: dict[str, str | int], tmp_path: Path) -> None:
    put(tmp_path, "BAT0", **values)
    assert read_battery(SysFiles(tmp_path, FixedClock()), "BAT0") is None


@pytest.mark.parametrize("name", ["BAT1", "../BAT0", "", "."])
def test_no_other_file_can_be_named(name: str, tmp_path: Path) -> None:
    put(tmp_path, "BAT0")
    assert read_battery(SysFiles(tmp_path, FixedClock()), name) is None
