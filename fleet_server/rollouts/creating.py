"""Writing down a new rollout: its row, its stages and its devices, in one transaction with its audit entry."""

from sqlalchemy.orm import Session

from fleet_server.devices.states import RecordAct
from fleet_server.rollouts.joining import add_members
from fleet_server.rollouts.planning import Planned
from fleet_server.rollouts.states import ReasonCode, RolloutState, StageState
from fleet_server.storage.writing import run, run_many


def create(session: Session, audit: RecordAct, by: str, planned: Planned, now_ms: int) -> int:
    """Reserve the devices of a plan that nothing speaks against.

    Args:
        session: of a writing transaction that has the turn of rollouts.
        audit: writes it down.
        by: who makes it.
        planned: what the plan comes to now.
        now_ms: milliseconds since 1970.

    Returns:
        The rollout's number.
    """
    connection, plan, release = session.connection(), planned.report.plan, planned.release
    number = int(
        run(
            connection,
            _NEW,
            plan.name,
            plan.slot,
            plan.release,
            plan.counter,
            release.target,
            release.length,
            release.sha256,
            release.terms.canonical_bytes().decode(),
            plan.canonical_text(),
            RolloutState.AWAITING_APPROVAL.value,
            ReasonCode.ASKED.value,
            f"made by {by}",
            by,
            now_ms,
            now_ms,
        ).scalar_one()
    )
    pending = [(number, stage, StageState.PENDING.value) for stage in range(len(plan.stages))]
    run_many(connection, _NEW_STAGE, pending)
    add_members(connection, number, plan, planned.places, now_ms, live=True)
    report = planned.report
    detail = {
        "name": plan.name,
        "slot": plan.slot,
        "release": f"{plan.release} {plan.counter}",
        "sha256": release.sha256,
        "devices": report.eligible,
        "stages": [stage.devices for stage in report.stages],
        "excluded": {reason.value: count for reason, count in report.excluded.items()},
    }
    audit(session, by, "rollout.create", f"r{number}", detail)
    return number


_NEW = (
    "INSERT INTO rollouts (name, slot, release, counter, target, length, sha256, terms, plan, state, "
    "reason_code, reason, author, created_ms, changed_ms, spent_approval, touched_ms, looked_ms) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0) RETURNING number"
)
_NEW_STAGE = "INSERT INTO rollout_stages (rollout, stage, state) VALUES (?, ?, ?)"
