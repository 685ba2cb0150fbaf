"""What is read of whole boards, and that nothing a board has or lacks raises or becomes a zero."""

import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_runtime.clock import SystemClock
from edge_runtime.health import HealthReader, HealthSnapshot, read_health, screen_lines
from edge_runtime.health.governor import GovernorSettings
from edge_runtime.health.heat import thermal_reading
from edge_runtime.health.jetson import JetsonHealth
from tests.rigs.boards import Board, FixedClock, agx_orin, computer, orin_nano, thor, xavier

BOARDS = {"orin_nano": orin_nano, "agx_orin": agx_orin, "xavier": xavier, "thor": thor, "computer": computer}


def look(root: Path, **limits: Any) -> HealthSnapshot:
    return read_health(HealthReader(FixedClock(), root=root, disks=(root,), **limits))


def jetson(root: Path) -> JetsonHealth:
    found = look(root).jetson.value
    assert found is not None
    return found


def test_memory_and_disk_are_told_in_the_unit_that_they_are_divided_by(tmp_path: Path) -> None:
    orin_nano(tmp_path)
    seen = look(tmp_path)
    lines = screen_lines(seen)
    total = seen.memory.total_bytes.value
    assert total is not None
    assert any(line.startswith("memory") and f"{total / 2**30:.1f} GiB" in line for line in lines), lines
    assert not any(" GB" in line for line in lines)


def test_an_orin_nano(tmp_path: Path) -> None:
    orin_nano(tmp_path)
    seen, board = look(tmp_path), jetson(tmp_path)
    assert seen.model.value == "NVIDIA Jetson Orin Nano Developer Kit"
    assert (seen.hottest.name.value, seen.hottest.celsius.value) == ("cpu-thermal", 53.968)
    assert seen.hottest.margin_c.value == pytest.approx(99 - 53.968)
    assert seen.temperatures["tj-thermal"].throttles_at.value == 99.0  # not the 70 C of the hot surface
    assert seen.temperatures["tj-thermal"].critical_at.value == 104.5
    assert list(seen.temperatures)[-1] == "tj-thermal"  # each zone once: its mirror in hwmon is left out
    assert "not a regular file" in seen.temperatures["cv0-thermal"].celsius.reason
    assert "powered off" in seen.temperatures["cv1-thermal"].celsius.reason
    assert seen.temperatures["cv2-thermal"].celsius.reason == "empty"
    assert seen.throttling.active.value is False
    assert not {"pwm-fan", "hot-surface-alert"} & set(seen.throttling.limiters)
    assert board.l4t.value == "36.4.3"
    assert (board.mode.number.value, board.mode.name.value) == (2, "MAXN_SUPER")
    assert list(board.power) == ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"]
    assert board.power["VDD_IN"].milliwatts.value == pytest.approx(4984 * 1856 / 1000)
    assert board.power["VDD_IN"].alarm.value is False
    assert (board.fan.drive_percent.value, board.fan.rpm.value) == (20.0, 2140)
    assert board.gpu_load_percent.value == 63.0
    assert list(board.gpu_clocks) == ["17000000.gpu"]
    assert (board.gpu_clocks["17000000.gpu"].now.value, board.gpu_clocks["17000000.gpu"].allowed.value) == (
        305,
        1020,
    )
    assert {name: found.events.value for name, found in board.over_current.items()} == {
        "under_voltage": 0,
        "average_over_current": 15,
        "instantaneous_over_current": 37,
    }
    assert seen.cpu_clocks["policy0"].now.value == pytest.approx(729.6)
    assert seen.pressure["memory"].full_10s.value == 0.25


def test_an_agx_orin_that_throttles_with_its_gpu_sensor_off(tmp_path: Path) -> None:
    agx_orin(tmp_path)
    seen, board = look(tmp_path), jetson(tmp_path)
    assert seen.temperatures["GPU-therm"].celsius.value is None
    assert seen.hottest.celsius.value == 44.562
    assert seen.hottest.margin_c.reason == "no sensor says where it throttles"
    assert (seen.throttling.active.value, seen.throttling.by) == (True, ("gpu-throttle-alert",))
    assert list(board.power) == ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "NC", "VDDQ_VDD2_1V8AO", "NC#2"]
    assert "not connected" in board.power["NC#2"].milliwatts.reason
    assert board.power["VDD_CPU_CV"].alarm.value is True
    assert board.gpu_load_percent.value == 0.0  # measured: the file says 0
    assert board.fan.drive_percent.reason == "no fan is driven here"
    assert board.over_current == {}


def test_a_xavier_of_jetpack_4(tmp_path: Path) -> None:
    xavier(tmp_path)
    seen, board = look(tmp_path), jetson(tmp_path)
    assert seen.load.processors.value == 5
    assert seen.temperatures["PMIC-Die"].celsius.value == 100.0
    assert (seen.hottest.name.value, seen.hottest.celsius.value) == ("Tdiode_tegra", 32.0)
    assert seen.hottest.margin_c.value == pytest.approx(54.0)
    assert seen.pressure["memory"].some_10s.reason == "not there"
    assert seen.throttling.active.reason == "this machine shows nothing that slows it down"
    assert {name: rail.milliwatts.value for name, rail in board.power.items()} == {
        "GPU": 463,
        "CPU": 618,
        "SOC": 2936,
    }
    assert board.power["SOC"].millivolts.value == 19_232
    assert (board.fan.drive_percent.value, board.fan.rpm.value) == (100.0, 0)  # a fan that is stuck
    assert board.gpu_load_percent.value == 0.5
    assert board.l4t.value == "32.7.1"


def test_a_thor(tmp_path: Path) -> None:
    thor(tmp_path)
    seen, board = look(tmp_path), jetson(tmp_path)
    assert seen.temperatures["gpu-thermal"].celsius.value is None
    assert seen.temperatures["tmp451.remote"].celsius.value == 50.25
    assert seen.throttling.by == ("devfreq-gpu-gpc-0",)
    assert board.gpu_load_percent.reason == "this board shows no GPU load in sysfs"
    assert list(board.gpu_clocks) == ["gpu-gpc-0", "gpu-nvd-0"]
    assert board.gpu_clocks["gpu-gpc-0"].now.value == 314.0
    assert board.power["VDD_GPU"].milliwatts.value == 0.0
    assert "sum of shunt voltages" not in board.power
    assert board.power["ina238.hwmon3.1"].milliwatts.value == 28_500.0
    assert board.over_current["instantaneous_over_current"].events.value == 179
    assert (board.fan.drive_percent.value, board.fan.rpm.value) == (22.7, 1786)


def test_a_computer(tmp_path: Path) -> None:
    computer(tmp_path)
    seen = look(tmp_path)
    assert seen.model.value == "NUC7i5BNH"
    assert seen.jetson.reason == "this machine is not a Jetson"
    assert seen.hottest.celsius.value == 71.0
    assert seen.temperatures["coretemp.Package id 0"].critical_at.value == 100.0
    assert set(seen.throttling.limiters) == {"Processor", "intel_powerclamp"}
    assert seen.throttling.limiters["intel_powerclamp"].state.reason == "-1 is negative"
    assert seen.throttling.active.reason == "1 of 2 limiters cannot be read"
    count = seen.throttling.counts["intel_core"]
    assert count.value == 0 + 1 + 2 + 3


@pytest.mark.parametrize("board", BOARDS)
def test_json_and_screen_of_every_board(tmp_path: Path, board: str) -> None:
    BOARDS[board](tmp_path)
    seen = look(tmp_path)
    record = seen.to_json()
    reasons = record.pop("unknown")
    assert set(nulls(record)) == set(reasons)
    assert all(reasons.values())
    lines = screen_lines(seen)
    assert all(0 < len(line) <= 80 for line in lines)
    assert len(lines) <= 40
    shown = "\n".join(lines)
    for name in seen.temperatures:
        assert name in shown


def nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from nulls(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from nulls(item, f"{path}.{index}")


def test_a_machine_that_shows_nothing(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert seen.hottest.celsius.reason == "this machine shows no temperatures"
    assert seen.memory.total_bytes.reason == "not there"
    assert seen.load.one.reason == "not there"
    assert seen.disks[str(tmp_path)].total_bytes.known
    assert all(len(line) <= 80 for line in screen_lines(seen))


GARBAGE = [
    "",
    "garbage",
    "-5",
    "-256000",
    "9" * 400,
    "12 34",
    "\x00\x00",
    "nan",
    "0x10",
    "3.5",
    "ü",
    "1e9",
    "--1",
    None,
]


@pytest.mark.parametrize("value", GARBAGE)
def test_garbage_in_every_file_of_a_board(tmp_path: Path, value: str | None) -> None:
    """Names are not enough: whatever the files hold, each is a value or has a reason."""
    board = orin_nano(tmp_path)
    for path in files_below(tmp_path):
        path.unlink()
        board.put(str(path.relative_to(tmp_path)), value)
    seen = look(tmp_path)
    record = seen.to_json()
    reasons = record.pop("unknown")
    assert set(nulls(record)) == set(reasons)
    frost = -0.005 if value == "-5" else None  # a cold camera is colder than 0 C, so this one is no garbage
    assert {zone.celsius.value for zone in seen.temperatures.values()} <= {frost, None}
    assert seen.throttling.active.value is None
    assert seen.memory.total_bytes.value is None
    assert seen.load.one.value is None or value in ("12 34", "3.5")
    assert all(len(line) <= 80 for line in screen_lines(seen))


def files_below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.data())
def test_any_bytes_in_any_file(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("board")
    data.draw(st.sampled_from(sorted(BOARDS)).map(lambda name: BOARDS[name](root)))
    paths = files_below(root)
    for path in data.draw(st.lists(st.sampled_from(paths), max_size=12)):
        path.write_bytes(data.draw(st.binary(max_size=40)))
    record = look(root).to_json()
    assert all(math.isfinite(number) for number in numbers(record))


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value


def test_a_pipe_in_a_files_place_does_not_wait(tmp_path: Path) -> None:
    orin_nano(tmp_path)
    place = tmp_path / "sys/class/thermal/thermal_zone0/temp"
    place.unlink()
    os.mkfifo(place)
    assert look(tmp_path).temperatures["cpu-thermal"].celsius.reason == "not a regular file"


def test_what_the_governor_is_told(tmp_path: Path) -> None:
    settings = GovernorSettings(limit_c=90.0)
    for name, expected, throttled in (
        ("orin_nano", 90 - (99 - 53.968), False),  # by the degrees that are left
        ("agx_orin", 44.562, True),  # no zone says where it throttles
    ):
        root = tmp_path / name
        BOARDS[name](root)
        seen = thermal_reading(look(root), settings)
        assert seen.celsius == pytest.approx(expected)
        assert seen.throttled is throttled
    nothing = thermal_reading(look(tmp_path / "empty"), settings)
    assert (nothing.celsius, nothing.throttled) == (None, None)


def test_a_trip_that_only_drives_a_fan_is_no_throttling(tmp_path: Path) -> None:
    board = Board(tmp_path)
    trips = (("passive", 60_000), ("passive", 0), ("active", 50_000))
    board.zones({"cpu-thermal": 55_000}, trips, {0: ("pwm-fan",), 1: ("cpufreq-cpu0",)})
    zone = look(tmp_path).temperatures["cpu-thermal"]
    assert zone.throttles_at.reason == zone.critical_at.reason == "the zone has no such trip point"


def test_a_file_whose_read_fails(tmp_path: Path) -> None:
    orin_nano(tmp_path)
    place = tmp_path / "sys/class/thermal/thermal_zone0/temp"
    place.unlink()
    place.symlink_to("/proc/self/mem")  # nothing is mapped at its start: EIO, as from a sensor that is off
    assert "cannot be read" in look(tmp_path).temperatures["cpu-thermal"].celsius.reason


def test_a_folder_with_too_many_names_is_cut(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.zones({f"zone-{number}": 40_000 for number in range(200)})
    seen = look(tmp_path)
    assert len(seen.temperatures) == 64
    assert "zone-9" in seen.temperatures


def test_beyond_its_files_a_look_is_unknown_and_says_so(tmp_path: Path) -> None:
    orin_nano(tmp_path)
    seen = look(tmp_path, max_files=4)
    assert seen.temperatures["cpu-thermal"].celsius.reason == "not read: too many files"
    assert seen.memory.total_bytes.reason == "not read: too many files"


def test_a_slow_sensor_takes_no_more_than_the_time_of_a_look(tmp_path: Path) -> None:
    orin_nano(tmp_path)
    clock = FixedClock(step_ms=1.0)  # each read takes a millisecond
    seen = read_health(HealthReader(clock, root=tmp_path, disks=(), max_ms=40.0))
    assert seen.took_ms < 60
    assert seen.temperatures["cpu-thermal"].celsius.value == 53.968  # the most important is read first
    assert "time for one snapshot" in seen.memory.total_bytes.reason


def test_against_psutil_on_this_machine() -> None:
    seen = read_health(HealthReader(SystemClock(), disks=(Path("/"),)))
    memory, disk = psutil.virtual_memory(), psutil.disk_usage("/")
    assert seen.memory.total_bytes.value == memory.total
    assert seen.memory.swap_total_bytes.value == psutil.swap_memory().total
    assert seen.disks["/"].total_bytes.value == pytest.approx(disk.total, rel=0.01)
    assert seen.disks["/"].free_bytes.value == pytest.approx(disk.free, rel=0.2)
    for name, found in psutil.sensors_temperatures().items():
        assert not found or any(name in zone for zone in seen.temperatures)


def test_a_read_only_file_system_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real: Callable[[Any], os.statvfs_result] = os.statvfs

    def read_only(path: Any) -> os.statvfs_result:
        fields = list(real(path))
        fields[8] |= os.ST_RDONLY
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "statvfs", read_only)
    assert look(tmp_path).disks[str(tmp_path)].read_only.value is True
    assert "READ-ONLY" in "\n".join(screen_lines(look(tmp_path)))
    assert stat.S_ISDIR(tmp_path.stat().st_mode)


def test_a_folder_that_is_gone_has_no_disk(tmp_path: Path) -> None:
    seen = read_health(HealthReader(FixedClock(), root=tmp_path, disks=(tmp_path / "gone",)))
    assert "No such file" in seen.disks[str(tmp_path / "gone")].free_bytes.reason
