"""One look at the device: everything that the readers find, taken within a bounded time, as one frozen record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.health import linux
from edge_runtime.health.jetson import JetsonHealth, is_jetson, read_jetson, read_model
from edge_runtime.health.reading import Reading, plain, unknown
from edge_runtime.health.sysfiles import MAX_FILES, MAX_MS, SysFiles


@dataclass(frozen=True, slots=True)
class HealthReader:
    """Where and how to look.

    Attributes:
        clock: of the device.
        root: `/`, or a tree that looks like it.
        disks: folders on local disks whose file systems are looked at.
        max_files, max_ms: bounds of one look; what lies beyond is unknown.
    """

    clock: Clock
    root: Path = Path("/")
    disks: Sequence[Path] = field(default=(Path("/"),))
    max_files: int = MAX_FILES
    max_ms: float = MAX_MS


@dataclass(frozen=True, slots=True)
class WallClock:
    """The wall clock, a label: when, and whether the kernel holds it for synchronised."""

    time: str
    synced: bool
    boot_id: str


@dataclass(frozen=True, slots=True)
class Hottest:
    """The hottest sensor that measures something, and the sensor nearest to being slowed down.

    Attributes:
        name, celsius: of the hottest.
        margin_name, margin_c: of the one with the fewest degrees below the point where it is slowed down.
    """

    name: Reading[str]
    celsius: Reading[float]
    margin_name: Reading[str]
    margin_c: Reading[float]


@dataclass(frozen=True, slots=True)
class Throttling:
    """What slows the machine down now.

    Attributes:
        active: True if any limiter is above 0; unknown where there is none that can be read.
        by: types of the limiters that are above 0.
        limiters: all of them.
        counts: how often it happened since the start, where a processor counts it.
    """

    active: Reading[bool]
    by: tuple[str, ...]
    limiters: Mapping[str, linux.Limiter]
    counts: Mapping[str, Reading[int]]


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    """The device at one time.

    Attributes:
        taken_ns: monotonic time at which the look began; took_ms: how long it took.
        jetson: unknown on any other machine.
    """

    taken_ns: int
    took_ms: float
    clock: WallClock
    model: Reading[str]
    hottest: Hottest
    throttling: Throttling
    temperatures: Mapping[str, linux.Zone]
    load: linux.Load
    cpu_clocks: Mapping[str, linux.CpuClock]
    memory: linux.MemoryState
    pressure: Mapping[str, linux.Pressure]
    disks: Mapping[str, linux.Disk]
    jetson: Reading[JetsonHealth]

    def to_json(self) -> dict[str, Any]:
        """Plain values and null; the reason of each null under `unknown`, by path."""
        return plain(self)


def read_health(reader: HealthReader) -> HealthSnapshot:
    """Look at the device once. Never raises for what a board has or has not."""
    clock = reader.clock
    began = clock.monotonic_ns()
    files = SysFiles(reader.root, clock, max_files=reader.max_files, max_ms=reader.max_ms)
    # what the guard and the governor live on comes first: a slow sensor further down cannot take their time
    temperatures = linux.read_temperatures(files)
    throttling = judge_throttling(linux.read_limiters(files), linux.read_throttle_counts(files))
    memory, pressure = linux.read_memory(files), linux.read_pressure(files)
    load, cpu_clocks = linux.read_load(files), linux.read_cpu_clocks(files)
    disks = {str(folder): linux.read_disk(folder) for folder in reader.disks}
    jetson: Reading[JetsonHealth] = unknown("this machine is not a Jetson")
    if is_jetson(files):
        jetson = Reading(read_jetson(files))
    model = read_model(files)
    label = clock.wall()
    return HealthSnapshot(
        taken_ns=began,
        took_ms=round((clock.monotonic_ns() - began) / NS_PER_MS, 3),
        clock=WallClock(label.isoformat(), label.synced, label.boot_id),
        model=model,
        hottest=hottest(temperatures),
        throttling=throttling,
        temperatures=temperatures,
        load=load,
        cpu_clocks=cpu_clocks,
        memory=memory,
        pressure=pressure,
        disks=disks,
        jetson=jetson,
    )


def hottest(temperatures: Mapping[str, linux.Zone]) -> Hottest:
    """The hottest sensor, and the one nearest to throttling.

    The PMIC's zone is left out: on JetPack 4 and 5 it shows 50 or 100 whatever the temperature, in each of the real
    logs, because it is a threshold and no sensor.
    """
    measured = {
        name: zone.celsius.value
        for name, zone in temperatures.items()
        if zone.celsius.value is not None and not name.lower().startswith("pmic")
    }
    if not measured:
        reason = "no sensor measures a temperature" if temperatures else "this machine shows no temperatures"
        return Hottest(unknown(reason), unknown(reason), unknown(reason), unknown(reason))
    margins = {
        name: limit - celsius
        for name, celsius in measured.items()
        if (limit := _limit(temperatures[name])) is not None
    }
    name = max(measured, key=lambda sensor: measured[sensor])
    if not margins:
        none = "no sensor says where it throttles"
        return Hottest(Reading(name), Reading(measured[name]), unknown(none), unknown(none))
    nearest = min(margins, key=lambda sensor: margins[sensor])
    return Hottest(
        Reading(name), Reading(measured[name]), Reading(nearest), Reading(round(margins[nearest], 3))
    )


def _limit(zone: linux.Zone) -> float | None:
    limits = [limit for limit in (zone.throttles_at.value, zone.critical_at.value) if limit is not None]
    return min(limits) if limits else None


def judge_throttling(limiters: Mapping[str, linux.Limiter], counts: Mapping[str, Reading[int]]) -> Throttling:
    """What slows the machine down, by its limiters; `counts` are told as they are."""
    states = {name: limiter.state.value for name, limiter in limiters.items()}
    by = tuple(name for name, state in states.items() if state)
    if by:
        active: Reading[bool] = Reading(value=True)
    elif not limiters:
        active = unknown("this machine shows nothing that slows it down")
    elif unread := [name for name, state in states.items() if state is None]:
        active = unknown(f"{len(unread)} of {len(states)} limiters cannot be read")
    else:
        active = Reading(value=False)
    return Throttling(active, by, limiters, counts)
