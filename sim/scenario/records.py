"""What a scenario's file says, as frozen records that refuse what they do not know."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from edge_runtime.guard.conditions import Condition

Rig = Literal["sim", "local"]
Seconds = Annotated[float, Field(ge=0, le=100 * 86400, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, le=100 * 86400, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,47}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]

Protection = Literal[
    "camera_watch",
    "content_check",
    "health_watch",
    "governor",
    "outbox",
    "receipts",
    "unique_keys",
    "boot_clock",
    "policy_gate",
    "lease",
    "guard",
    "worker_watch",
    "service_manager",
    "server_identity",
    "renewal",
    "probation",
    "journal",
]
"""What a rig can do without, to see that a scenario notices; `sim.scenario.protections` says which rig, and how.

    camera_watch: the conditions of cameras. content_check: pictures are looked at for being dark or frozen.
    health_watch: the conditions of the monitor. governor: the thermal governor.
    outbox: events wait in it; without it they are sent at once, or never. receipts: an event is settled by the
    server's receipt; without them, by being sent. unique_keys: the server accepts a key once.
    boot_clock: ages are measured by a clock that nobody sets. policy_gate: the policy's decision is obeyed.
    lease: the permission to move ends by itself. guard: commands pass the motion gate.
    worker_watch: the guard watches its processes. service_manager: a guard that ended is started again.
    server_identity: the uplink speaks to its fleet's server and to nobody else.
    renewal: a certificate that has ended is still good for a new one.
    probation: what perception counts of a new release is judged.
    journal: what a slot runs is on the disk before it runs.
"""

Missed = dict[Protection, Annotated[tuple[Name, ...], Field(min_length=1)]]
Reason = Annotated[str, Field(min_length=20, max_length=300)]

State = Literal["INIT", "STANDBY", "NOMINAL", "DEGRADED", "STOPPED", "SAFE", "RECOVERY", "LOCKOUT"]


class Record(BaseModel):
    """Frozen, and nothing that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class World(Record):
    """What stands before the camera; everything in it follows from the seed.

    Attributes:
        seed: another one is another day at the same place.
        people, vehicles, pallets: how many move about, or along the line.
        weather: what falls between the camera and the scene.
        night: 0 is day, 1 is a moonless night without lamps.
        dirt: share of the lens that is dirty.
        exposure: stops above or below the right one.
        shake: pixels by which the picture trembles.
    """

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    people: Annotated[int, Field(ge=0, le=20)] = 2
    vehicles: Annotated[int, Field(ge=0, le=10)] = 1
    pallets: Annotated[int, Field(ge=0, le=20)] = 0
    weather: Literal["clear", "rain", "snow", "fog"] = "clear"
    night: Share = 0.0
    dirt: Share = 0.0
    exposure: Annotated[float, Field(ge=-6, le=6)] = 0.0
    shake: Annotated[float, Field(ge=0, le=40)] = 0.0


class DeviceSpec(Record):
    """The device.

    Attributes:
        body: a camera on a wall, or the example cart of deploy/bodies, which drives.
        camera_fps: pictures a second in rig `sim`; 0 for a device whose camera plays no part.
        local_fps: pictures a second in rig `local`, which always has a camera: two busy cores have to keep up.
        battery: charge that it starts with; None for mains.
        battery_lasts: seconds from full to empty.
        pose: whether its adapter reports pose and map.
        heat: a board in a box that gets hot, and that works as hard as frames need; rig `sim`.
        updates: it takes releases of models.
        air: degrees Celsius around it at the start and after `warms` seconds.
        warms: how long the air takes.
        events_per_minute: of a steady load beside what the camera sees.
        event_ttl: seconds that such an event is worth anything.
    """

    body: Literal["camera", "cart"] = "camera"
    camera_fps: Annotated[float, Field(ge=0, le=30)] = 10.0
    local_fps: Annotated[float, Field(gt=0, le=2)] = 2.0
    battery: Share | None = None
    battery_lasts: PositiveSeconds = 7200.0
    pose: bool = False
    heat: bool = False
    updates: bool = False
    air: tuple[Number, Number] = (25.0, 25.0)
    warms: PositiveSeconds = 1200.0
    events_per_minute: Annotated[float, Field(ge=0, le=6000)] = 0.0
    event_ttl: PositiveSeconds = 30 * 86400.0


class Fault(Record):
    """One thing that goes wrong, or is put right again at its end.

    Attributes:
        name: for expectations.
        at: seconds from the moment in which the device works.
        lasts: seconds; None to the end, or for what happens in a moment.
        unit, kind: what goes wrong and how: see `sim.scenario.faults`.
        amount: see there.
    """

    name: Name
    at: Seconds
    lasts: PositiveSeconds | None = None
    unit: Name
    kind: Name
    amount: Number | None = None


class Expectation(Record):
    """What has to be measured.

    Attributes:
        measure: see `sim.scenario.measures`.
        after: name of the fault that a time is counted from.
        states: of the guard, for measures about states.
        condition: of the guard's catalogue, for measures about one.
        at_least, at_most: limits, both included; at least one of them.
        unit: of the limits and of what is measured.
        rigs: where it is expected; wherever the scenario runs without it.
    """

    measure: Name
    after: Name | None = None
    states: tuple[State, ...] = ()
    condition: Condition | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    unit: str
    rigs: tuple[Rig, ...] = ()

    @model_validator(mode="after")
    def _limited(self) -> "Expectation":
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs at_least or at_most: what has no limit cannot fail")
        return self


class Scenario(Record):
    """The whole file.

    Attributes:
        name: that of the file.
        title: one line.
        about: why it matters.
        rigs: where it can be run.
        duration: seconds from the moment in which the device works.
        step: seconds of simulated time at once, in rig `sim`; a long scenario without a moving body takes more.
        protections: by rig, and for each protection that the rig can do without, the measures of which an
            expectation has to fail then.
        not_on: rigs in which it is not run, and why not.
        no_mutant_on: rigs in which nothing can be taken away that it needs, and why not.
        world, device, fault, expect: see their records.
    """

    name: Name
    title: str
    about: str
    rigs: Annotated[tuple[Rig, ...], Field(min_length=1)]
    duration: PositiveSeconds
    step: Annotated[float, Field(ge=0.005, le=60)] = 0.01
    protections: dict[Rig, Missed] = Field(default_factory=dict)
    not_on: dict[Rig, Reason] = Field(default_factory=dict)
    no_mutant_on: dict[Rig, Reason] = Field(default_factory=dict)
    world: World = World()
    device: DeviceSpec = DeviceSpec()
    fault: Annotated[tuple[Fault, ...], Field(min_length=1)]
    expect: Annotated[tuple[Expectation, ...], Field(min_length=1)]
