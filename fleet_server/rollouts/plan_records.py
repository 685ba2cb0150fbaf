"""What a person writes of a rollout: exact records, for files, HTTP and the database."""

from datetime import time
from enum import Enum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from edge_runtime.protocol.release import (
    BUCKETS,
    Ratio,
    ReleaseKind,
    ReleaseName,
    UnixMilliseconds,
    Word,
    canonical,
)
from edge_runtime.protocol.release_values import MAX_VALUES, Values
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.update import SlotName, kind_of
from edge_runtime.protocol.windows import Window, Windows, zone_of

MAX_STAGES = 32
MAX_DEVICE_VALUES = 10_000
MAX_VALUES_BYTES = 32 * 1024
"""Of the values of one device as canonical JSON: with all the rest they have room in a signed envelope."""

Seconds = Annotated[int, Field(ge=0, le=366 * 86_400)]
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,62}$")]
LabelText = Annotated[str, Field(pattern=r"^[A-Za-z0-9 _./:@+-]{0,64}$")]
Labels = Annotated[dict[LabelName, LabelText], Field(max_length=32)]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
TimeOfDay = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


class Record(BaseModel):
    """Base of all: exact, and not changed once it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def canonical_text(self) -> str:
        """This record as sorted, compact JSON."""
        return canonical(self.model_dump(mode="json", exclude_none=True)).decode()


class WeeklyWindow(Record):
    """Times of the week at which devices are offered a release.

    Attributes:
        days: on which it starts; empty means all.
        start, end: local times of `time_zone`; an end that is not after the start is of the next day.
        time_zone: by its name in the database of zones; `protocol.windows` says what its clock changes do.
    """

    days: Annotated[tuple[Weekday, ...], Field(max_length=7)] = ()
    start: TimeOfDay
    end: TimeOfDay
    time_zone: Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]{1,64}$")] = "UTC"

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        zone_of(name)
        return name

    @model_validator(mode="after")
    def _lasts(self) -> "WeeklyWindow":
        _ = self.window
        return self

    @property
    def window(self) -> Window:
        """The same, to be asked whether it is open."""
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        return Window(self.days, start, end, zone_of(self.time_zone))


class StageRules(Record):
    """When a stage has passed and when it has failed, over the devices that have a verdict.

    Attributes:
        min_devices: fewer verdicts pass no stage, and fail one only by `max_bad`.
        min_share: of the devices that can be reached, so many must have a verdict.
        max_bad: so many bad devices fail the stage, however few have a verdict; None is no bound.
        max_bad_share: more than this share of bad ones fails it.
        soak_s: for so long all of this must hold before the stage passes.
        max_wait_s: after this, with too few verdicts, it is inconclusive; only time within windows counts.
    """

    min_devices: Annotated[int, Field(ge=1)] = 1
    min_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    max_bad: Annotated[int, Field(ge=1)] | None = None
    max_bad_share: Ratio = 0.05
    soak_s: Seconds = 3600
    max_wait_s: Annotated[int, Field(ge=1, le=366 * 86_400)] = 2 * 86_400


class StagePlan(Record):
    """One step of a rollout. A device belongs to the first stage that takes it.

    Attributes:
        basis_points: of the spread over 10,000 buckets by the release's salt; a stage has the devices below.
        labels, hardware: that a device of this stage has beside; nothing asks for nothing.
        not_before_ms: the stage opens no sooner; what the release's signed openings say holds anyhow.
    """

    basis_points: Annotated[int, Field(ge=1, le=BUCKETS)] = BUCKETS
    labels: Labels = Field(default_factory=dict)
    hardware: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    not_before_ms: UnixMilliseconds | None = None
    rules: StageRules = StageRules()


class MemberDeadlines(Record):
    """For how long a device may stay in a state, in seconds.

    A device that is away then has become unreachable while nothing of it is in use yet, and counts for nothing;
    one that is there is stuck, and so is every one that vanished while it activated or was on probation.

    A device ends each of these states by itself, and says so; the default is a little longer than the device's own
    limit. What the release's signed terms allow for `staged_s` and `probation_s` is allowed in any case.
    """

    offered_s: Seconds = 3600
    accepted_s: Seconds = 3600
    downloading_s: Seconds = 25 * 3600
    verified_s: Seconds = 7 * 3600
    staged_s: Seconds = 4 * 3600
    waiting_s: Seconds = 15 * 86_400
    activating_s: Seconds = 900
    probation_s: Seconds = 3 * 3600
    unreachable_s: Seconds = 86_400
    """A device that was never there since its stage opened is given up after this."""


class Pacing(Record):
    """How fast devices are asked.

    Attributes:
        max_in_flight: devices of this rollout that are asked and not done.
        bytes_per_hour: of downloads, were nothing of the release on the devices yet; None is no bound.
    """

    max_in_flight: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    bytes_per_hour: Annotated[int, Field(ge=1)] | None = None


class OnFail(str, Enum):
    """What the engine does by itself where a stage fails."""

    PAUSE = "pause"
    HALT = "halt"
    ROLLBACK = "rollback"


class RolloutPlan(Record):
    """A rollout as a person writes it.

    Attributes:
        slot: of the devices: a model's name in their configuration, or `configuration`.
        release, counter: of the release, as it was published.
        labels, hardware: that every device of the rollout has.
        start_at_ms: it starts by itself then, once it is approved; None waits for `start`.
        windows: devices are offered it within them only; none is always.
        converge: once it is completed, devices that fit and come later get it too.
        values: of a configuration, for all devices; `device_values` for one, which stand above. Both together
            are 64 values and 32 KiB of canonical JSON for a device at most.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:/-]{0,63}$")]
    slot: SlotName
    release: ReleaseName
    counter: Annotated[int, Field(ge=1, lt=1 << 53)]
    labels: Labels = Field(default_factory=dict)
    hardware: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    stages: Annotated[tuple[StagePlan, ...], Field(min_length=1, max_length=MAX_STAGES)]
    on_fail: OnFail = OnFail.HALT
    pacing: Pacing = Pacing()
    deadlines: MemberDeadlines = MemberDeadlines()
    start_at_ms: UnixMilliseconds | None = None
    windows: Annotated[tuple[WeeklyWindow, ...], Field(max_length=16)] = ()
    converge: bool = True
    values: Values = Field(default_factory=dict)
    device_values: Annotated[dict[DeviceId, Values], Field(max_length=MAX_DEVICE_VALUES)] = Field(
        default_factory=dict
    )
    notes: Annotated[str, Field(max_length=500)] = ""

    @model_validator(mode="after")
    def _whole(self) -> "RolloutPlan":
        shares = [stage.basis_points for stage in self.stages]
        if shares != sorted(shares):
            raise ValueError("stages must not shrink")
        if (self.values or self.device_values) and self.kind is not ReleaseKind.CONFIGURATION:
            raise ValueError("only a configuration has values")
        _require_room(self.values, "")
        for device, own in self.device_values.items():
            _require_room({**self.values, **own}, f"{device} would have ")
        return self

    @property
    def kind(self) -> ReleaseKind:
        """Of the release that the slot takes."""
        return kind_of(self.slot)

    @property
    def calendar(self) -> Windows:
        """Its windows, to be asked."""
        return Windows(tuple(one.window for one in self.windows))


def _require_room(values: Values, whose: str) -> None:
    """Have what one device is told fit into one signed assignment."""
    if len(values) > MAX_VALUES:
        raise ValueError(f"{whose}{len(values)} values; {MAX_VALUES} are the most")
    if (size := len(canonical(values))) > MAX_VALUES_BYTES:
        raise ValueError(f"{whose}values of {size} bytes; {MAX_VALUES_BYTES} are the most")
