"""Rollouts: planned, agreed to, started and stopped by people; who has what, and why."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from edge_runtime.protocol.topics import DeviceId
from fleet_server.http.access import Approver, AsOperator, Given, Viewer
from fleet_server.http.rollout_records import (
    ApproveRequest,
    HistoryAnswer,
    ResumeRequest,
    RolloutPage,
    WhyRequest,
)
from fleet_server.http.services import now_ms
from fleet_server.rollouts import queries_devices
from fleet_server.rollouts.member_records import DeviceReasons, MemberPage, PlannedDevices
from fleet_server.rollouts.plan_records import RolloutPlan
from fleet_server.rollouts.records import PlanReport, RolloutId, RolloutView
from fleet_server.rollouts.states import MemberState, RolloutState

RolloutInPath = Annotated[RolloutId, Path()]
DeviceInPath = Annotated[DeviceId, Path()]
After = Annotated[str, Query(max_length=63, pattern=r"^[a-z0-9-]*$")]

router = APIRouter(prefix="/v1", tags=["rollouts"])


@router.post("/rollouts/plan", operation_id="planRollout")
def plan_rollout(plan: RolloutPlan, services: Given, _viewer: Viewer) -> PlanReport:
    """What a plan would do now. Nothing is written."""
    return services.rollouts.plan(plan)


@router.post("/rollouts/plan/devices", operation_id="planRolloutDevices")
def plan_rollout_devices(
    plan: RolloutPlan,
    services: Given,
    _viewer: Viewer,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> PlannedDevices:
    """Who would get it in which stage, and who would not and why, by the devices' names."""
    with services.store.read() as session:
        return queries_devices.planned(session, plan, after=after, limit=limit)


@router.post("/rollouts", operation_id="createRollout", status_code=201)
def create_rollout(plan: RolloutPlan, services: Given, by: AsOperator) -> RolloutView:
    """Choose and reserve its devices. It starts once another person has agreed."""
    return services.rollouts.create(by.name, plan)


@router.get("/rollouts", operation_id="listRollouts")
def list_rollouts(
    services: Given,
    _viewer: Viewer,
    state: Annotated[RolloutState | None, Query()] = None,
    before: Annotated[RolloutId | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> RolloutPage:
    """Rollouts, the newest first."""
    found = list(services.rollouts.rollouts(state=state, before=before, limit=limit))
    return RolloutPage(rollouts=found, next=found[-1].id if len(found) == limit else None)


@router.get("/rollouts/{rollout}", operation_id="showRollout")
def show_rollout(rollout: RolloutInPath, services: Given, _viewer: Viewer) -> RolloutView:
    """One rollout as it stands, with the numbers and the verdict of each stage."""
    return services.rollouts.status(rollout)


@router.get("/rollouts/{rollout}/devices", operation_id="listRolloutDevices")
def list_rollout_devices(
    rollout: RolloutInPath,
    services: Given,
    _viewer: Viewer,
    state: Annotated[MemberState | None, Query()] = None,
    stage: Annotated[int | None, Query(ge=1, le=32)] = None,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> MemberPage:
    """Devices of a rollout by their names, with what each last said."""
    with services.store.read() as session:
        return queries_devices.members(session, rollout, state=state, stage=stage, after=after, limit=limit)


@router.post("/rollouts/{rollout}/approve", operation_id="approveRollout")
def approve_rollout(
    rollout: RolloutInPath, request: ApproveRequest, services: Given, by: Approver
) -> RolloutView:
    """Agree to what it waits for: its start, its going on, or its rollback."""
    note = request.note or ""
    return services.rollouts.approve(by.name, rollout, note, accept=request.accept, digest=request.digest)


@router.post("/rollouts/{rollout}/start", operation_id="startRollout")
def start_rollout(rollout: RolloutInPath, services: Given, by: AsOperator) -> RolloutView:
    """Open the first stage of a rollout that was agreed to."""
    return services.rollouts.start(by.name, rollout)


@router.post("/rollouts/{rollout}/pause", operation_id="pauseRollout")
def pause_rollout(
    rollout: RolloutInPath, request: WhyRequest, services: Given, by: AsOperator
) -> RolloutView:
    """Offer it to no further device; those that have the offer go on."""
    return services.rollouts.pause(by.name, rollout, request.reason)


@router.post("/rollouts/{rollout}/resume", operation_id="resumeRollout")
def resume_rollout(
    rollout: RolloutInPath, request: ResumeRequest, services: Given, by: AsOperator
) -> RolloutView:
    """Go on after a pause, once another person has agreed."""
    return services.rollouts.resume(by.name, rollout, accept=request.accept)


@router.post("/rollouts/{rollout}/halt", operation_id="haltRollout")
def halt_rollout(rollout: RolloutInPath, request: WhyRequest, services: Given, by: AsOperator) -> RolloutView:
    """Stop it, and take back every offer that is not yet in use."""
    return services.rollouts.halt(by.name, rollout, request.reason)


@router.post("/rollouts/{rollout}/rollback", operation_id="rollBackRollout")
def roll_back_rollout(rollout: RolloutInPath, services: Given, by: AsOperator) -> RolloutView:
    """Send the devices that took it back to what they ran before."""
    return services.rollouts.rollback(by.name, rollout)


@router.post("/rollouts/{rollout}/cancel", operation_id="cancelRollout")
def cancel_rollout(
    rollout: RolloutInPath, request: WhyRequest, services: Given, by: AsOperator
) -> RolloutView:
    """End it where it stands: its devices are free for others, and those that took it keep it."""
    return services.rollouts.cancel(by.name, rollout, request.reason)


@router.get("/devices/{device}/rollouts", operation_id="explainDevice")
def explain_device(
    device: DeviceInPath,
    services: Given,
    _viewer: Viewer,
    rollout: Annotated[RolloutId | None, Query()] = None,
) -> DeviceReasons:
    """Why a device has or has not what rollouts have for it, step by step, and what would change it."""
    with services.store.read() as session:
        return queries_devices.reasons(session, device, now_ms(services), only=rollout)


@router.get("/devices/{device}/updates", operation_id="showDeviceHistory")
def show_device_history(
    device: DeviceInPath,
    services: Given,
    _viewer: Viewer,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> HistoryAnswer:
    """What a device was asked, what it answered, and how that left it; the newest first."""
    return HistoryAnswer(assignments=list(services.rollouts.history(device, limit)))
