"""The words of a rollout: its own states, those of a stage, and those of a device in a stage."""

from enum import Enum

from edge_runtime.protocol.update import UpdateState


class RolloutState(str, Enum):
    """Where a rollout is.

    Attributes:
        AWAITING_APPROVAL: its devices are chosen and reserved, and another person has to agree.
        READY: agreed; it waits for `start` or for its time.
        RUNNING: devices are offered the release, stage by stage.
        PAUSED: no further device is offered it; those that have the offer go on.
        HALTED: as `PAUSED`, and every offer that is not yet in use is taken back.
        ROLLING_BACK: devices that took it are sent back to what they ran before.
        COMPLETED: every stage has passed; with `converge`, devices that come later get it too.
        ROLLED_BACK, CANCELLED: it has ended.
    """

    AWAITING_APPROVAL = "awaiting-approval"
    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    HALTED = "halted"
    ROLLING_BACK = "rolling-back"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled-back"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether its devices are free for other rollouts."""
        return self in _OVER

    def may_become(self, other: "RolloutState") -> bool:
        """Whether there is a way from this state to another one."""
        return other in _WAYS[self]


class Purpose(str, Enum):
    """What an approval is for.

    Attributes:
        CONTINUE: going on; bad devices until then are excused, and open stages have to pass by themselves.
        ACCEPT: the same, and open stages may be let pass as they are.
    """

    START = "start"
    CONTINUE = "continue"
    ACCEPT = "accept"
    ROLLBACK = "rollback"


_OVER = frozenset({RolloutState.COMPLETED, RolloutState.ROLLED_BACK, RolloutState.CANCELLED})
_WAYS: dict[RolloutState, frozenset[RolloutState]] = {
    RolloutState.AWAITING_APPROVAL: frozenset({RolloutState.READY, RolloutState.CANCELLED}),
    RolloutState.READY: frozenset({RolloutState.RUNNING, RolloutState.CANCELLED}),
    RolloutState.RUNNING: frozenset(
        {RolloutState.PAUSED, RolloutState.HALTED, RolloutState.ROLLING_BACK, RolloutState.COMPLETED}
        | {RolloutState.CANCELLED}
    ),
    RolloutState.PAUSED: frozenset(
        {RolloutState.RUNNING, RolloutState.HALTED, RolloutState.ROLLING_BACK, RolloutState.CANCELLED}
    ),
    RolloutState.HALTED: frozenset({RolloutState.ROLLING_BACK, RolloutState.CANCELLED}),
    RolloutState.ROLLING_BACK: frozenset({RolloutState.ROLLED_BACK}),
    RolloutState.COMPLETED: frozenset({RolloutState.PAUSED}),  # a late report, or a revocation, reopened it
    RolloutState.ROLLED_BACK: frozenset(),
    RolloutState.CANCELLED: frozenset(),
}


class StageState(str, Enum):
    """Where a stage is.

    Attributes:
        PENDING: not yet open.
        OPEN: its devices are offered the release.
        SOAKING: enough of them are well; they have to stay so for a while.
        PASSED: the next stage may open.
        FAILED: too many are not well.
        INCONCLUSIVE: the wait is over and too few have said anything.
    """

    PENDING = "pending"
    OPEN = "open"
    SOAKING = "soaking"
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"

    @property
    def is_open(self) -> bool:
        """Whether its devices may be offered the release, as far as the stage has a say."""
        return self is not StageState.PENDING


class MemberState(str, Enum):
    """Where a device is with what a rollout asks of it.

    Attributes:
        PENDING: chosen; nothing has been asked of it.
        ASSIGNED: a sequence number is given to what it is asked; the signature follows.
        OFFERED: signed, and on its way to the device.
        ACCEPTED to PROBATION: as the device says.
        HEALTHY, REVERTED, REFUSED: as the device says, for good.
        STUCK: it stayed in a state for longer than the plan allows.
        SUPERSEDED, WITHDRAWN: something newer took its place, or it was taken back.
        UNREACHABLE: it has not been there for longer than the plan waits.
        DECOMMISSIONED: it was revoked or removed.
    """

    PENDING = "pending"
    ASSIGNED = "assigned"
    OFFERED = "offered"
    ACCEPTED = "accepted"
    DOWNLOADING = "downloading"
    VERIFIED = "verified"
    STAGED = "staged"
    WAITING = "waiting"
    ACTIVATING = "activating"
    PROBATION = "probation"
    HEALTHY = "healthy"
    REVERTED = "reverted"
    REFUSED = "refused"
    STUCK = "stuck"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"
    UNREACHABLE = "unreachable"
    DECOMMISSIONED = "decommissioned"

    @classmethod
    def of(cls, state: UpdateState) -> "MemberState":
        """The same word for what a device reported."""
        return cls(state.value)


WORKING = (
    MemberState.ASSIGNED,
    MemberState.OFFERED,
    MemberState.ACCEPTED,
    MemberState.DOWNLOADING,
    MemberState.VERIFIED,
    MemberState.STAGED,
    MemberState.WAITING,
    MemberState.ACTIVATING,
    MemberState.PROBATION,
)
"""Asked, and not done: they count against `max_in_flight`."""

BAD = (MemberState.REVERTED, MemberState.REFUSED, MemberState.STUCK)
"""They count against the release."""

APART = (
    MemberState.SUPERSEDED,
    MemberState.WITHDRAWN,
    MemberState.UNREACHABLE,
    MemberState.DECOMMISSIONED,
)
"""They say nothing about the release, and leave the denominator."""


class ReasonCode(str, Enum):
    """Why a rollout stands where it stands."""

    ASKED = "asked"
    STAGE_FAILED = "stage-failed"
    STAGE_INCONCLUSIVE = "stage-inconclusive"
    REOPENED = "reopened"
    RELEASE_REVOKED = "release-revoked"
    UNREADABLE = "unreadable"
    SCHEDULED = "scheduled"
    DONE = "done"


class Exclusion(str, Enum):
    """Why a device that fits the selection is not part of a rollout."""

    ALREADY_RUNNING = "already-running"
    NEWER_RUNS = "newer-runs"
    INCOMPATIBLE = "incompatible"
    BUSY = "busy"
    REVOKED = "revoked"
    NOT_APPROVED = "not-approved"
    NEVER_SEEN = "never-seen"
    NO_SUCH_SLOT = "no-such-slot"
    NO_STAGE = "no-stage"
