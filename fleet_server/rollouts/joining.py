"""Devices that become part of a rollout after it was made: enrolled, labelled, freed or seen only later."""

import json
from collections.abc import Sequence

from sqlalchemy.engine import Connection

from fleet_server.rollouts.loaded import Loaded, LoadedStage, is_revoked
from fleet_server.rollouts.membership import Place, place
from fleet_server.rollouts.plan_records import RolloutPlan
from fleet_server.rollouts.roster import newcomers
from fleet_server.rollouts.states import RolloutState, StageState
from fleet_server.storage.writing import run_many

_JOIN = (
    "INSERT INTO rollout_members (rollout, device, slot, stage, bucket, live, round, action, state, since_ms, "
    "excused, before_counter, device_values) "
    "VALUES (?, ?, ?, ?, ?, ?, 0, 'install', 'pending', ?, FALSE, 0, ?)"
)


def joiners(connection: Connection, rollout: Loaded, stages: Sequence[LoadedStage]) -> list[Place]:
    """Devices that fit by now.

    A running rollout takes them into stages that are not open yet: the numbers of an open one are not diluted. One
    that is completed takes them all.
    """
    if is_revoked(connection, rollout.sha256):
        return []
    found = newcomers(connection, rollout.number, rollout.slot, rollout.sha256)
    return [
        one
        for one in place(rollout.plan, rollout.terms, rollout.sha256, found)
        if one.stage is not None and _takes(rollout, stages[one.stage])
    ]


def join(connection: Connection, rollout: Loaded, stages: Sequence[LoadedStage], now_ms: int) -> int:
    """Take in devices that fit by now; how many that were. One that is completed reserves none of them."""
    places = joiners(connection, rollout, stages)
    add_members(connection, rollout.number, rollout.plan, places, now_ms, live=_claims(rollout))
    return len(places)


def add_members(
    connection: Connection,
    rollout: int,
    plan: RolloutPlan,
    places: Sequence[Place],
    now_ms: int,
    *,
    live: bool,
) -> None:
    """Make devices part of a rollout, each in its stage."""
    rows = [
        (rollout, one.device, plan.slot, one.stage, one.bucket, live, now_ms, _text(plan, one.device))
        for one in places
        if one.stage is not None
    ]
    if rows:
        run_many(connection, _JOIN, rows)


def _takes(rollout: Loaded, stage: LoadedStage) -> bool:
    return rollout.state is RolloutState.COMPLETED or stage.state is StageState.PENDING


def _claims(rollout: Loaded) -> bool:
    return rollout.state is not RolloutState.COMPLETED


def _text(plan: RolloutPlan, device: str) -> str | None:
    values = plan.device_values.get(device)
    return json.dumps(values, sort_keys=True) if values else None
