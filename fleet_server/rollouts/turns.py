"""Turns of a rollout from state to state, each with what it takes along, in one transaction with its audit."""

from collections.abc import Mapping

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from fleet_server.devices.states import RecordAct
from fleet_server.rollouts.asking import take_back
from fleet_server.rollouts.decision import StageChange
from fleet_server.rollouts.loaded import Loaded
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.states import ReasonCode, RolloutState, StageState
from fleet_server.storage.writing import run

ENGINE = "engine"
"""Who acts where no person does."""

_STOPS = frozenset({RolloutState.PAUSED, RolloutState.HALTED})
_TAKES_BACK = frozenset({RolloutState.HALTED, RolloutState.CANCELLED})
_GIVES_UP = frozenset({RolloutState.HALTED, RolloutState.ROLLING_BACK, RolloutState.CANCELLED})


def turn(
    session: Session,
    audit: RecordAct,
    rollout: Loaded,
    state: RolloutState,
    *,
    by: str,
    code: ReasonCode,
    text: str,
    now_ms: int,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Bring a rollout into another state.

    Args:
        session: of a writing transaction that has the turn of rollouts.
        audit: writes the act down.
        rollout: as it is now.
        state: what it becomes.
        by: who acts; `ENGINE` where nobody does.
        code: why, for programs.
        text: why, for people.
        now_ms: milliseconds since 1970.
        detail: more for the audit.

    Raises:
        RolloutProblem: there is no way from its state to that one; nothing was changed.
    """
    if not rollout.state.may_become(state):
        raise RolloutProblem(
            RolloutProblemCode.WRONG_STATE,
            f"{rollout.id} is {rollout.state.value}; it cannot become {state.value}",
        )
    connection = session.connection()
    ends = now_ms if state.is_over else None
    starts = (
        rollout.started_ms if rollout.started_ms is not None or state is not RolloutState.RUNNING else now_ms
    )
    values = (state.value, code.value, text[:300], now_ms, starts, ends, rollout.number)
    run(connection, _TURN, *values)
    if state in _STOPS:
        run(connection, _PAUSED, now_ms, rollout.number, rollout.number)
    if state in _GIVES_UP:
        run(connection, _GIVE_UP, now_ms, rollout.number)
    if state in _TAKES_BACK:
        take_back(connection, rollout, now_ms)
    if rollout.state is RolloutState.COMPLETED:
        run(connection, _CLAIM, rollout.number)
    if state.is_over:
        run(connection, _RELEASE, rollout.number)
    told = {"from": rollout.state.value, "code": code.value, "text": text[:300], **(detail or {})}
    audit(session, by, f"rollout.{state.value}", rollout.id, told)


def change_stage(
    session: Session, audit: RecordAct, rollout: Loaded, change: StageChange, *, by: str, now_ms: int
) -> None:
    """Write what a stage becomes; a new state also into the audit."""
    connection = session.connection()
    before = run(connection, _STAGE_STATE, rollout.number, change.stage).scalar_one()
    verdict = None if change.verdict is None else change.verdict.canonical_text()
    closed = None if change.state in (StageState.OPEN, StageState.SOAKING) else now_ms
    times = (change.opened_ms, change.waiting_ms, change.soaking_ms, closed)
    run(connection, _CHANGE_STAGE, change.state.value, *times, verdict, rollout.number, change.stage)
    if before != change.state.value:
        told: dict[str, object] = {"stage": change.stage + 1, "from": before}
        if change.verdict is not None:
            told["verdict"] = change.verdict.model_dump(mode="json")
        audit(session, by, f"stage.{change.state.value}", rollout.id, told)


def withdraw_live(connection: Connection, rollout: int) -> None:
    """Have devices that left a rollout see nothing of it any more."""
    run(connection, _UNSEE, rollout, rollout)


_TURN = (
    "UPDATE rollouts SET state = ?, reason_code = ?, reason = ?, changed_ms = ?, started_ms = ?, ended_ms = ? "
    "WHERE number = ?"
)
_PAUSED = (
    "UPDATE rollouts SET paused_ms = ?, spent_approval = "
    "(SELECT COALESCE(max(id), 0) FROM rollout_approvals WHERE rollout = ?) WHERE number = ?"
)
_GIVE_UP = (
    "UPDATE rollout_members SET state = 'withdrawn', since_ms = ? "
    "WHERE rollout = ? AND seq IS NULL AND state IN ('pending', 'unreachable')"
)
_RELEASE = "UPDATE rollout_members SET live = FALSE WHERE rollout = ? AND live"
_CLAIM = (
    "UPDATE rollout_members SET live = TRUE WHERE rollout = ? AND NOT live "
    "AND state NOT IN ('superseded', 'decommissioned', 'withdrawn') "
    "AND (seq IS NULL OR seq = (SELECT s.seq FROM device_slots s WHERE s.device = rollout_members.device "
    "AND s.slot = rollout_members.slot)) AND NOT EXISTS "
    "(SELECT 1 FROM rollout_members o WHERE o.device = rollout_members.device "
    "AND o.slot = rollout_members.slot AND o.live)"
)
_STAGE_STATE = "SELECT state FROM rollout_stages WHERE rollout = ? AND stage = ?"
_CHANGE_STAGE = (
    "UPDATE rollout_stages SET state = ?, opened_ms = ?, waiting_ms = ?, soaking_ms = ?, closed_ms = ?, "
    "verdict = COALESCE(?, verdict) WHERE rollout = ? AND stage = ?"
)
_UNSEE = (
    "UPDATE assignments SET live = FALSE WHERE live AND rollout = ? AND device IN "
    "(SELECT device FROM rollout_members WHERE rollout = ? AND state = 'decommissioned')"
)
