"""What a simulated device's monitor sees: readings out of the machine's tree, the adapters' word, a judgement."""

from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.monitor import BatteryConfig, MapConfig, MonitorConfig, PoseConfig
from edge_runtime.faults.health import HealthFaults
from edge_runtime.monitor.conditions import Judgement, Memory, evaluate, evaluated_by
from edge_runtime.monitor.readings import Pose, Readings
from edge_runtime.monitor.sampling import HostSample, HostSampler, wall_offset_ns
from sim.simulated.clock import SimClock
from sim.simulated.machine import BATTERY, VirtualMachine

LOOK_NS, MEASURE_NS = NS_PER_S // 5, NS_PER_S
MAP_S = 30.0


@dataclass(slots=True)
class Monitor:
    """One device's monitor.

    Attributes:
        clock: of the device.
        machine: what it runs on.
        state: a folder on a real disk, whose fill is what the disk's reading says.
        faults: of the fault injector.
        pose: whether the body has a pose and a map, and an adapter for them.
        speaks: the adapter reports.
        maps: it reports new maps.
        map_ns: when the newest map was built.
        judged: what holds; None before the first look.
    """

    clock: SimClock
    machine: VirtualMachine
    state: Path
    faults: HealthFaults
    pose: bool
    speaks: bool = True
    maps: bool = True
    map_ns: int | None = None
    judged: Judgement | None = None
    _memory: Memory = field(default_factory=Memory)
    _sample: HostSample | None = None
    _measured_ns: int = 0
    _looked_ns: int = 0
    _pose: Pose | None = None
    _settings: MonitorConfig = field(init=False)
    _sampler: HostSampler = field(init=False)

    def __post_init__(self) -> None:
        batteries = {} if self.machine.charge is None else {BATTERY: BatteryConfig(supply=BATTERY)}
        self._settings = MonitorConfig(
            batteries=batteries,
            pose=PoseConfig() if self.pose else None,
            map=MapConfig(max_age=MAP_S) if self.pose else None,
            disk_free=0.0,
            disk_free_bytes=1 << 20,
            memory_available=0.0,
        )
        self._sampler = HostSampler(self.clock, {"state": self.state}, batteries, self.machine.root)

    def step(self) -> None:
        """Look, where it is due."""
        now_ns = self.clock.now_ns
        if self.speaks and self.pose:
            self._pose = Pose(now_ns, 0.05)
            if self.maps:
                self.map_ns = now_ns
        if self.judged is not None and now_ns - self._looked_ns < LOOK_NS:
            return
        self._looked_ns = now_ns
        if self._sample is None or now_ns - self._measured_ns >= MEASURE_NS:
            self.machine.show()
            self._sample, self._measured_ns = self._sampler.look(), now_ns
        sample = self._sample
        readings = Readings(
            disks=sample.disks,
            memory=sample.memory,
            memory_full_percent=sample.memory_full_percent,
            temperatures=sample.temperatures,
            throttled=sample.throttled,
            batteries=sample.batteries,
            pose=self._pose,
            map_built_ns=self.map_ns,
            wall_offset_ns=wall_offset_ns(self.clock),
        )
        readings = self.faults.applied(now_ns, readings)
        self.judged = evaluate(now_ns, readings, self._settings, self._memory)
        self._memory = self.judged.memory

    @property
    def looks_at(self) -> int:
        """Mask of the conditions that it evaluates."""
        return evaluated_by(self._settings)
