"""Rollouts as the database has them, read into what decisions are made of."""

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from edge_runtime.protocol.release import ReleaseTerms
from fleet_server.releases.catalog import release_of_bundle
from fleet_server.rollouts.decision import RolloutFacts, StageFacts
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.records import RolloutPlan, StageVerdict
from fleet_server.rollouts.states import MemberState, ReasonCode, RolloutState, StageState
from fleet_server.rollouts.verdict import StageCounts
from fleet_server.storage.writing import run

INSTALL, ROLLBACK, HOLD = "install", "rollback", "hold"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One rollout; `storage.rollout_tables.RolloutRow` says what the fields mean."""

    number: int
    name: str
    slot: str
    release: str
    counter: int
    target: str
    length: int
    sha256: str
    terms: ReleaseTerms
    plan: RolloutPlan
    state: RolloutState
    reason_code: ReasonCode
    reason: str
    author: str
    created_ms: int
    changed_ms: int
    started_ms: int | None
    paused_ms: int | None
    spent_approval: int
    ended_ms: int | None
    touched_ms: int
    looked_ms: int

    @property
    def id(self) -> str:
        """As people write it."""
        return f"r{self.number}"


@dataclass(frozen=True, slots=True)
class LoadedStage:
    """A stage's own row."""

    state: StageState
    opened_ms: int | None
    waiting_ms: int | None
    soaking_ms: int | None
    closed_ms: int | None
    verdict: StageVerdict | None


@dataclass(frozen=True, slots=True)
class Count:
    """So many devices of a rollout are alike."""

    stage: int
    action: str
    state: MemberState
    excused: bool
    devices: int


def number_of(rollout: str) -> int:
    """The number in an id.

    Raises:
        RolloutProblem: it is no id of a rollout.
    """
    if (
        not rollout.startswith("r")
        or not rollout[1:].isascii()
        or not rollout[1:].isdigit()
        or len(rollout) > 17
    ):
        raise RolloutProblem(RolloutProblemCode.UNKNOWN, f"{rollout[:32]} is no rollout: one is called r17")
    return int(rollout[1:])


def load(connection: Connection, number: int) -> Loaded:
    """One rollout.

    Raises:
        RolloutProblem: there is none of this number.
    """
    row = run(connection, f"SELECT {_COLUMNS} FROM rollouts WHERE number = ?", number).one_or_none()  # noqa: S608
    if row is None:
        raise RolloutProblem(
            RolloutProblemCode.UNKNOWN, f"there is no rollout r{number}: `fleet rollout list` shows them"
        )
    return loaded(row)


def under_way(connection: Connection, *, completed: bool) -> list[Loaded]:
    """Rollouts at which the engine has to look, the newest first.

    Args:
        connection: of any transaction.
        completed: also all that are completed; else those alone that a late report touched.
    """
    query = f"SELECT {_COLUMNS} FROM rollouts WHERE {_UNDER_WAY} ORDER BY number DESC"  # noqa: S608
    return [loaded(row) for row in run(connection, query, completed)]


def loaded(row: Any) -> Loaded:
    """A row of `rollouts` with all of its columns."""
    values = dict(row._mapping)
    values["terms"], values["plan"] = _terms(row.terms), _plan(row.plan)
    values["state"], values["reason_code"] = RolloutState(row.state), ReasonCode(row.reason_code)
    return Loaded(**values)


def stages_of(connection: Connection, number: int) -> list[LoadedStage]:
    """The stages of a rollout, in their order."""
    rows = run(connection, _STAGES, number)
    return [
        LoadedStage(
            StageState(row.state),
            row.opened_ms,
            row.waiting_ms,
            row.soaking_ms,
            row.closed_ms,
            None if row.verdict is None else StageVerdict.model_validate_json(row.verdict),
        )
        for row in rows
    ]


def counts_of(connection: Connection, number: int) -> list[Count]:
    """How many devices of a rollout are where: counted from their rows, each time."""
    return [
        Count(row.stage, row.action, MemberState(row.state), bool(row.excused), row.devices)
        for row in run(connection, _COUNTS, number)
    ]


def stage_counts(counts: Sequence[Count], stages: int) -> list[StageCounts]:
    """The same for each stage, as a verdict reads them."""
    states: list[dict[MemberState, int]] = [defaultdict(int) for _ in range(stages)]
    excused = [0] * stages
    for count in counts:
        if count.excused:
            excused[count.stage] += count.devices
        else:
            states[count.stage][count.state] += count.devices
    return [StageCounts(dict(states[stage]), excused[stage]) for stage in range(stages)]


def facts_of(
    connection: Connection,
    rollout: Loaded,
    stages: Sequence[LoadedStage] | None = None,
    counted: Sequence[Count] | None = None,
) -> RolloutFacts:
    """All that a decision about a rollout needs; stages and counts are read where they are not given."""
    stages = stages_of(connection, rollout.number) if stages is None else stages
    counted = counts_of(connection, rollout.number) if counted is None else counted
    counts = stage_counts(counted, len(stages))
    return RolloutFacts(
        rollout.state,
        rollout.plan,
        rollout.terms,
        tuple(
            StageFacts(stage.state, count, stage.opened_ms, stage.waiting_ms, stage.soaking_ms)
            for stage, count in zip(stages, counts, strict=True)
        ),
        is_revoked(connection, rollout.sha256),
    )


def is_revoked(connection: Connection, sha256: str) -> bool:
    """Whether a bundle may no longer be given to anybody."""
    found = release_of_bundle(connection, sha256)
    return found is None or found.revoked


@functools.lru_cache(maxsize=128)
def _plan(text: str) -> RolloutPlan:
    return RolloutPlan.model_validate_json(text)


@functools.lru_cache(maxsize=128)
def _terms(text: str) -> ReleaseTerms:
    return ReleaseTerms.model_validate_json(text)


_COLUMNS = ", ".join(Loaded.__slots__)
_UNDER_WAY = (
    "state IN ('ready', 'running', 'paused', 'rolling-back') "
    "OR (state = 'completed' AND (? OR looked_ms < touched_ms))"
)
_STAGES = (
    "SELECT state, opened_ms, waiting_ms, soaking_ms, closed_ms, verdict FROM rollout_stages "
    "WHERE rollout = ? ORDER BY stage"
)
_COUNTS = (
    "SELECT stage, action, state, excused, count(*) AS devices FROM rollout_members WHERE rollout = ? "
    "GROUP BY stage, action, state, excused"
)
