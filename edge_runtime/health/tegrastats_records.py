"""What a line of tegrastats says, as typed records; `tegrastats.py` reads them."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.health.reading import Reading


@dataclass(frozen=True, slots=True)
class Memory:
    """RAM in MB. `free_blocks` blocks of `free_block_size` are the largest that are free (`lfb`).

    The size keeps the number and the unit of the text (`4` and `MB`, `128` and `kB` when memory is short).
    """

    used_mb: Reading[float]
    total_mb: Reading[float]
    free_blocks: Reading[int]
    free_block_size: Reading[int]
    free_block_unit: Reading[str]


@dataclass(frozen=True, slots=True)
class Swap:
    """Swap in MB; `cached_mb` of it are in RAM too."""

    used_mb: Reading[float]
    total_mb: Reading[float]
    cached_mb: Reading[float]


@dataclass(frozen=True, slots=True)
class Iram:
    """The on-chip memory of older boards, in kB; `free_block_kb` is the largest free block."""

    used_kb: Reading[float]
    total_kb: Reading[float]
    free_block_kb: Reading[float]


@dataclass(frozen=True, slots=True)
class Core:
    """One processor core: load in percent and clock in MHz, both unknown while it is off."""

    load_percent: Reading[float]
    mhz: Reading[int]


@dataclass(frozen=True, slots=True)
class Engine:
    """A clocked part: memory controller, GPU, encoder, decoder, accelerator.

    Attributes:
        state: `on` or `off`, as printed.
        load_percent: how busy it was.
        clocks_mhz: one clock, or one for each cluster (GPC) of a GPU.
    """

    state: str
    load_percent: Reading[float]
    clocks_mhz: Reading[tuple[Reading[int], ...]]


@dataclass(frozen=True, slots=True)
class Sensor:
    """A temperature in degrees Celsius now, and the highest since tegrastats was started."""

    celsius: Reading[float]
    max_celsius: Reading[float]


@dataclass(frozen=True, slots=True)
class Rail:
    """Power of a rail in mW: now, average and maximum since tegrastats was started."""

    now_mw: Reading[int]
    average_mw: Reading[int]
    max_mw: Reading[int]


@dataclass(frozen=True, slots=True)
class TegrastatsLine:
    """One line.

    Attributes:
        time: as printed, ISO 8601; the board's own clock and zone, which the text does not name.
        cpus: by number.
        emc: the memory controller. gpu: GR3D. engines: all others, by name without `_FREQ`.
        temperatures, power: by name as printed; a name printed twice gets `#2`.
        extras: what only some old releases print: `EDP limit`, `MTS fg`, `MTS bg`.
        ignored: words that no known form fits.
    """

    time: Reading[str]
    ram: Reading[Memory]
    swap: Reading[Swap]
    iram: Reading[Iram]
    cpus: tuple[Core, ...]
    emc: Reading[Engine]
    gpu: Reading[Engine]
    engines: Mapping[str, Engine]
    temperatures: Mapping[str, Sensor]
    power: Mapping[str, Rail]
    extras: Mapping[str, int]
    ignored: tuple[str, ...]
