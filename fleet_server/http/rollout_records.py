"""What the API of rollouts is asked with and answers with, beside the records of the rooms themselves."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.protocol.release import Sha256
from fleet_server.rollouts.records import AssignmentView, RolloutId, RolloutSummary

Note = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ApproveRequest(_Request):
    """A person agrees to what a rollout waits for.

    Attributes:
        note: for the audit.
        accept: of a paused one: that its open stages may be let pass as they are, too.
        digest: of what the person looked at, `going_on.digest`; anything else than there is now is refused.
    """

    note: Note | None = None
    accept: bool = False
    digest: Sha256 | None = None


class WhyRequest(_Request):
    """Why a rollout is stopped: whoever comes next has to know."""

    reason: Note


class ResumeRequest(_Request):
    """A rollout that paused goes on; bad devices until now are excused.

    Attributes:
        accept: the open stage counts as passed, as it is.
    """

    accept: bool = False


class RolloutPage(BaseModel):
    """Rollouts, the newest first; `next` is the `before` of the following page, None on the last."""

    rollouts: list[RolloutSummary]
    next: RolloutId | None


class HistoryAnswer(BaseModel):
    """What a device was asked and what became of it, the newest first."""

    assignments: list[AssignmentView]


class RolloutHealthAnswer(BaseModel):
    """A rollout that is not over.

    Attributes:
        working: devices that are asked and not done; `stuck` ones stayed in a state for too long.
        waits_for_people: nothing goes on before somebody acts.
    """

    id: str
    name: str
    state: str
    since_ms: int
    working: int
    stuck: int
    waits_for_people: bool
