"""What time and the fleet's books do to the devices of a rollout: deadlines, devices that come, go, and end.

Each sweep is one condition and one change. Whether it would change anything is asked first, without a write lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from edge_runtime.protocol.release import ReleaseTerms
from fleet_server.rollouts.loaded import Loaded, LoadedStage
from fleet_server.rollouts.plan_records import MemberDeadlines
from fleet_server.rollouts.states import WORKING, MemberState, RolloutState
from fleet_server.storage.writing import run

_EARLY = (
    MemberState.OFFERED,
    MemberState.ACCEPTED,
    MemberState.DOWNLOADING,
    MemberState.VERIFIED,
    MemberState.STAGED,
    MemberState.WAITING,
)
"""Nothing of the release is in use yet: a device that vanishes here says nothing about it."""

TOLD_WITHIN_S = 1800
"""Beyond what the signed terms allow: the device has its own margin, and its report takes its time."""

_IN_USE = (MemberState.ACTIVATING, MemberState.PROBATION)
_ONLINE = "EXISTS (SELECT 1 FROM presence p WHERE p.device = rollout_members.device AND p.state = 'online')"
_GONE = "device IN (SELECT id FROM devices WHERE state IN ('revoked', 'removed'))"
_WORKING = ", ".join(f"'{state.value}'" for state in WORKING)
_ASKS = frozenset({RolloutState.RUNNING, RolloutState.PAUSED, RolloutState.COMPLETED})
_WATCHED = _ASKS | {RolloutState.ROLLING_BACK}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One change of rows of `rollout_members`.

    Attributes:
        where, values: the condition, below that of the rollout.
        change: what is set; `since_ms` is set beside.
    """

    where: str
    values: tuple[object, ...]
    change: str


def sweeps(rollout: Loaded, stages: Sequence[LoadedStage], now_ms: int) -> list[Sweep]:
    """What has to be looked at for a rollout, in this order."""
    found: list[Sweep] = []
    if rollout.state in _ASKS or rollout.state is RolloutState.ROLLING_BACK:
        found.append(Sweep(f"state <> 'decommissioned' AND {_GONE}", (), "state = 'decommissioned'"))
    if rollout.state in _ASKS:
        found += _returned()
    if rollout.state in _WATCHED:
        found += _overdue(rollout, now_ms)
    if rollout.state is RolloutState.RUNNING:
        found += _never_there(rollout, stages, now_ms)
    return found


def has_work(connection: Connection, rollout: int, sweep: Sweep) -> bool:
    """Whether a sweep would change anything."""
    query = f"SELECT 1 FROM rollout_members WHERE rollout = ? AND {sweep.where} LIMIT 1"  # noqa: S608
    return run(connection, query, rollout, *sweep.values).first() is not None


def sweep_out(connection: Connection, rollout: int, sweep: Sweep, now_ms: int) -> int:
    """Change what a sweep changes; how many devices that were."""
    update = f"UPDATE rollout_members SET {sweep.change}, since_ms = ? WHERE rollout = ? AND {sweep.where}"  # noqa: S608
    return run(connection, update, now_ms, rollout, *sweep.values).rowcount


def allowed_s(state: MemberState, deadlines: MemberDeadlines, terms: ReleaseTerms) -> int:
    """For how long a device may stay in a state, in seconds.

    A plan that allows less than what people signed for the release would call good devices stuck.
    """
    written: int = getattr(deadlines, f"{state.value}_s")
    if state is MemberState.STAGED:
        return max(written, terms.shadow.max_seconds + TOLD_WITHIN_S)
    if state is MemberState.PROBATION:
        return max(written, terms.probation.max_seconds + TOLD_WITHIN_S)
    return written


def _returned() -> list[Sweep]:
    """Devices that were given up and are there again: those never asked are asked, the others go on."""
    working = (
        "(SELECT a.state FROM assignments a WHERE a.device = rollout_members.device "
        "AND a.seq = rollout_members.seq)"
    )
    anew = (
        "state = 'pending', code = NULL, seq = NULL, action = 'install', excused = FALSE, round = round + 1"
    )
    active = "device IN (SELECT id FROM devices WHERE state = 'active')"
    return [
        Sweep(f"state = 'unreachable' AND seq IS NULL AND {_ONLINE}", (), "state = 'pending'"),
        Sweep(
            f"state = 'unreachable' AND seq IS NOT NULL AND {working} IN ({_WORKING}) AND {_ONLINE}",
            (),
            f"state = {working}",
        ),
        Sweep(f"state = 'decommissioned' AND {active}", (), anew),
    ]


def _overdue(rollout: Loaded, now_ms: int) -> list[Sweep]:
    found = []
    for state in (*_EARLY, *_IN_USE):
        before = now_ms - 1000 * allowed_s(state, rollout.plan.deadlines, rollout.terms)
        late = f"state = '{state.value}' AND since_ms < ?"
        if state in _EARLY:
            found.append(Sweep(f"{late} AND NOT {_ONLINE}", (before,), "state = 'unreachable'"))
        found.append(Sweep(late, (before,), "state = 'stuck', code = 'deadline'"))
    return found


def _never_there(rollout: Loaded, stages: Sequence[LoadedStage], now_ms: int) -> list[Sweep]:
    before = now_ms - 1000 * rollout.plan.deadlines.unreachable_s
    return [
        Sweep(
            f"state = 'pending' AND stage = ? AND since_ms < ? AND NOT {_ONLINE}",
            (number, before),
            "state = 'unreachable'",
        )
        for number, stage in enumerate(stages)
        if stage.opened_ms is not None and stage.opened_ms < before
    ]
