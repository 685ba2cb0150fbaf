"""Rollouts as the database has them, read into what decisions are made of."""

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy.engine import Connection

from edge_runtime.protocol.release import ReleaseTerms
from fleet_server.releases.catalog import release_of_bundle
from fleet_server.rollouts.decision import RolloutFacts, StageFacts
from fleet_server.rollouts.plan_records import RolloutPlan
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.records import StageVerdict
from fleet_server.rollouts.states import MemberState, ReasonCode, RolloutState, StageState
from fleet_server.rollouts.verdict import StageCounts
from fleet_server.storage.writing import run

INSTALL, ROLLBACK, HOLD = "install", "rollback", "hold"

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True)
class Loaded:
    """One rollout; `storage.rollout_tables.RolloutRow` says what the fields mean.

    Attributes:
        terms_text, plan_text: read when they are asked for: a rollout of another build, whose plan this one does
            not read, can still be listed, halted and cancelled, and is in nobody's way.
    """

    number: int
    name: str
    slot: str
    release: str
    counter: int
    target: str
    length: int
    sha256: str
    terms_text: str
    plan_text: str
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

    @property
    def terms(self) -> ReleaseTerms:
        """That people signed.

        Raises:
            RolloutProblem: this build does not read them.
        """
        return _read(self.id, "signed terms", _terms, self.terms_text)

    @property
    def plan(self) -> RolloutPlan:
        """As it was written.

        Raises:
            RolloutProblem: this build does not read it.
        """
        return _read(self.id, "plan", _plan, self.plan_text)

    @property
    def unreadable(self) -> str | None:
        """Why this build cannot go on with it, in one sentence; None where it can."""
        try:
            require_readable(self)
        except RolloutProblem as problem:
            return str(problem)
        return None


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


def require_readable(rollout: Loaded) -> None:
    """Refuse to go on with a rollout that this build does not read.

    Raises:
        RolloutProblem: its plan or its terms are of another build.
    """
    _ = rollout.terms, rollout.plan


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
    values["terms_text"], values["plan_text"] = values.pop("terms"), values.pop("plan")
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


def _read(rollout: str, what: str, read: Callable[[str], RecordT], text: str) -> RecordT:
    try:
        return read(text)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in found["loc"])[:60]
        why = f"{place}: {found['msg']}"[:160] if place else str(found["msg"])[:160]
        raise RolloutProblem(
            RolloutProblemCode.UNREADABLE,
            f"the {what} of {rollout}, of another build of the server, cannot be read ({why}): "
            "halt or cancel it, and make it anew",
        ) from None


@functools.lru_cache(maxsize=128)
def _plan(text: str) -> RolloutPlan:
    return RolloutPlan.model_validate_json(text)


@functools.lru_cache(maxsize=128)
def _terms(text: str) -> ReleaseTerms:
    return ReleaseTerms.model_validate_json(text)


_TERMS_NOW = (
    "COALESCE((SELECT r.terms FROM releases r WHERE r.target = rollouts.target), rollouts.terms) AS terms"
)
"""People may have signed other terms since the rollout was made: devices go by those, and so does the engine."""

_STORED = {"terms_text": _TERMS_NOW, "plan_text": "plan"}
_COLUMNS = ", ".join(_STORED.get(name, name) for name in Loaded.__slots__)
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
