"""Rollouts as they are shown: every number is counted from rows when it is asked for."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from edge_runtime.protocol.update import LeftAs, UpdateAction
from fleet_server.in_words import span
from fleet_server.rollouts import approving
from fleet_server.rollouts.accepting import accepted
from fleet_server.rollouts.decision import opens_at
from fleet_server.rollouts.loaded import (
    INSTALL,
    ROLLBACK,
    Count,
    Loaded,
    LoadedStage,
    counts_of,
    load,
    stage_counts,
    stages_of,
)
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.records import (
    ApprovalView,
    AssignmentView,
    GoingOn,
    RolloutSummary,
    RolloutView,
    StageVerdict,
    StageView,
    Verdict,
)
from fleet_server.rollouts.states import MemberState, Purpose, RolloutState, StageState
from fleet_server.rollouts.verdict import StageCounts, judge
from fleet_server.storage.writing import run


def view(connection: Connection, rollout: Loaded, now_ms: int) -> RolloutView:
    """One rollout with its stages."""
    stages, counts = stages_of(connection, rollout.number), counts_of(connection, rollout.number)
    waits, readable = approving.needs(connection, rollout), rollout.unreadable is None
    return RolloutView(
        **_summary_fields(rollout, stages),
        plan=rollout.plan if readable else None,
        sha256=rollout.sha256,
        started_ms=rollout.started_ms,
        ended_ms=rollout.ended_ms,
        needs=waits,
        going_on=_going_on(connection, rollout),
        approvals=tuple(
            ApprovalView(
                purpose=Purpose(row.purpose), by=row.by, at_ms=row.at_ms, note=row.note, digest=row.digest
            )
            for row in run(connection, _APPROVALS, rollout.number)
        ),
        devices=sum(count.devices for count in counts),
        counts=_by_state(counts, INSTALL),
        rollback=_by_state(counts, ROLLBACK),
        left={row.code: row.devices for row in run(connection, _LEFT, rollout.number)},
        codes={row.code: row.devices for row in run(connection, _CODES, rollout.number)},
        stages_view=tuple(
            _stage_view(rollout, stages, number, count, now_ms)
            for number, count in enumerate(stage_counts(counts, len(stages)))
        )
        if readable
        else (),
    )


def _going_on(connection: Connection, rollout: Loaded) -> GoingOn | None:
    if rollout.state is not RolloutState.PAUSED:
        return None
    found = accepted(connection, rollout)
    stages = tuple(number + 1 for number, _ in found.stages)
    return GoingOn(digest=found.digest, bad=len(found.bad), stages=stages)


def summaries(
    connection: Connection, state: RolloutState | None, limit: int, before: int | None
) -> list[RolloutSummary]:
    """Rollouts, the newest first."""
    wanted = "number < ?" if state is None else "number < ? AND state = ?"
    values: tuple[object, ...] = (1 << 60 if before is None else before,)
    values += () if state is None else (state.value,)
    query = f"SELECT number FROM rollouts WHERE {wanted} ORDER BY number DESC LIMIT ?"  # noqa: S608
    found = [load(connection, row.number) for row in run(connection, query, *values, limit)]
    return [
        RolloutSummary(**_summary_fields(rollout, stages_of(connection, rollout.number))) for rollout in found
    ]


def history(connection: Connection, device: str, limit: int) -> list[AssignmentView]:
    """What a device was asked, the newest first.

    Raises:
        RolloutProblem: there is no such device.
    """
    require_device(connection, device)
    return [_assignment(row) for row in run(connection, _HISTORY, device, limit)]


def _summary_fields(rollout: Loaded, stages: Sequence[LoadedStage]) -> dict[str, Any]:
    opened = sum(stage.state.is_open for stage in stages)
    return {
        "id": rollout.id,
        "name": rollout.name,
        "slot": rollout.slot,
        "release": rollout.release,
        "counter": rollout.counter,
        "state": rollout.state,
        "reason_code": rollout.reason_code,
        "reason": rollout.reason,
        "author": rollout.author,
        "created_ms": rollout.created_ms,
        "changed_ms": rollout.changed_ms,
        "stage": opened or None,
        "stages": len(stages),
    }


def _stage_view(
    rollout: Loaded, stages: Sequence[LoadedStage], number: int, counts: StageCounts, now_ms: int
) -> StageView:
    stage = stages[number]
    verdict = _verdict(rollout, number, stage, counts, now_ms)
    return StageView(
        number=number + 1,
        basis_points=rollout.plan.stages[number].basis_points,
        state=stage.state,
        opened_ms=stage.opened_ms,
        soaking_ms=stage.soaking_ms,
        closed_ms=stage.closed_ms,
        devices=sum(counts.states.values()) + counts.excused,
        counts={state: count for state, count in counts.states.items() if count},
        verdict=verdict,
        waits_for=_waits(rollout, stages, number, verdict, now_ms),
    )


def _verdict(
    rollout: Loaded, number: int, stage: LoadedStage, counts: StageCounts, now_ms: int
) -> StageVerdict | None:
    """The one that was decided, or for a stage that is open what its numbers say now."""
    if stage.state not in (StageState.OPEN, StageState.SOAKING):
        return stage.verdict
    soaking = None if stage.soaking_ms is None else max(0, now_ms - stage.soaking_ms)
    waited = rollout.plan.calendar.open_ms(stage.waiting_ms or now_ms, now_ms)
    return judge(rollout.plan.stages[number].rules, counts, soaked_ms=soaking, waited_ms=waited)


def _waits(
    rollout: Loaded,
    stages: Sequence[LoadedStage],
    number: int,
    verdict: StageVerdict | None,
    now_ms: int,
) -> str:
    if rollout.state.is_over or stages[number].state is StageState.PASSED:
        return ""
    if rollout.state is not RolloutState.RUNNING:
        return f"the rollout is {rollout.state.value}"
    if stages[number].state.is_open:
        return verdict.text if verdict is not None and verdict.verdict is Verdict.WAIT else ""
    if number and stages[number - 1].state is not StageState.PASSED:
        return f"stage {number} has not passed"
    opens = opens_at(rollout.terms, rollout.plan, number, now_ms)
    if opens is None:
        return "people signed for no opening as wide as this"
    return f"its time, in {span(opens - now_ms)}" if opens > now_ms else ""


def _by_state(counts: Sequence[Count], action: str) -> dict[MemberState, int]:
    found: Counter[MemberState] = Counter()
    for count in counts:
        if (count.action == ROLLBACK) == (action == ROLLBACK):
            found[count.state] += count.devices
    return {state: found[state] for state in MemberState if found[state]}


def _assignment(row: Any) -> AssignmentView:
    known = row.action in {action.value for action in UpdateAction}
    return AssignmentView(
        seq=row.seq,
        slot=row.slot,
        action=UpdateAction(row.action) if known else None,
        rollout=None if row.rollout is None else f"r{row.rollout}",
        stage=None if row.stage is None else row.stage + 1,
        target=row.target,
        sha256=row.sha256,
        state=MemberState(row.state),
        code=row.code,
        text=row.said,
        left=None if row.left_as is None else LeftAs(row.left_as),
        decided_ms=row.decided_ms,
        issued_ms=row.issued_ms,
        changed_ms=row.changed_ms,
        live=bool(row.live),
    )


def require_device(connection: Connection, device: str) -> None:
    """Have a device be there.

    Raises:
        RolloutProblem: there is none of this id.
    """
    if run(connection, "SELECT 1 FROM devices WHERE id = ?", device).first() is None:
        raise RolloutProblem(RolloutProblemCode.DEVICE_UNKNOWN, f"there is no device {device[:63]}")


_APPROVALS = 'SELECT purpose, "by", at_ms, note, digest FROM rollout_approvals WHERE rollout = ? ORDER BY id'
_LEFT = (
    "SELECT CASE WHEN state = 'healthy' THEN 'took-it-after-all' ELSE code END AS code, count(*) AS devices "
    "FROM rollout_members WHERE rollout = ? AND action = 'hold' AND (state = 'healthy' OR code <> 'held') "
    "GROUP BY CASE WHEN state = 'healthy' THEN 'took-it-after-all' ELSE code END"
)
_CODES = (
    "SELECT COALESCE(code, 'none') AS code, count(*) AS devices FROM rollout_members WHERE rollout = ? "
    "AND state IN ('reverted', 'refused', 'stuck') GROUP BY COALESCE(code, 'none')"
)
_HISTORY = (
    "SELECT seq, slot, action, rollout, stage, target, sha256, state, code, said, left_as, decided_ms, "
    "issued_ms, changed_ms, live FROM assignments WHERE device = ? ORDER BY decided_ms DESC, seq DESC LIMIT ?"
)
