"""Who has to agree to what, and who may: the name of an operator's token is a person."""

from enum import Enum

from sqlalchemy.engine import Connection

from fleet_server.rollouts.loaded import Loaded
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.states import RolloutState
from fleet_server.storage.writing import run


class Approvals(str, Enum):
    """How far the people of a rollout have to be different ones.

    Attributes:
        SEPARATE: its author approves nothing of it, and nobody has it go on by an approval of their own.
        DISTINCT: nor does one person approve its start and its going on.
        SINGLE: one person may do it all; for a team of one.
    """

    SEPARATE = "separate"
    DISTINCT = "distinct"
    SINGLE = "single"


class Purpose(str, Enum):
    """What an approval is for."""

    START = "start"
    CONTINUE = "continue"
    ROLLBACK = "rollback"


_WAITS = {
    RolloutState.AWAITING_APPROVAL: Purpose.START,
    RolloutState.PAUSED: Purpose.CONTINUE,
    RolloutState.HALTED: Purpose.ROLLBACK,
}


def needs(connection: Connection, rollout: Loaded) -> Purpose | None:
    """The approval that a rollout waits for; None where it waits for none, or has it."""
    purpose = _WAITS.get(rollout.state)
    if purpose is None or given(connection, rollout, purpose):
        return None
    return purpose


def given(connection: Connection, rollout: Loaded, purpose: Purpose) -> list[str]:
    """Who agreed to it since it last stopped."""
    rows = run(connection, _GIVEN, rollout.number, purpose.value, rollout.spent_approval)
    return [row.by for row in rows]


def require_other(
    connection: Connection, rollout: Loaded, purpose: Purpose, by: str, approvals: Approvals
) -> None:
    """Refuse an approval by somebody who may not give it.

    Raises:
        RolloutProblem: another person has to.
    """
    if approvals is Approvals.SINGLE:
        return
    if by == rollout.author:
        raise RolloutProblem(
            RolloutProblemCode.NEEDS_ANOTHER_PERSON,
            f"{by} made {rollout.id}: another person has to approve it",
        )
    started = [row.by for row in run(connection, _GIVEN, rollout.number, Purpose.START.value, 0)]
    if approvals is Approvals.DISTINCT and purpose is Purpose.CONTINUE and by in started:
        raise RolloutProblem(
            RolloutProblemCode.NEEDS_ANOTHER_PERSON,
            f"{by} approved the start of {rollout.id}: another person has to approve that it goes on",
        )


def require_word(
    connection: Connection, rollout: Loaded, purpose: Purpose, by: str, approvals: Approvals
) -> None:
    """Refuse an act to which nobody else has agreed.

    Raises:
        RolloutProblem: nobody has, or only who acts.
    """
    people = given(connection, rollout, purpose)
    if not people:
        raise RolloutProblem(
            RolloutProblemCode.NEEDS_APPROVAL,
            f"{rollout.id} is {rollout.state.value}: another person has to approve first (fleet rollout approve)",
        )
    if approvals is not Approvals.SINGLE and set(people) == {by}:
        raise RolloutProblem(
            RolloutProblemCode.NEEDS_ANOTHER_PERSON,
            f"{by} approved this of {rollout.id}: another person has to act on it",
        )


def write(
    connection: Connection, rollout: Loaded, purpose: Purpose, *, by: str, note: str, now_ms: int
) -> None:
    """Write down that somebody agreed."""
    run(connection, _NEW, rollout.number, purpose.value, by[:64], now_ms, note[:300])


_GIVEN = 'SELECT "by" FROM rollout_approvals WHERE rollout = ? AND purpose = ? AND id > ? ORDER BY id'
_NEW = 'INSERT INTO rollout_approvals (rollout, purpose, "by", at_ms, note) VALUES (?, ?, ?, ?, ?)'
