"""What the device runs on, read once a second: few files, because finding them anew costs ten times as much."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.config.monitor import BatteryConfig
from edge_runtime.health.battery import read_battery
from edge_runtime.health.linux import (
    Disk,
    MemoryState,
    Sensor,
    Zone,
    find_sensors,
    measure,
    read_disk,
    read_limiters,
    read_memory,
    read_pressure,
)
from edge_runtime.health.reading import Reading
from edge_runtime.health.snapshot import judge_throttling
from edge_runtime.health.sysfiles import SysFiles
from edge_runtime.monitor.readings import BatteryReading

FIND_NS = 60 * NS_PER_S
"""Sensors are looked for so often: one may come up late, or be switched on with the part that it sits in."""

LOOK_MS = 150.0
"""Each part of a look may take so long; what a slow sensor leaves no time for is unknown."""

_READ_TOGETHER_NS = 20 * NS_PER_MS
_TRIES = 3


@dataclass(frozen=True, slots=True)
class HostSample:
    """What the machine says of itself at one time; see `Readings` for the fields.

    Attributes:
        throttled_by: limiters at work.
        batteries: those with a gauge of the kernel's, by the configuration's name.
    """

    disks: Mapping[str, Disk]
    memory: MemoryState
    memory_full_percent: Reading[float]
    temperatures: Mapping[str, Zone]
    throttled: Reading[bool]
    throttled_by: tuple[str, ...]
    batteries: Mapping[str, BatteryReading | None]


@dataclass
class HostSampler:
    """Looks at the machine.

    Args:
        clock: dates and bounds looks.
        disks: folders on local disks, by what lies there.
        batteries: of the configuration; those without a `supply` are an adapter's.
        root: `/`, or a tree that looks like it.
    """

    clock: Clock
    disks: Mapping[str, Path]
    batteries: Mapping[str, BatteryConfig]
    root: Path = Path("/")
    _sensors: Mapping[str, Sensor] = field(default_factory=dict, init=False)
    _found_ns: int | None = field(default=None, init=False)

    def look(self) -> HostSample:
        """Look once. Never raises for what a machine has or has not."""
        now_ns = self.clock.monotonic_ns()
        # A bound for each: a sensor that is slow must cost neither the batteries nor the memory their reading.
        gauges = self._batteries(self._files())
        files = self._files()
        if self._found_ns is None or now_ns - self._found_ns >= FIND_NS:
            self._find(files, now_ns)
        temperatures = measure(files, self._sensors)
        slowed = judge_throttling(read_limiters(files), {})
        proc = self._files()
        return HostSample(
            disks={name: read_disk(folder) for name, folder in self.disks.items()},
            memory=read_memory(proc),
            memory_full_percent=read_pressure(proc, ("memory",))["memory"].full_10s,
            temperatures=temperatures,
            throttled=slowed.active,
            throttled_by=slowed.by,
            batteries=gauges,
        )

    def _files(self) -> SysFiles:
        return SysFiles(self.root, self.clock, max_ms=LOOK_MS)

    def _batteries(self, files: SysFiles) -> dict[str, BatteryReading | None]:
        return {
            name: self._battery(files, bounds.supply)
            for name, bounds in self.batteries.items()
            if bounds.supply is not None
        }

    def _find(self, files: SysFiles, now_ns: int) -> None:
        found = find_sensors(files)
        if self.clock.monotonic_ns() - now_ns < LOOK_MS * NS_PER_MS:
            self._sensors, self._found_ns = found, now_ns
        else:  # held up: what was not reached may be there all the same, and is looked for again next time
            self._sensors = {**self._sensors, **found}

    def _battery(self, files: SysFiles, supply: str) -> BatteryReading | None:
        found = read_battery(files, supply)
        if found is None:
            return None
        return BatteryReading(self.clock.monotonic_ns(), found.charge, found.volts, found.draining, found.raw)


def wall_offset_ns(clock: Clock) -> int | None:
    """Wall clock less the clock that nobody sets; None where this process was held up between the two readings."""
    for _ in range(_TRIES):
        before_ns = clock.boottime_ns()
        wall_ns = clock.wall().unix_ns
        after_ns = clock.boottime_ns()
        if after_ns - before_ns <= _READ_TOGETHER_NS:
            return wall_ns - before_ns
    return None
