"""Which devices are part of a rollout and in which stage: the same for the same devices, whenever it is asked.

A device belongs to the first stage that takes it: its bucket, by the salt that people signed, lies below the
stage's share, and it has the stage's labels and hardware. The device computes its bucket by the same function.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from edge_runtime.protocol.fitting import misfit
from edge_runtime.protocol.release import ReleaseTerms, bucket
from edge_runtime.protocol.update import DeviceFacts
from fleet_server.rollouts.plan_records import RolloutPlan
from fleet_server.rollouts.states import Exclusion


class Runs(NamedTuple):
    """The release that a slot runs.

    Attributes:
        sha256: None for what no release brought.
        name: of its line; None where this server knows no such release.
    """

    sha256: str | None = None
    counter: int = 0
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device as the database has it.

    Attributes:
        state: `active`, `pending` or `revoked`.
        facts: what it said of itself; None where it never did.
        running: what the slot runs; None where it never spoke of such a slot.
        busy: another rollout has it for this slot.
    """

    device: str
    state: str
    labels: Mapping[str, str]
    facts: DeviceFacts | None
    running: Runs | None
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is put.

    Attributes:
        stage: from 0; None where it is not part.
        excluded: why not; `detail` is what did not fit.
    """

    device: str
    bucket: int
    stage: int | None
    excluded: Exclusion | None = None
    detail: str | None = None


def selects(plan: RolloutPlan, candidate: Candidate) -> bool:
    """Whether a plan names a device at all; one that said nothing of its hardware is named by its labels alone."""
    if not plan.labels.items() <= candidate.labels.items():
        return False
    return not plan.hardware or candidate.facts is None or _has(candidate.facts, plan.hardware)


def place(
    plan: RolloutPlan, terms: ReleaseTerms, sha256: str, candidates: Iterable[Candidate]
) -> list[Place]:
    """Put every device that a plan names into a stage, or say why it is not part.

    Args:
        plan: of the rollout.
        terms: of its release.
        sha256: of the release's bundle.
        candidates: devices, in any order.
    """
    putting = _Putting(plan, terms, sha256)
    return [putting.place(candidate) for candidate in candidates if selects(plan, candidate)]


def tally(places: Iterable[Place]) -> tuple[Counter[int], Counter[Exclusion], Counter[str]]:
    """Devices by stage, the others by reason, and those that do not fit by what does not."""
    stages: Counter[int] = Counter()
    excluded: Counter[Exclusion] = Counter()
    details: Counter[str] = Counter()
    for one in places:
        if one.stage is not None:
            stages[one.stage] += 1
        if one.excluded is not None:
            excluded[one.excluded] += 1
        if one.detail is not None:
            details[one.detail] += 1
    return stages, excluded, details


class _Putting:
    """What is the same for all devices of a plan, looked up once: there are 100,000 of them."""

    def __init__(self, plan: RolloutPlan, terms: ReleaseTerms, sha256: str) -> None:
        self._terms, self._sha256 = terms, sha256
        self._stages = [
            (stage.basis_points, stage.labels.items(), frozenset(stage.hardware)) for stage in plan.stages
        ]
        self._fits: dict[int, str | None] = {}  # devices share their facts: each is looked at once

    def place(self, candidate: Candidate) -> Place:
        where = bucket(self._terms.salt, candidate.device)
        reason = _excluded(self._terms, self._sha256, candidate)
        if reason is not None:
            return Place(candidate.device, where, None, reason)
        facts = candidate.facts
        assert facts is not None
        detail = self._misfit(facts)
        if detail is not None:
            return Place(candidate.device, where, None, Exclusion.INCOMPATIBLE, detail)
        if candidate.busy:
            return Place(candidate.device, where, None, Exclusion.BUSY)
        stage = self._stage(candidate, facts, where)
        return Place(candidate.device, where, stage, Exclusion.NO_STAGE if stage is None else None)

    def _misfit(self, facts: DeviceFacts) -> str | None:
        if id(facts) not in self._fits:
            code = misfit(self._terms.fit, facts)
            self._fits[id(facts)] = None if code is None else code.value
        return self._fits[id(facts)]

    def _stage(self, candidate: Candidate, facts: DeviceFacts, where: int) -> int | None:
        for number, (points, labels, hardware) in enumerate(self._stages):
            if where >= points or (labels and not labels <= candidate.labels.items()):
                continue
            if not hardware or hardware & set(facts.hardware):
                return number
        return None


_STATES = {"revoked": Exclusion.REVOKED, "removed": Exclusion.REVOKED, "pending": Exclusion.NOT_APPROVED}


def _excluded(terms: ReleaseTerms, sha256: str, candidate: Candidate) -> Exclusion | None:
    if candidate.state != "active":
        return _STATES.get(candidate.state, Exclusion.NOT_APPROVED)
    if candidate.facts is None:
        return Exclusion.NEVER_SEEN
    if candidate.running is None:
        return Exclusion.NO_SUCH_SLOT
    if candidate.running.sha256 == sha256:
        return Exclusion.ALREADY_RUNNING
    # counters of another line say nothing about this one
    if candidate.running.name in (None, terms.name) and candidate.running.counter > terms.counter:
        return Exclusion.NEWER_RUNS
    return None


def _has(facts: DeviceFacts, hardware: tuple[str, ...]) -> bool:
    return bool(set(facts.hardware) & set(hardware))
