"""One assignment that this device has taken up, as its journal keeps it."""

from typing import Annotated

from pydantic import Field

from edge_runtime.protocol.release import ReleaseTerms, Sha256
from edge_runtime.protocol.update import (
    Assignment,
    LeftAs,
    Running,
    SlotName,
    UpdateAction,
    UpdateCode,
    UpdateState,
)
from edge_runtime.updates.machine.moment import Milliseconds, Moment, OnDisk
from edge_runtime.updates.machine.observed import InUse

Number = Annotated[int, Field(ge=0, lt=1 << 53)]
Text = Annotated[str, Field(max_length=300)]


class Before(OnDisk):
    """What ran before an activation, to which the time after it is held; or when a candidate was put beside it.

    Attributes:
        process, guard: of perception and of the guard then.
        seconds, frames, unanswered, nonfinite, events: of what ran, while it ran.
        latency_p95_ms, celsius: then; None where unknown.
    """

    process: Annotated[str, Field(max_length=128)] = ""
    guard: Annotated[str, Field(max_length=128)] = ""
    seconds: Annotated[float, Field(ge=0)] = 0.0
    frames: Number = 0
    unanswered: Number = 0
    nonfinite: Number = 0
    events: Number = 0
    latency_p95_ms: Annotated[float, Field(ge=0)] | None = None
    celsius: float | None = None

    @classmethod
    def of(cls, in_use: InUse, guard: str, celsius: float | None) -> "Before":
        """What is in use now."""
        return cls(
            process=in_use.process,
            guard=guard,
            seconds=in_use.seconds,
            frames=in_use.frames,
            unanswered=in_use.unanswered,
            nonfinite=in_use.nonfinite,
            events=in_use.events,
            latency_p95_ms=in_use.latency_p95_ms,
            celsius=in_use.celsius if in_use.celsius is not None else celsius,
        )


class Work(OnDisk):
    """An assignment and how far this device is with it.

    Attributes:
        order: in which works were taken up; given by the journal.
        terms: of the release; None for `HOLD`.
        back: it leads back to a release that the people who signed what runs allowed, as its admission found.
        entered: when its present state began.
        code, text: why it waits, or ended.
        report_no: of its terminal report, chosen when the end was decided.
        previous: what the slot ran when it was taken up.
        begun: the release may have been put on trial; an end that is not `HEALTHY` has to take it back.
        shadowed: it has run beside the one in use for as long as its terms want.
        shadow_celsius: of the hottest zone when that began.
        before: what ran when it was put beside it, and from its activation on, what ran before that.
        failures, failed, wait_ms: errands that failed in a row, when the last did, and how long to leave it alone.
        starts: of this process in a row that found it in this state.
        losses: candidates that were lost with perception's process when that crashed.
        moves: changes of state.
    """

    assignment: Assignment
    order: Number = 0
    terms: ReleaseTerms | None = None
    back: bool = False
    state: UpdateState = UpdateState.ACCEPTED
    entered: Moment
    code: UpdateCode | None = None
    text: Text = ""
    report_no: Number | None = None
    previous: Running = Running()
    begun: bool = False
    shadowed: bool = False
    shadow_celsius: float | None = None
    before: Before | None = None
    failures: Number = 0
    failed: Moment | None = None
    wait_ms: Milliseconds = 0
    starts: Number = 0
    losses: Number = 0
    moves: Number = 0

    @property
    def seq(self) -> int:
        """Of the assignment."""
        return self.assignment.seq

    @property
    def slot(self) -> str:
        """The slot it is about."""
        return self.assignment.slot

    @property
    def release(self) -> str | None:
        """SHA-256 of the bundle; None for `HOLD`."""
        return self.assignment.sha256

    @property
    def goes_back(self) -> bool:
        """Whether the fleet takes something back, which is more urgent than anything new.

        The assignment's own word does not count: a stolen director's key would spare a new release its shadow run.
        """
        return self.back

    def to(self, state: UpdateState, now: Moment, code: UpdateCode | None = None, text: str = "") -> "Work":
        """This work in another state, or in the same for another reason."""
        moved = state is not self.state
        return self.model_copy(
            update={
                "state": state,
                "entered": now if moved else self.entered,
                "code": code,
                "text": text[:300],
                "failures": 0 if moved else self.failures,
                "failed": None if moved else self.failed,
                "wait_ms": 0 if moved else self.wait_ms,
                "starts": 0 if moved else self.starts,
                "moves": self.moves + moved,
            }
        )


class Ended(OnDisk):
    """An assignment that came to its end, for people and against repeats.

    Attributes:
        order: in which it was taken up; 0 where that was not written down.
        sha256, target: of the release; None for `HOLD`.
        report_no: of its terminal report.
        at_ms: by the wall clock.
    """

    seq: Number
    order: Number = 0
    slot: SlotName
    action: UpdateAction
    state: UpdateState
    code: UpdateCode | None = None
    text: Text = ""
    left: LeftAs
    sha256: Sha256 | None = None
    target: Annotated[str, Field(max_length=200)] | None = None
    rollout: Annotated[str, Field(max_length=64)] | None = None
    report_no: Number
    at_ms: Milliseconds
