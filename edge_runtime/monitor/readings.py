"""What one round of the monitor knows: plain values with their ages, from files, sockets and clocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge_runtime.health.linux import Disk, MemoryState, Zone
from edge_runtime.health.reading import Reading, unknown


@dataclass(frozen=True, slots=True)
class BatteryReading:
    """One battery, from its gauge or from an adapter.

    Attributes:
        taken_ns: when it was read or reported, CLOCK_MONOTONIC.
        charge: 0 to 1.
        volts: at its terminals.
        draining: False only where it says that it is charged or full.
        raw: everything that was read; equal twice means that nothing has moved.
    """

    taken_ns: int
    charge: Reading[float]
    volts: Reading[float]
    draining: bool
    raw: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pose:
    """Where the body is, by an adapter's word.

    Attributes:
        captured_ns: when its measurements were made, CLOCK_MONOTONIC.
        spread_m: how uncertain it is, in metres.
    """

    captured_ns: int
    spread_m: float


@dataclass(frozen=True, slots=True)
class Readings:
    """Everything that conditions are judged by.

    Attributes:
        disks: file systems by what lies on them: `state`, `evidence`.
        memory: of the machine.
        memory_full_percent: share of the last ten seconds in which all work waited for memory.
        temperatures: sensors by name.
        throttled: whether the hardware slows itself down.
        batteries: by the name that the configuration gives them; None where there is no reading.
        pose: the newest report.
        map_built_ns: of the newest map; None where none was reported.
        wall_offset_ns: wall clock less the clock that nobody sets; None where they could not be read together.
    """

    disks: Mapping[str, Disk]
    memory: MemoryState
    memory_full_percent: Reading[float] = field(default_factory=lambda: unknown("not read"))
    temperatures: Mapping[str, Zone] = field(default_factory=dict)
    throttled: Reading[bool] = field(default_factory=lambda: unknown("not read"))
    batteries: Mapping[str, BatteryReading | None] = field(default_factory=dict)
    pose: Pose | None = None
    map_built_ns: int | None = None
    wall_offset_ns: int | None = None
