"""Questions about single devices: of a plan, of a rollout, and why one has a release or has it not."""

import itertools
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from edge_runtime.protocol.update import UpdateAction
from fleet_server.releases.catalog import PublishedRelease
from fleet_server.rollouts.approving import needs
from fleet_server.rollouts.loaded import Loaded, facts_of, load, number_of, stages_of
from fleet_server.rollouts.member_records import (
    DeviceReasons,
    DeviceWay,
    MemberPage,
    MemberView,
    PlannedDevice,
    PlannedDevices,
    StepState,
    WayStep,
)
from fleet_server.rollouts.membership import Candidate, Place, place, selects
from fleet_server.rollouts.plan_records import RolloutPlan
from fleet_server.rollouts.planning import released
from fleet_server.rollouts.records import MembershipView, SlotView
from fleet_server.rollouts.remedies import EXCLUSIONS, remedy
from fleet_server.rollouts.roster import candidates
from fleet_server.rollouts.states import Exclusion, MemberState
from fleet_server.rollouts.views import require_device
from fleet_server.rollouts.way import DeviceNow, RolloutNow, fit_text, way
from fleet_server.storage.device_tables import PresenceRow
from fleet_server.storage.rollout_tables import AssignmentRow, DesiredRow, MemberRow
from fleet_server.storage.writing import run

MOST_WAYS = 20
"""Rollouts of one device that are explained; what came before them is in its history."""

_MOST_LOOKED_AT = 50


def planned(session: Session, plan: RolloutPlan, *, after: str = "", limit: int = 1000) -> PlannedDevices:
    """What a plan would do with each device that it names, by the devices' names.

    Args:
        session: that sees one state of the database.
        plan: of a rollout.
        after: only devices whose names come behind this one.
        limit: at most so many.

    Raises:
        RolloutProblem: there is no such release, or it was revoked.
    """
    found = released(session.connection(), plan)
    named = (
        candidate
        for candidate in candidates(session.connection(), plan.slot)
        if candidate.device > after and selects(plan, candidate)
    )
    by_name = {candidate.device: candidate for candidate in itertools.islice(named, limit + 1)}
    places = place(plan, found.terms, found.sha256, by_name.values())
    shown = [_planned(found, where, by_name[where.device]) for where in places[:limit]]
    return PlannedDevices(devices=tuple(shown), next=shown[-1].device if len(places) > limit else None)


def members(
    session: Session,
    rollout: str,
    *,
    state: MemberState | None = None,
    stage: int | None = None,
    after: str = "",
    limit: int = 100,
) -> MemberPage:
    """Devices of a rollout by their names.

    Args:
        session: of any transaction.
        rollout: its id.
        state: only these.
        stage: only those of this one, from 1.
        after: only devices whose names come behind this one.
        limit: at most so many.

    Raises:
        RolloutProblem: there is no such rollout.
    """
    number = number_of(rollout)
    load(session.connection(), number)
    query = _members(number).where(MemberRow.device > after).order_by(MemberRow.device).limit(limit + 1)
    if state is not None:
        query = query.where(MemberRow.state == state.value)
    if stage is not None:
        query = query.where(MemberRow.stage == stage - 1)
    found = [_member(*row) for row in session.execute(query)]
    shown = found[:limit]
    return MemberPage(devices=tuple(shown), next=shown[-1].device if len(found) > limit else None)


def reasons(
    session: Session, device: str, now_ms: int, *, only: str | None = None, limit: int = MOST_WAYS
) -> DeviceReasons:
    """The way of a device in each rollout that names it or has it, the newest first.

    Args:
        session: that sees one state of the database.
        device: its id.
        now_ms: milliseconds since 1970.
        only: id of the one rollout that is meant; it is looked at even where it does not name the device.
        limit: rollouts at most.

    Raises:
        RolloutProblem: there is no such device, or no such rollout.
    """
    connection = session.connection()
    require_device(connection, device)
    if only is None:
        rollouts = [
            load(connection, row.number) for row in run(connection, _TOUCHING, device, _MOST_LOOKED_AT)
        ]
    else:
        rollouts = [load(connection, number_of(only))]
    presence = session.get(PresenceRow, device)
    found = (_way(session, rollout, device, presence, now_ms, named=only is not None) for rollout in rollouts)
    return DeviceReasons(
        device=device,
        online=_is_online(presence),
        reported_ms=run(
            connection, "SELECT reported_ms FROM device_updates WHERE device = ?", device
        ).scalar(),
        slots=tuple(SlotView(**row._mapping) for row in run(connection, _SLOTS, device)),
        ways=tuple(one for one in found if one is not None)[:limit],
    )


def _way(
    session: Session, rollout: Loaded, device: str, presence: PresenceRow | None, now_ms: int, *, named: bool
) -> DeviceWay | None:
    """How far a device came with one rollout; None where that neither has it nor selects it, and was not named."""
    connection = session.connection()
    found = candidates(connection, rollout.slot, device=device)
    candidate = found[0] if found else Candidate(device, "removed", {}, None, None)
    row = session.execute(_members(rollout.number).where(MemberRow.device == device)).one_or_none()
    member = None if row is None else _member(*row)
    if rollout.unreadable is not None:
        return None if member is None else _unread(rollout, member, rollout.unreadable, candidate)
    where = _place(rollout, candidate)
    is_selected = bool(found) and selects(rollout.plan, candidate)
    if member is None and not is_selected and not named:
        return None
    stages, needed = stages_of(connection, rollout.number), needs(connection, rollout)
    now = RolloutNow(
        rollout=rollout.id,
        facts=facts_of(connection, rollout, stages),
        needs=None if needed is None else needed.value,
        reason=rollout.reason,
        verdicts=tuple("" if stage.verdict is None else stage.verdict.text for stage in stages),
    )
    steps = way(
        now,
        DeviceNow(
            candidate=candidate,
            where=where,
            busy_with=_busy_with(session, device, rollout.slot, rollout.number),
            online=_is_online(presence),
            since_ms=None if presence is None else presence.since_ms,
            member=member,
            is_published=_is_published(session, device),
        ),
        now_ms,
    )
    running = candidate.running
    return DeviceWay(
        membership=_membership(rollout, member, where, is_selected=is_selected),
        has_it=running is not None and running.sha256 == rollout.sha256,
        steps=steps,
    )


def _unread(rollout: Loaded, member: MemberView, why: str, candidate: Candidate) -> DeviceWay:
    """All that can be said of a device of a rollout whose plan this build does not read."""
    running = candidate.running
    step = WayStep(step="rollout", standing=StepState.STOPS, text=why, change="a new rollout")
    return DeviceWay(
        membership=_membership(
            rollout, member, Place(member.device, member.bucket, member.stage - 1), is_selected=True
        ),
        has_it=running is not None and running.sha256 == rollout.sha256,
        steps=(step,),
    )


def _membership(
    rollout: Loaded, member: MemberView | None, where: Place, *, is_selected: bool
) -> MembershipView:
    outside = where if member is None and is_selected else None
    return MembershipView(
        rollout=rollout.id,
        name=rollout.name,
        slot=rollout.slot,
        rollout_state=rollout.state,
        part=member is not None,
        stage=None if member is None else member.stage,
        bucket=where.bucket if member is None else member.bucket,
        state=None if member is None else member.state,
        code=member.code if member is not None else None if outside is None else outside.detail,
        exclusion=None if outside is None else outside.excluded,
        seq=None if member is None else member.seq,
    )


def _is_online(presence: PresenceRow | None) -> bool:
    return presence is not None and presence.state == "online"


def _place(rollout: Loaded, candidate: Candidate) -> Place:
    """Where a device would be put now; labels and hardware that it lacks are said before."""
    anybody = rollout.plan.model_copy(update={"labels": {}, "hardware": ()})
    return place(anybody, rollout.terms, rollout.sha256, [candidate])[0]


def _busy_with(session: Session, device: str, slot: str, rollout: int) -> str | None:
    query = select(MemberRow.rollout).where(
        MemberRow.device == device, MemberRow.slot == slot, MemberRow.live, MemberRow.rollout != rollout
    )
    other = session.scalar(query)
    return None if other is None else f"r{other}"


def _is_published(session: Session, device: str) -> bool:
    return session.scalar(select(DesiredRow.state).where(DesiredRow.device == device)) == "sent"


def _members(number: int) -> Any:
    return (
        select(MemberRow, AssignmentRow.said)
        .outerjoin(
            AssignmentRow, (AssignmentRow.device == MemberRow.device) & (AssignmentRow.seq == MemberRow.seq)
        )
        .where(MemberRow.rollout == number)
    )


def _member(row: MemberRow, said: str | None) -> MemberView:
    return MemberView(
        device=row.device,
        stage=row.stage + 1,
        bucket=row.bucket,
        action=UpdateAction(row.action),
        state=MemberState(row.state),
        code=row.code,
        text=said or "",
        seq=row.seq,
        since_ms=row.since_ms,
        heard_ms=row.heard_ms,
        excused=row.excused,
    )


def _planned(found: PublishedRelease, where: Place, candidate: Candidate) -> PlannedDevice:
    why = ""
    if where.excluded is Exclusion.INCOMPATIBLE and where.detail is not None and candidate.facts is not None:
        why = f"{fit_text(found.terms.fit, candidate.facts, where.detail)}: {remedy(where.detail)}"
    elif where.excluded is not None:
        why = EXCLUSIONS[where.excluded]
    return PlannedDevice(
        device=where.device,
        bucket=where.bucket,
        stage=None if where.stage is None else where.stage + 1,
        exclusion=where.excluded,
        why=why,
    )


_SLOTS = "SELECT slot, sha256, counter, package, reported_ms FROM device_slots WHERE device = ? ORDER BY slot"
_TOUCHING = (
    "SELECT number FROM rollouts r WHERE r.state NOT IN ('cancelled', 'rolled-back') "
    "OR EXISTS (SELECT 1 FROM rollout_members m WHERE m.rollout = r.number AND m.device = ?) "
    "ORDER BY number DESC LIMIT ?"
)
