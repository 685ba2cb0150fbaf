"""What is shown of rollouts: exact records, for HTTP and the screen."""

from enum import Enum
from typing import Annotated

from pydantic import Field

from edge_runtime.protocol.release import ReleaseName, Sha256
from edge_runtime.protocol.update import LeftAs, SlotName, UpdateAction
from fleet_server.rollouts.plan_records import Record, RolloutPlan
from fleet_server.rollouts.states import Exclusion, MemberState, Purpose, ReasonCode, RolloutState, StageState

RolloutId = Annotated[str, Field(pattern=r"^r[1-9]\d{0,15}$")]


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
    """Who agreed to what.

    Attributes:
        digest: of what going on accepted then; None for a start or a rollback.
    """

    purpose: Purpose
    by: str
    at_ms: int
    note: str = ""
    digest: Sha256 | None = None


class GoingOn(Record):
    """What going on with a paused rollout accepts now.

    Attributes:
        digest: of all of it; an approval is good for this one alone.
        bad: devices that are excused.
        stages: from 1: open ones that have not passed, and would be let pass by `accept`.
    """

    digest: Sha256
    bad: int
    stages: tuple[int, ...]


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
        plan: None where it is of another build and this one does not read it; its stages are not shown then.
        needs: the approval that it waits for; None where it waits for none.
        going_on: what going on accepts; None where it is not paused.
        counts: devices of all stages by their state.
        rollback: devices of a rollback by their state; empty before one.
        left: what a rollback could not send back, by reason.
        codes: bad devices by the code that they reported.
    """

    plan: RolloutPlan | None
    sha256: Sha256
    started_ms: int | None
    ended_ms: int | None
    needs: Purpose | None
    going_on: GoingOn | None = None
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


class SlotView(Record):
    """What a slot of a device runs, as it last reported."""

    slot: SlotName
    sha256: Sha256 | None
    counter: int
    package: str | None
    reported_ms: int


class StepReport(Record):
    """What one step of the engine did."""

    acts: tuple[str, ...] = ()
    offered: int = 0
    signed: int = 0
    joined: int = 0
