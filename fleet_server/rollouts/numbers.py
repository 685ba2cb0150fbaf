"""Numbers of rollouts for a monitoring system and for `fleet health`: counted from the rows, all at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleet_server.rollouts.states import WORKING, MemberState, ReasonCode, RolloutState, StageState
from fleet_server.storage.release_tables import MetadataRow
from fleet_server.storage.rollout_tables import AssignmentRow, DesiredRow, MemberRow, RolloutRow, StageRow

NOT_OVER = tuple(state for state in RolloutState if not state.is_over)
_WAIT_FOR_PEOPLE = (
    RolloutState.AWAITING_APPROVAL,
    RolloutState.PAUSED,
    RolloutState.HALTED,
)
_MOST = 100


@dataclass(frozen=True, slots=True)
class Queue:
    """Something that waits to be done by the server itself.

    Attributes:
        waiting: how many.
        oldest_ms: since when the oldest waits, milliseconds since 1970; None where nothing waits.
    """

    waiting: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class SignedFor:
    """The newest signed metadata of one role, and when it was published, milliseconds since 1970."""

    version: int
    published_ms: int


@dataclass(frozen=True, slots=True)
class OpenRollout:
    """A rollout that is not over, with its devices by state.

    Attributes:
        since_ms: when it came into its state.
        code, reason: why it stands there, for programs and for people.
    """

    rollout: str
    name: str
    state: RolloutState
    since_ms: int
    code: ReasonCode
    reason: str
    devices: Mapping[MemberState, int]

    @property
    def waits_for_people(self) -> bool:
        """Whether nothing goes on before somebody acts."""
        return self.state in _WAIT_FOR_PEOPLE

    @property
    def stuck(self) -> int:
        """Devices that stayed in a state for longer than the plan allows."""
        return self.devices.get(MemberState.STUCK, 0)

    @property
    def working(self) -> int:
        """Devices that are asked and not done."""
        return sum(self.devices.get(state, 0) for state in WORKING)


@dataclass(frozen=True, slots=True)
class RolloutNumbers:
    """Everything.

    Attributes:
        rollouts: all there ever were, by state; a state that none is in is 0, so that an alert has a series.
        stages: of all of them, by state: how often each verdict was given.
        open: rollouts that are not over, the oldest first, at most 100.
        unsigned: assignments that were decided and are not signed.
        unpublished: devices whose desired state was not yet handed to the broker.
        metadata: by role.
    """

    rollouts: Mapping[RolloutState, int]
    stages: Mapping[StageState, int]
    open: tuple[OpenRollout, ...]
    unsigned: Queue
    unpublished: Queue
    metadata: Mapping[str, SignedFor]


def rollout_numbers(session: Session) -> RolloutNumbers:
    """Count.

    Args:
        session: that sees one state of the database.
    """
    rollouts = {RolloutState(state): count for state, count in _by(session, RolloutRow.state)}
    stages = {StageState(state): count for state, count in _by(session, StageRow.state)}
    unsigned = select(func.count(), func.min(AssignmentRow.decided_ms)).where(
        AssignmentRow.live, AssignmentRow.sealed.is_(None)
    )
    queued = select(func.count(), func.min(DesiredRow.changed_ms)).where(DesiredRow.state == "queued")
    return RolloutNumbers(
        rollouts={state: rollouts.get(state, 0) for state in RolloutState},
        stages={state: stages.get(state, 0) for state in StageState},
        open=_open(session),
        unsigned=Queue(*session.execute(unsigned).one()),
        unpublished=Queue(*session.execute(queued).one()),
        metadata=signed_metadata(session),
    )


def signed_metadata(session: Session) -> dict[str, SignedFor]:
    """The newest published metadata of each role; empty before the ceremony of the keys."""
    newest = select(MetadataRow.role, func.max(MetadataRow.version).label("version")).group_by(
        MetadataRow.role
    )
    wanted = newest.subquery()
    query = (
        select(MetadataRow.role, MetadataRow.version, MetadataRow.published_ms)
        .join(wanted, (MetadataRow.role == wanted.c.role) & (MetadataRow.version == wanted.c.version))
        .order_by(MetadataRow.role)
    )
    return {role: SignedFor(*rest) for role, *rest in session.execute(query)}


def _open(session: Session) -> tuple[OpenRollout, ...]:
    names = [state.value for state in NOT_OVER]
    query = select(RolloutRow).where(RolloutRow.state.in_(names)).order_by(RolloutRow.number).limit(_MOST)
    found = list(session.scalars(query))
    devices: dict[int, dict[MemberState, int]] = {row.number: {} for row in found}
    counts = (
        select(MemberRow.rollout, MemberRow.state, func.count())
        .where(MemberRow.rollout.in_(list(devices)))
        .group_by(MemberRow.rollout, MemberRow.state)
    )
    for number, state, count in session.execute(counts):
        devices[number][MemberState(state)] = count
    return tuple(
        OpenRollout(
            rollout=f"r{row.number}",
            name=row.name,
            state=RolloutState(row.state),
            since_ms=row.changed_ms,
            code=ReasonCode(row.reason_code),
            reason=row.reason,
            devices=devices[row.number],
        )
        for row in found
    )


def _by(session: Session, column: object) -> list[tuple[str, int]]:
    query = select(column, func.count()).group_by(column)  # type: ignore[call-overload]
    return [(state, count) for state, count in session.execute(query)]
