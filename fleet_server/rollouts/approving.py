"""Who has to agree to what, and who may: the name of an operator's token is a person.

An approval of going on is bound to what going on accepts (`accepting`), and counts for that alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sqlalchemy.engine import Connection

from fleet_server.rollouts.accepting import accepted
from fleet_server.rollouts.loaded import Loaded
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.states import Purpose, RolloutState
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


@dataclass(frozen=True, slots=True)
class Word:
    """One person's word.

    Attributes:
        digest: of what it accepts; None where it is about the whole rollout.
    """

    purpose: Purpose
    by: str
    digest: str | None


_WAITS = {
    RolloutState.AWAITING_APPROVAL: Purpose.START,
    RolloutState.PAUSED: Purpose.CONTINUE,
    RolloutState.HALTED: Purpose.ROLLBACK,
}
_GOES_ON = (Purpose.CONTINUE, Purpose.ACCEPT)


def purpose_of(rollout: Loaded, *, accept: bool) -> Purpose | None:
    """What an approval would be for now; None where none is waited for.

    Args:
        rollout: in any state.
        accept: whether open stages may be let pass.

    Raises:
        RolloutProblem: there is nothing to accept.
    """
    found = _WAITS.get(rollout.state)
    if not accept:
        return found
    if found is not Purpose.CONTINUE:
        raise RolloutProblem(
            RolloutProblemCode.WRONG_STATE,
            f"{rollout.id} is {rollout.state.value}: stages are let pass only where a rollout is paused",
        )
    return Purpose.ACCEPT


def needs(connection: Connection, rollout: Loaded) -> Purpose | None:
    """The approval that a rollout waits for; None where it waits for none, or has it."""
    purpose = _WAITS.get(rollout.state)
    if purpose is None or is_given(connection, rollout, purpose):
        return None
    return purpose


def is_given(connection: Connection, rollout: Loaded, purpose: Purpose) -> bool:
    """Whether somebody has agreed to it already, as it stands."""
    return bool(_counting(connection, rollout, purpose))


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
    given = run(connection, _GIVEN, rollout.number, 0)
    started = [row.by for row in given if Purpose(row.purpose) is Purpose.START]
    if approvals is Approvals.DISTINCT and purpose in _GOES_ON and by in started:
        raise RolloutProblem(
            RolloutProblemCode.NEEDS_ANOTHER_PERSON,
            f"{by} approved the start of {rollout.id}: another person has to approve that it goes on",
        )


def require_seen(connection: Connection, rollout: Loaded, purpose: Purpose, digest: str | None) -> None:
    """Refuse an approval of something else than there is now.

    Args:
        connection: of the act's transaction.
        rollout: as it is.
        purpose: of the approval.
        digest: of what the person looked at; None where they did not say.

    Raises:
        RolloutProblem: it has changed since.
    """
    if digest is not None and purpose in _GOES_ON and digest != accepted(connection, rollout).digest:
        raise RolloutProblem(
            RolloutProblemCode.CHANGED,
            f"{rollout.id} has changed since it was looked at: see fleet rollout status {rollout.id}, and approve "
            "what is there now",
        )


def require_word(
    connection: Connection, rollout: Loaded, purpose: Purpose, by: str, approvals: Approvals
) -> None:
    """Refuse an act to which nobody else has agreed.

    Raises:
        RolloutProblem: nobody has, or only who acts, or something else was agreed to.
    """
    people = {word.by for word in _counting(connection, rollout, purpose)}
    if not people:
        raise RolloutProblem(
            RolloutProblemCode.NEEDS_APPROVAL, _lacks(rollout, purpose, _since(connection, rollout))
        )
    if approvals is not Approvals.SINGLE and people == {by}:
        raise RolloutProblem(
            RolloutProblemCode.NEEDS_ANOTHER_PERSON,
            f"{by} approved this of {rollout.id}: another person has to act on it",
        )


def write(
    connection: Connection, rollout: Loaded, purpose: Purpose, *, by: str, note: str, now_ms: int
) -> str | None:
    """Write down that somebody agreed; the digest of what they agreed to, if it has one."""
    digest = accepted(connection, rollout).digest if purpose in _GOES_ON else None
    run(connection, _NEW, rollout.number, purpose.value, by[:64], now_ms, note[:300], digest)
    return digest


def _since(connection: Connection, rollout: Loaded) -> list[Word]:
    """What was agreed to since it last stopped."""
    rows = run(connection, _GIVEN, rollout.number, rollout.spent_approval)
    return [Word(Purpose(row.purpose), row.by, row.digest) for row in rows]


def _counting(connection: Connection, rollout: Loaded, purpose: Purpose) -> list[Word]:
    """The words that count for a purpose now: who let stages pass has also agreed to going on."""
    enough = _GOES_ON if purpose is Purpose.CONTINUE else (purpose,)
    words = [word for word in _since(connection, rollout) if word.purpose in enough]
    if not words or purpose not in _GOES_ON:
        return words
    digest = accepted(connection, rollout).digest
    return [word for word in words if word.digest == digest]


def _lacks(rollout: Loaded, purpose: Purpose, words: Sequence[Word]) -> str:
    command = f"fleet rollout approve {rollout.id}" + (" --accept" if purpose is Purpose.ACCEPT else "")
    agreed = ", ".join(sorted({word.by for word in words if word.purpose in _GOES_ON}))
    if purpose in _GOES_ON and agreed:
        other = any(word.purpose is purpose for word in words) or purpose is Purpose.CONTINUE
        said = "something has changed since" if other else "not to open stages being let pass"
        return f"{agreed} agreed to {rollout.id} going on, and {said}: another person has to approve it ({command})"
    return f"{rollout.id} is {rollout.state.value}: another person has to approve first ({command})"


_GIVEN = 'SELECT purpose, "by", digest FROM rollout_approvals WHERE rollout = ? AND id > ? ORDER BY id'
_NEW = 'INSERT INTO rollout_approvals (rollout, purpose, "by", at_ms, note, digest) VALUES (?, ?, ?, ?, ?, ?)'
