"""What the monitor looks at beside the cameras: heat, disk, memory, clock, batteries, pose and map.

All times are in seconds. A bound of zero is refused: it would have nothing ever count as fresh, or as too old.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from edge_runtime.config.base import ConfigModel, Fraction, Integer, Name, PositiveSeconds, Real, Text
from edge_runtime.protocol import DataClass

MIB = 1024 * 1024

Degrees = Annotated[Real, Field(ge=20, le=150)]
Volts = Annotated[Real, Field(gt=0, le=1000)]
PositiveFraction = Annotated[Fraction, Field(gt=0)]
SUPPLY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"
SUPPLY_RULE = "use 1 to 64 letters, digits, _, ., : and -, beginning with a letter or a digit"
Supply = Annotated[str, Field(pattern=SUPPLY_PATTERN)]


class BatteryConfig(ConfigModel):
    """One battery. A reading that vanishes, or repeats while the battery drains, is a condition of its own.

    Attributes:
        supply: its name below /sys/class/power_supply; without one an adapter reports it by the battery's name.
        low: charge from which on it is low, 0 to 1.
        critical: charge that is below what a stop needs.
        low_volts: voltage from which on it is low, for a battery whose charge nobody knows.
        critical_volts: voltage that is below what a stop needs.
        max_age: an adapter's report that is older is a missing one.
        frozen_after: after so long with the same raw reading, while it is not charged, the reading is frozen; has
            to be longer than a step of the gauge lasts. Without it 300 s with a voltage, and 900 s without one.
    """

    supply: Supply | None = None
    low: PositiveFraction = 0.2
    critical: PositiveFraction = 0.1
    low_volts: Volts | None = None
    critical_volts: Volts | None = None
    max_age: PositiveSeconds = 5.0
    frozen_after: PositiveSeconds | None = None

    @model_validator(mode="after")
    def _low_comes_first(self) -> "BatteryConfig":
        if self.critical >= self.low:
            raise ValueError("critical must be less than low")
        volts = (self.critical_volts, self.low_volts)
        if volts[0] is not None and volts[1] is not None and volts[0] >= volts[1]:
            raise ValueError("critical_volts must be less than low_volts")
        return self


class PoseConfig(ConfigModel):
    """The pose, as an adapter reports it.

    Attributes:
        max_age: a pose whose measurements are older is stale.
        max_spread: in metres; a pose that is less certain counts as stale too.
    """

    max_age: PositiveSeconds = 0.5
    max_spread: Annotated[Real, Field(gt=0, le=1000)] = 0.5


class MapConfig(ConfigModel):
    """The map, as an adapter reports it.

    Attributes:
        max_age: a map that was built longer ago is stale.
    """

    max_age: PositiveSeconds


class RecorderConfig(ConfigModel):
    """The flight recorder: states and measurements on disk, the oldest dropped.

    Attributes:
        bytes: all of it.
        sync: what a power cut may cost of measurements; a change of state is on the disk at once.
    """

    bytes: Annotated[Integer, Field(ge=256 * 1024, le=1 << 30)] = 8 * MIB
    sync: Annotated[Real, Field(ge=1, le=3600)] = 5.0


class MonitorConfig(ConfigModel):
    """What the device runs on, and where the body is.

    Attributes:
        temperature: `none` for a machine that has no sensor, such as a virtual one; elsewhere no reading at all is
            a condition.
        hot: degrees Celsius from which on the processor is hot; without it each sensor's own limit counts, less a
            margin.
        critical: degrees Celsius from which on it is about to switch itself off; without it as above.
        hot_margin: degrees below the point at which a sensor's part is slowed down.
        critical_margin: degrees below the point at which it is switched off.
        disk_free: share of a disk that has to be free, of the one with the state and of the one with evidence.
        disk_free_bytes: what has to be free at least, whatever the share says.
        memory_available: share of memory that has to be available.
        memory_pressure: share of the last ten seconds in which all work waited for memory, from which on memory is
            short.
        clock_step: seconds by which the wall clock may move against the clock that nobody sets.
        batteries: by name; each one has to give a reading. A body without any leaves this empty.
        pose: only of a body that has one.
        map: only of a body that has one.
        data_class: of the events about changes of the guard's state.
        recorder: the flight recorder.
        root: where sys and proc lie; another tree than `/` is for simulations, and is warned of.
    """

    temperature: Literal["expected", "none"] = "expected"
    hot: Degrees | None = None
    critical: Degrees | None = None
    hot_margin: Annotated[Real, Field(ge=0, le=50)] = 5.0
    critical_margin: Annotated[Real, Field(ge=0, le=50)] = 3.0
    disk_free: Fraction = 0.02
    disk_free_bytes: Annotated[Integer, Field(ge=0, le=1 << 50)] = 256 * MIB
    memory_available: Fraction = 0.08
    memory_pressure: PositiveFraction = 0.2
    clock_step: Annotated[Real, Field(ge=0.01, le=3600)] = 0.5
    batteries: dict[Name, BatteryConfig] = Field(default_factory=dict, max_length=8)
    pose: PoseConfig | None = None
    map: MapConfig | None = None
    data_class: DataClass = DataClass.INTERNAL
    recorder: RecorderConfig = RecorderConfig()
    root: Text = "/"

    @model_validator(mode="after")
    def _hot_comes_first(self) -> "MonitorConfig":
        if self.hot is not None and self.critical is not None and self.hot >= self.critical:
            raise ValueError("hot must be less than critical")
        return self
