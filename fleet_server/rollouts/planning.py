"""What a plan would do, before anybody is asked: who is part of it, who is not and why, when stages may open."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from edge_runtime.protocol.release import ReleaseTerms
from edge_runtime.protocol.release_values import value_problem
from fleet_server.in_words import many
from fleet_server.releases.catalog import PublishedRelease
from fleet_server.releases.catalog import release as published
from fleet_server.rollouts.decision import opens_at
from fleet_server.rollouts.membership import Place, place, selects, tally
from fleet_server.rollouts.plan_records import RolloutPlan
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.records import PlanReport, StagePreview
from fleet_server.rollouts.roster import candidates
from fleet_server.rollouts.states import Exclusion
from fleet_server.rollouts.strength import upper_bound

_FEW = 1 / 3
"""A pass that cannot exclude that a third of all devices are bad shows next to nothing."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with all that it would be made of."""

    report: PlanReport
    release: PublishedRelease
    places: tuple[Place, ...]


def look_ahead(connection: Connection, plan: RolloutPlan, now_ms: int) -> Planned:
    """Compute what a plan would do now.

    Raises:
        RolloutProblem: there is no such release, or it was revoked.
    """
    release = released(connection, plan)
    terms = release.terms
    fleet = [one for one in candidates(connection, plan.slot) if selects(plan, one)]
    places = place(plan, terms, release.sha256, fleet)
    stages, excluded, details = tally(places)
    eligible = sum(stages.values())
    report = PlanReport(
        plan=plan,
        target=release.target,
        sha256=release.sha256,
        total_bytes=terms.total_bytes,
        selected=len(places),
        eligible=eligible,
        excluded=dict(sorted(excluded.items(), key=lambda item: -item[1])),
        incompatible=dict(details),
        stages=tuple(
            _preview(plan, terms, number, stages[number], now_ms) for number in range(len(plan.stages))
        ),
        bytes=eligible * terms.total_bytes,
        warnings=(*_warnings(plan, terms, stages, now_ms), *_strangers(plan, places), *_later(plan, terms)),
        refusals=(*_refusals(plan, terms, stages, excluded), *_unpermitted(plan, terms, places)),
    )
    return Planned(report, release, tuple(places))


def released(connection: Connection, plan: RolloutPlan) -> PublishedRelease:
    """The release that a plan names.

    Raises:
        RolloutProblem: there is none, or it was revoked.
    """
    found = published(connection, plan.release, plan.counter, plan.kind)
    named = f"{plan.kind.value} {plan.release} {plan.counter}"
    if found is None:
        raise RolloutProblem(
            RolloutProblemCode.RELEASE_UNKNOWN, f"no {named} is published: `fleet release list` shows what is"
        )
    if found.revoked:
        raise RolloutProblem(RolloutProblemCode.RELEASE_REVOKED, f"{named} was revoked: {found.reason or ''}")
    return found


def counted(excluded: dict[Exclusion, int]) -> str:
    """Counts by reason as one sentence's end."""
    return ", ".join(f"{count} {reason.value}" for reason, count in excluded.items()) or "none is selected"


def _preview(plan: RolloutPlan, terms: ReleaseTerms, number: int, devices: int, now_ms: int) -> StagePreview:
    asked = plan.stages[number]
    start = max(now_ms, plan.start_at_ms or 0)
    return StagePreview(
        number=number + 1,
        basis_points=asked.basis_points,
        devices=devices,
        opens_at_ms=opens_at(terms, plan, number, start),
        shows=round(upper_bound(devices, 0), 6),
    )


def _refusals(
    plan: RolloutPlan,
    terms: ReleaseTerms,
    stages: dict[int, int],
    excluded: dict[Exclusion, int],
) -> tuple[str, ...]:
    found = []
    if not sum(stages.values()):
        found.append(f"no device is eligible: {counted(excluded)}")
    widest = max((opening.basis_points for opening in terms.openings), default=0)
    for number, stage in enumerate(plan.stages):
        name = f"stage {number + 1}"
        if stage.basis_points > widest:
            found.append(
                f"{name} opens {stage.basis_points / 100:g} % of the fleet, and people signed for "
                f"{widest / 100:g} % at most: have a release signed with wider openings, or make it smaller"
            )
            continue
        asked = stage.not_before_ms
        if asked is not None and terms.opened_basis_points(asked) < stage.basis_points:
            found.append(
                f"{name} is to open sooner than people signed for: leave its not_before_ms out, and it waits"
            )
        if sum(stages.values()) and stages.get(number, 0) < stage.rules.min_devices:
            found.append(
                f"{name} has {many(stages.get(number, 0), 'device')} and needs "
                f"{many(stage.rules.min_devices, 'verdict')}: it "
                "could never pass; make it larger, or ask for less"
            )
    return tuple(found)


def _warnings(plan: RolloutPlan, terms: ReleaseTerms, stages: dict[int, int], now_ms: int) -> list[str]:
    found = []
    start = max(now_ms, plan.start_at_ms or 0)
    for number, stage in enumerate(plan.stages):
        opens = opens_at(terms, plan, number, start)
        if opens is not None and opens > start:
            found.append(
                f"stage {number + 1} waits for its time: what people signed, the plan and the windows say so"
            )
        bound = upper_bound(min(stage.rules.min_devices, stages.get(number, 0)), 0)
        if stages.get(number, 0) and bound > _FEW:
            found.append(
                f"stage {number + 1} may pass on {many(stage.rules.min_devices, 'good device')}, which excludes "
                f"only that more than {bound:.0%} are bad"
            )
    return found


def _unpermitted(plan: RolloutPlan, terms: ReleaseTerms, places: Sequence[Place]) -> list[str]:
    """Values that nobody signed for: each device would refuse them."""
    told = {device: {**plan.values, **own} for device, own in plan.device_values.items()}
    problems = {device: value_problem(terms.values, values) for device, values in told.items()}
    found = {device: problem for device, problem in problems.items() if problem is not None}
    if (shared := value_problem(terms.values, plan.values)) is not None:
        rest = (one.device for one in places if one.stage is not None and one.device not in told)
        found.update(dict.fromkeys(rest, shared))
    if not found:
        return []
    first = min(found)
    others = f" (and {len(found) - 1} more of the devices)" if len(found) > 1 else ""
    return [f"{first}{others} would refuse its values: {found[first]}"]


def _later(plan: RolloutPlan, terms: ReleaseTerms) -> list[str]:
    problem = value_problem(terms.values, plan.values)
    if problem is None or not plan.converge:
        return []
    return [f"devices that come later have no values of their own and would refuse these: {problem}"]


def _strangers(plan: RolloutPlan, places: Sequence[Place]) -> list[str]:
    named = set(plan.device_values) - {one.device for one in places if one.stage is not None}
    if not named:
        return []
    some = ", ".join(sorted(named)[:3])
    are = "is" if len(named) == 1 else "are"
    return [f"there are values for {many(len(named), 'device')} that {are} not part of it: {some}"]
