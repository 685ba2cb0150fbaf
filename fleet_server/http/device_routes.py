"""Devices: who they are, invitations, and what an operator decides about them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy.orm import Session

from edge_runtime.protocol.topics import DeviceId
from fleet_server.http.access import Admin, Approver, AsOperator, Given, Viewer
from fleet_server.http.problems import not_found
from fleet_server.http.records import (
    BalanceAnswer,
    CertificateAnswer,
    DeviceAnswer,
    DeviceDetail,
    DevicePage,
    DeviceState,
    InvitationAnswer,
)
from fleet_server.http.requests import ApprovalRequest, InvitationRequest, LabelsRequest, ReasonRequest
from fleet_server.http.services import Services
from fleet_server.operators import status

DeviceInPath = Annotated[DeviceId, Path()]

router = APIRouter(prefix="/v1", tags=["devices"])


@router.get("/devices", operation_id="listDevices")
def list_devices(
    services: Given,
    _viewer: Viewer,
    state: Annotated[DeviceState | None, Query()] = None,
    after: Annotated[str, Query(max_length=63, pattern=r"^[a-z0-9-]*$")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DevicePage:
    """Devices by id; removed ones only where they are asked for."""
    with services.store.read() as session:
        found = status.devices(
            session, after=after, limit=limit, state=None if state is None else state.value
        )
    return DevicePage(
        devices=[DeviceAnswer.model_validate(device) for device in found],
        next=found[-1].id if len(found) == limit else None,
    )


@router.get("/devices/{device}", operation_id="showDevice")
def show_device(device: DeviceInPath, services: Given, _viewer: Viewer) -> DeviceDetail:
    """One device with its certificates, what it last said, and its balance."""
    with services.store.read() as session:
        answer = _one(session, device)
        return DeviceDetail(
            **dict(answer),
            certificates=[CertificateAnswer.model_validate(c) for c in status.certificates(session, device)],
            balance=[BalanceAnswer.model_validate(epoch) for epoch in status.balance(session, device)],
        )


@router.post("/invitations", operation_id="invite", status_code=201)
def invite(request: InvitationRequest, services: Given, by: AsOperator) -> InvitationAnswer:
    """A new enrolment token. It is in this answer and nowhere else: the server keeps a digest of its secret."""
    made = services.registry.invite(
        by.name,
        device=request.device,
        labels=request.labels,
        serials=request.serials,
        expires_s=request.expires_s,
        needs_approval=request.needs_approval,
    )
    return InvitationAnswer.model_validate(made).model_copy(update={"server": services.server_url()})


@router.post("/devices/{device}/approve", operation_id="approveDevice")
def approve_device(
    device: DeviceInPath, request: ApprovalRequest, services: Given, by: Approver
) -> DeviceAnswer:
    """Accept a key that waits. The device's older certificates are out at once."""
    services.registry.approve(by.name, device, request.key_sha256)
    return _shown(services, device)


@router.post("/devices/{device}/revoke", operation_id="revokeDevice")
def revoke_device(
    device: DeviceInPath, request: ReasonRequest, services: Given, by: AsOperator
) -> DeviceAnswer:
    """Put a device out at once. It can enrol again with a new token, and then waits for an approval."""
    services.registry.revoke(by.name, device, request.reason)
    return _shown(services, device)


@router.post("/devices/{device}/remove", operation_id="removeDevice")
def remove_device(device: DeviceInPath, request: ReasonRequest, services: Given, by: Admin) -> DeviceAnswer:
    """Put a device out and list it no longer. Its events and the audit stay."""
    services.registry.remove(by.name, device, request.reason)
    return _shown(services, device)


@router.patch("/devices/{device}/labels", operation_id="labelDevice")
def label_device(
    device: DeviceInPath, request: LabelsRequest, services: Given, by: AsOperator
) -> DeviceAnswer:
    """Set labels, or take them away."""
    services.registry.label(by.name, device, request.labels)
    return _shown(services, device)


def _shown(services: Services, device: str) -> DeviceAnswer:
    with services.store.read() as session:
        return _one(session, device)


def _one(session: Session, device: str) -> DeviceAnswer:
    found = status.devices(session, only=device)
    if not found:
        raise not_found("device", device)
    return DeviceAnswer.model_validate(found[0])
