"""What any Linux tells in /proc and /sys: load, memory, pressure, disks, temperatures, what slows the machine down.

The files are those of the kernel's own documentation (`Documentation/ABI/testing/sysfs-class-thermal`,
`Documentation/hwmon/sysfs-interface`, `Documentation/accounting/psi`). psutil would read the same ones, from fixed
places and with an exception where a board has none; the tests hold these readers against it.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.health.reading import Reading, distinct_name, temperature, unknown
from edge_runtime.health.sysfiles import SysFiles

THERMAL, HWMON, CPUFREQ = "/sys/class/thermal", "/sys/class/hwmon", "/sys/devices/system/cpu/cpufreq"

_TRIPS, _COUNTED = 12, 32
_NOT_LIMITERS = re.compile(r"fan|lcd|backlight|tcc offset|iwlwifi|charger|hot-surface", re.IGNORECASE)
"""Cooling devices whose state says nothing about the speed of the machine: a fan that turns is no throttling.

Orin's `hot-surface-alert` at 70 C warns whoever might touch the heat sink and slows nothing down.
"""


@dataclass(frozen=True, slots=True)
class Load:
    """Runnable processes, averaged over 1, 5 and 15 minutes, and the processors that share them."""

    one: Reading[float]
    five: Reading[float]
    fifteen: Reading[float]
    processors: Reading[int]


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Bytes of RAM and swap; `available` is what can be had without swapping."""

    total_bytes: Reading[int]
    available_bytes: Reading[int]
    swap_total_bytes: Reading[int]
    swap_free_bytes: Reading[int]


@dataclass(frozen=True, slots=True)
class Pressure:
    """Share of time, in percent, in which some (or all, `full`) work waited for a resource (PSI)."""

    some_10s: Reading[float]
    some_60s: Reading[float]
    full_10s: Reading[float]
    full_60s: Reading[float]


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system that holds a folder: size, and what an unprivileged process may still write."""

    total_bytes: Reading[int]
    free_bytes: Reading[int]
    free_files: Reading[int]
    read_only: Reading[bool]


@dataclass(frozen=True, slots=True)
class Zone:
    """A temperature in degrees Celsius, and where the kernel begins to slow down or switches off for it."""

    celsius: Reading[float]
    throttles_at: Reading[float]
    critical_at: Reading[float]


@dataclass(frozen=True, slots=True)
class Limiter:
    """A cooling device that makes the machine slower: 0 is full speed, `max_state` the slowest."""

    state: Reading[int]
    max_state: Reading[int]


@dataclass(frozen=True, slots=True)
class CpuClock:
    """MHz of one group of processors: now, what is allowed now, what the hardware could."""

    now: Reading[float]
    allowed: Reading[float]
    hardware: Reading[float]


def read_load(files: SysFiles) -> Load:
    """Load averages and the number of processors that are online."""
    found = files.text("/proc/loadavg")
    words = (found.value or "").split()
    averages = [_decimal(words, index, found.reason) for index in range(3)]
    return Load(
        averages[0], averages[1], averages[2], _processors(files.text("/sys/devices/system/cpu/online"))
    )


def _decimal(words: Sequence[str], index: int, reason: str) -> Reading[float]:
    if len(words) <= index:
        return unknown(reason or "not in the file")
    if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", words[index]) is None:
        return unknown(f"{words[index][:20]!r} is not a number")
    return Reading(float(words[index]))


def _processors(found: Reading[str]) -> Reading[int]:
    """`0-3,6` is five processors."""
    if found.value is None:
        return unknown(found.reason)
    number = 0
    for part in found.value.split(","):
        span = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if span is None:
            return unknown(f"{found.value[:20]!r} is not a list of processors")
        number += int(span[2] or span[1]) - int(span[1]) + 1
    return Reading(number) if number > 0 else unknown("no processor is listed")


def read_memory(files: SysFiles) -> MemoryState:
    """/proc/meminfo."""
    found = files.text("/proc/meminfo")
    sizes = dict(re.findall(r"^(\w+):\s+(\d{1,15}) kB$", found.value or "", re.MULTILINE))

    def size(name: str) -> Reading[int]:
        if name not in sizes:
            return unknown(found.reason or f"{name} is not in /proc/meminfo")
        return Reading(int(sizes[name]) * 1024)

    return MemoryState(size("MemTotal"), size("MemAvailable"), size("SwapTotal"), size("SwapFree"))


def read_pressure(
    files: SysFiles, resources: Sequence[str] = ("cpu", "memory", "io")
) -> Mapping[str, Pressure]:
    """PSI of processors, memory and disks; unknown where the kernel was built without it."""
    return {name: _pressure(files.text(f"/proc/pressure/{name}")) for name in resources}


def _pressure(found: Reading[str]) -> Pressure:
    shares: dict[tuple[str, str], Reading[float]] = {}
    for line in (found.value or "").splitlines():
        for seconds in ("10", "60"):
            share = re.search(rf"^(some|full) .*\bavg{seconds}=(\d{{1,3}}(?:\.\d{{1,6}})?)\b", line)
            if share:
                shares[share[1], seconds] = Reading(float(share[2]))
    absent: Reading[float] = unknown(found.reason or "not in the file")
    names = (("some", "10"), ("some", "60"), ("full", "10"), ("full", "60"))
    return Pressure(*(shares.get(name, absent) for name in names))


def read_disk(folder: Path) -> Disk:
    """How full the file system of a folder is. The folder should be a local disk: a dead network mount waits."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        reason = f"cannot be asked: {error.strerror}"
        return Disk(unknown(reason), unknown(reason), unknown(reason), unknown(reason))
    files: Reading[int] = (
        Reading(found.f_favail) if found.f_files else unknown("the file system does not count files")
    )
    return Disk(
        Reading(found.f_blocks * found.f_frsize),
        Reading(found.f_bavail * found.f_frsize),
        files,
        Reading(bool(found.f_flag & os.ST_RDONLY)),
    )


@dataclass(frozen=True, slots=True)
class Sensor:
    """Where a temperature is read, and what the kernel says of it; none of this changes while the device runs.

    Attributes:
        path: of the file with the temperature.
        throttles_at, critical_at: as in `Zone`.
    """

    path: str
    throttles_at: Reading[float]
    critical_at: Reading[float]


def read_temperatures(files: SysFiles) -> Mapping[str, Zone]:
    """Thermal zones by type, then sensors of hwmon that are no zone's mirror (`coretemp.Package id 0`)."""
    return {name: _measured(files, sensor) for name, sensor in _sensors(files)}


def find_sensors(files: SysFiles) -> Mapping[str, Sensor]:
    """Where temperatures are read, by the names of `read_temperatures`."""
    return dict(_sensors(files))


def measure(files: SysFiles, sensors: Mapping[str, Sensor]) -> Mapping[str, Zone]:
    """What sensors found before measure now: a tenth of the files that finding them takes."""
    return {name: _measured(files, sensor) for name, sensor in sensors.items()}


def _measured(files: SysFiles, sensor: Sensor) -> Zone:
    return Zone(_celsius(files.integer(sensor.path)), sensor.throttles_at, sensor.critical_at)


def _sensors(files: SysFiles) -> Iterator[tuple[str, Sensor]]:
    # one by one, so that a look whose time runs out has measured those it has found
    names: dict[str, str] = {}
    for entry in files.names(THERMAL, r"thermal_zone\d+"):
        name = distinct_name(names, (files.text(f"{THERMAL}/{entry}/type").value or entry)[:60])
        names[name] = entry
        yield name, _zone(files, f"{THERMAL}/{entry}")
    mirrored = {name.replace("-", "_") for name in names}
    for entry in files.names(HWMON, r"hwmon\d+"):
        chip = files.text(f"{HWMON}/{entry}/name").value or entry
        if chip.replace("-", "_") in mirrored:  # the kernel shows each zone a second time as hwmon
            continue
        for sensor in files.names(f"{HWMON}/{entry}", r"temp\d+_input"):
            path = f"{HWMON}/{entry}/{sensor.removesuffix('_input')}"
            label = files.text(f"{path}_label").value or sensor.removesuffix("_input")
            name = distinct_name(names, f"{chip}.{label}"[:60])
            names[name] = entry
            critical_at = _celsius(files.integer(f"{path}_crit"))
            yield name, Sensor(f"{path}_input", unknown("hwmon does not say"), critical_at)


def _zone(files: SysFiles, path: str) -> Sensor:
    throttles: list[float] = []
    critical: list[float] = []
    slowing = _slowing_trips(files, path)
    for number in range(_TRIPS):
        kind = files.text(f"{path}/trip_point_{number}_type").value
        if kind is None:
            break
        if kind in ("passive", "hot", "critical"):
            celsius = _celsius(files.integer(f"{path}/trip_point_{number}_temp")).value
            if celsius is None or celsius <= 0:  # 0 and below: a trip that is switched off
                continue
            if kind != "passive":
                critical.append(celsius)
            elif slowing is None or number in slowing:
                throttles.append(celsius)
    none = "the zone has no such trip point"
    return Sensor(
        f"{path}/temp",
        Reading(min(throttles)) if throttles else unknown(none),
        Reading(min(critical)) if critical else unknown(none),
    )


def _slowing_trips(files: SysFiles, path: str) -> set[int] | None:
    """Trip points to which the kernel bound something that slows down; None where it shows no bindings.

    An Orin has a passive trip at 70 C in every zone that only warns, and the one that throttles at 99 C.
    """
    slowing: set[int] = set()
    bound = False
    for entry in files.names(path, r"cdev\d+_trip_point"):
        trip = files.integer(f"{path}/{entry}").value
        kind = files.text(f"{path}/{entry.removesuffix('_trip_point')}/type").value
        if trip is None or kind is None:
            continue
        bound = True
        if not _NOT_LIMITERS.search(kind):
            slowing.add(trip)
    return slowing if bound else None


def _celsius(millidegrees: Reading[int]) -> Reading[float]:
    if millidegrees.value is None:
        return unknown(millidegrees.reason)
    return temperature(millidegrees.value / 1000)


def read_limiters(files: SysFiles) -> Mapping[str, Limiter]:
    """Cooling devices that slow the machine down, by type; fans are none of them.

    A Jetson has `gpu-throttle-alert` and its like here, 0 while the firmware lets the part run at full speed, and
    `devfreq-…` and `cpufreq-…` for the kernel's own steps; a PC has `Processor`.
    """
    limiters: dict[str, Limiter] = {}
    for entry in files.names(THERMAL, r"cooling_device\d+"):
        kind = files.text(f"{THERMAL}/{entry}/type").value or entry
        if _NOT_LIMITERS.search(kind):
            continue
        limiters[distinct_name(limiters, kind[:60])] = Limiter(
            files.natural(f"{THERMAL}/{entry}/cur_state"), files.natural(f"{THERMAL}/{entry}/max_state")
        )
    return limiters


def read_cpu_clocks(files: SysFiles) -> Mapping[str, CpuClock]:
    """Clocks of each group of processors that shares one."""
    return {
        policy: CpuClock(
            _megahertz(files.natural(f"{CPUFREQ}/{policy}/scaling_cur_freq")),
            _megahertz(files.natural(f"{CPUFREQ}/{policy}/scaling_max_freq")),
            _megahertz(files.natural(f"{CPUFREQ}/{policy}/cpuinfo_max_freq")),
        )
        for policy in files.names(CPUFREQ, r"policy\d+")
    }


def _megahertz(kilohertz: Reading[int]) -> Reading[float]:
    return unknown(kilohertz.reason) if kilohertz.value is None else Reading(kilohertz.value / 1000)


def read_throttle_counts(files: SysFiles) -> Mapping[str, Reading[int]]:
    """How often Intel's processors were slowed down for heat since the start, all of them together."""
    cpu = "/sys/devices/system/cpu"
    folders = [f"{cpu}/{name}/thermal_throttle" for name in files.names(cpu, r"cpu\d+")]
    counts = [files.natural(f"{folder}/core_throttle_count") for folder in folders[:_COUNTED]]
    known = [count.value for count in counts if count.value is not None]
    return {"intel_core": Reading(sum(known))} if known else {}
