"""What a person writes of a rollout, and what is shown of it: exact records, for files, HTTP and the screen."""

from enum import Enum
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from edge_runtime.protocol.release import (
    BUCKETS,
    Ratio,
    ReleaseKind,
    ReleaseName,
    Sha256,
    UnixMilliseconds,
    Word,
    canonical,
)
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.update import LeftAs, SlotName, UpdateAction, kind_of
from fleet_server.rollouts.states import Exclusion, MemberState, ReasonCode, RolloutState, StageState

MAX_STAGES = 32
MAX_DEVICE_VALUES = 10_000
MAX_VALUES = 64
MAX_VALUES_BYTES = 32 * 1024
"""Of the values of one device as canonical JSON: with all the rest they have room in a signed envelope."""

Seconds = Annotated[int, Field(ge=0, le=366 * 86_400)]
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,62}$")]
LabelText = Annotated[str, Field(pattern=r"^[A-Za-z0-9 _./:@+-]{0,64}$")]
Labels = Annotated[dict[LabelName, LabelText], Field(max_length=32)]
ValueName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Values = Annotated[dict[ValueName, str | int | float | bool], Field(max_length=MAX_VALUES)]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
TimeOfDay = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$|^24:00$")]
RolloutId = Annotated[str, Field(pattern=r"^r[1-9]\d{0,15}$")]


class Record(BaseModel):
    """Base of all: exact, and not changed once it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def canonical_text(self) -> str:
        """This record as sorted, compact JSON."""
        return canonical(self.model_dump(mode="json", exclude_none=True)).decode()


# --- what a person writes


class WeeklyWindow(Record):
    """Times of the week at which devices are offered a release.

    Attributes:
        begins, ends: local time of `zone`; a window whose end is not after its beginning goes on past midnight.
        zone: name of the time zone database; its clock changes are followed.
    """

    days: Annotated[tuple[Weekday, ...], Field(min_length=1, max_length=7)]
    begins: TimeOfDay
    ends: TimeOfDay
    zone: Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]{1,64}$")] = "UTC"

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{zone} is no time zone of this machine") from None
        return zone


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


class Deadlines(Record):
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
    deadlines: Deadlines = Deadlines()
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


def _require_room(values: Values, whose: str) -> None:
    """Have what one device is told fit into one signed assignment."""
    if len(values) > MAX_VALUES:
        raise ValueError(f"{whose}{len(values)} values; {MAX_VALUES} are the most")
    if (size := len(canonical(values))) > MAX_VALUES_BYTES:
        raise ValueError(f"{whose}values of {size} bytes; {MAX_VALUES_BYTES} are the most")


# --- what is shown


class StagePreview(Record):
    """What a stage would be.

    Attributes:
        number: from 1.
        devices: that it would have.
        opens_at_ms: the earliest time that plan and signed openings allow; None where nobody signed for it.
        shows: failure rate that a pass could at best exclude, with 95 % confidence, were no device bad.
    """

    number: int
    basis_points: int
    devices: int
    opens_at_ms: int | None
    shows: float


class PlanReport(Record):
    """What a plan would do, computed for this moment.

    Attributes:
        selected: devices that the selection names.
        eligible: those of them that would be part of it.
        excluded: the others, by reason.
        incompatible: by what did not fit (the word of `UpdateCode`).
        refusals: why it cannot be created as it is; empty where it can.
        warnings: what to know before.
        bytes: of downloads in all, were nothing of it on the devices yet.
    """

    plan: RolloutPlan
    target: str
    sha256: Sha256
    total_bytes: int
    selected: int
    eligible: int
    excluded: dict[Exclusion, int]
    incompatible: dict[str, int]
    stages: tuple[StagePreview, ...]
    bytes: int
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


class Verdict(str, Enum):
    """What the numbers of a stage say."""

    PASS = "pass"  # noqa: S105 - a word, not a secret
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    WAIT = "wait"


class StageVerdict(Record):
    """A stage's verdict, and how much it shows.

    Attributes:
        judged: devices with a verdict; `bad` of them are not well.
        reachable: devices of the stage that have not left the denominator.
        excused: bad devices that a person decided to go on in spite of; they are in no other number.
        upper_bound: the true share of bad devices is below this, with 95 % confidence (Clopper-Pearson, one-sided).
        text: one sentence for people.
    """

    verdict: Verdict
    judged: int
    bad: int
    reachable: int
    excused: int = 0
    upper_bound: float
    text: str


class StageView(Record):
    """A stage as it stands.

    Attributes:
        number: from 1.
        counts: devices by their state, those of which there are none left out.
        waits_for: what keeps it from opening or from passing, in one sentence; empty where nothing does.
    """

    number: int
    basis_points: int
    state: StageState
    opened_ms: int | None
    soaking_ms: int | None
    closed_ms: int | None
    devices: int
    counts: dict[MemberState, int]
    verdict: StageVerdict | None
    waits_for: str = ""


class ApprovalView(Record):
    """Who agreed to what: `start`, `continue` or `rollback`."""

    purpose: Literal["start", "continue", "rollback"]
    by: str
    at_ms: int
    note: str = ""


class RolloutSummary(Record):
    """A rollout in a list."""

    id: RolloutId
    name: str
    slot: SlotName
    release: ReleaseName
    counter: int
    state: RolloutState
    reason_code: ReasonCode
    reason: str
    author: str
    created_ms: int
    changed_ms: int
    stage: int | None
    stages: int


class RolloutView(RolloutSummary):
    """A rollout as it stands.

    Attributes:
        stage: the newest open one, from 1; None before the first.
        needs: the approval that it waits for; None where it waits for none.
        counts: devices of all stages by their state.
        rollback: devices of a rollback by their state; empty before one.
        left: what a rollback could not send back, by reason.
        codes: bad devices by the code that they reported.
    """

    plan: RolloutPlan
    sha256: Sha256
    started_ms: int | None
    ended_ms: int | None
    needs: Literal["start", "continue", "rollback"] | None
    approvals: tuple[ApprovalView, ...]
    devices: int
    counts: dict[MemberState, int]
    rollback: dict[MemberState, int]
    left: dict[str, int]
    codes: dict[str, int]
    stages_view: tuple[StageView, ...]


class AssignmentView(Record):
    """One assignment of one device, as its history shows it.

    Attributes:
        state: as the device last reported it, or what the server made of its silence.
        live: it is still what the device should do.
    """

    seq: int
    slot: SlotName
    action: UpdateAction | None
    rollout: RolloutId | None
    stage: int | None
    target: str | None
    sha256: Sha256 | None
    state: MemberState
    code: str | None
    text: str
    left: LeftAs | None
    decided_ms: int
    issued_ms: int | None
    changed_ms: int
    live: bool


class MembershipView(Record):
    """What one rollout has to do with a device.

    Attributes:
        part: whether the device is part of it.
        exclusion: why not.
        why: one sentence: what it waits for, what became of it, or why it is not part.
    """

    rollout: RolloutId
    name: str
    slot: SlotName
    rollout_state: RolloutState
    part: bool
    stage: int | None
    bucket: int
    state: MemberState | None
    code: str | None
    exclusion: Exclusion | None
    seq: int | None
    why: str


class SlotView(Record):
    """What a slot of a device runs, as it last reported."""

    slot: SlotName
    sha256: Sha256 | None
    counter: int
    package: str | None
    reported_ms: int


class DeviceExplanation(Record):
    """Why a device runs what it runs.

    Attributes:
        rollouts: the newest first, those that select the device or have it.
    """

    device: DeviceId
    slots: tuple[SlotView, ...]
    online: bool
    reported_ms: int | None
    rollouts: tuple[MembershipView, ...]


class StepReport(Record):
    """What one step of the engine did."""

    acts: tuple[str, ...] = ()
    offered: int = 0
    signed: int = 0
    joined: int = 0
