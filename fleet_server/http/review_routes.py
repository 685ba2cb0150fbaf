"""Held items, what a person decides about them, dead letters, and commands."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy.orm import Session

from edge_runtime.protocol.operation import CommandKind
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.vocabulary import EvidenceMode
from fleet_server.http.access import Approver, AsOperator, Given, Viewer
from fleet_server.http.problems import Problem, not_found
from fleet_server.http.records import CommandAnswer, DeadLetterAnswer, DeadLetterPage, HeldAnswer, HeldPage
from fleet_server.http.requests import ReleaseRequest, ReviewRequest
from fleet_server.http.services import Services, now_ms
from fleet_server.operators import Operator, dead_letters, review
from fleet_server.storage.device_tables import DeviceRow

DeviceInPath = Annotated[DeviceId, Path()]
ItemInPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
CommandInPath = Annotated[str, Path(pattern=r"^[0-9a-f-]{36}$")]

router = APIRouter(prefix="/v1", tags=["review"])


@router.get("/held", operation_id="listHeld")
def list_held(
    services: Given,
    _viewer: Viewer,
    device: Annotated[DeviceId | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> HeldPage:
    """What devices hold for a person, as far as policy lets the server know; those that end first come first."""
    with services.store.read() as session:
        found = review.held(session, now_ms(services), device=device, limit=limit)
    return HeldPage(held=[HeldAnswer.model_validate(entry) for entry in found])


@router.post("/held/{device}/{item}/release", operation_id="releaseHeld", status_code=202)
def release_held(
    device: DeviceInPath, item: ItemInPath, request: ReleaseRequest, services: Given, by: Approver
) -> CommandAnswer:
    """Ask a device to let a held item go. Its policy has the last word; the command says what became of it."""
    evidence = EvidenceMode(request.evidence)
    return _review(services, by, device, CommandKind.RELEASE_HELD, item, request.reason, evidence)


@router.post("/held/{device}/{item}/drop", operation_id="dropHeld", status_code=202)
def drop_held(
    device: DeviceInPath, item: ItemInPath, request: ReviewRequest, services: Given, by: Approver
) -> CommandAnswer:
    """Ask a device to destroy a held item."""
    return _review(services, by, device, CommandKind.DROP_HELD, item, request.reason)


@router.post("/devices/{device}/report", operation_id="askForReport", status_code=202)
def ask_for_report(device: DeviceInPath, services: Given, by: AsOperator) -> CommandAnswer:
    """Ask a device for its list of held items now, without waiting for its next report."""
    with services.store.write() as session:
        return _command(session, services, by, device, CommandKind.REPORT_HELD)


@router.get("/commands/{command}", operation_id="showCommand")
def show_command(command: CommandInPath, services: Given, _viewer: Viewer) -> CommandAnswer:
    """A command and what became of it."""
    with services.store.read() as session:
        found = review.command(session, command)
    if found is None:
        raise not_found("command", command)
    return CommandAnswer.model_validate(found)


@router.get("/dead-letters", operation_id="listDeadLetters")
def list_dead_letters(
    services: Given,
    _viewer: Viewer,
    device: Annotated[DeviceId | None, Query()] = None,
    before_id: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DeadLetterPage:
    """What was refused, the newest first; the refused bytes themselves stay in the database."""
    with services.store.read() as session:
        found = dead_letters.dead_letters(session, device=device, before_id=before_id, limit=limit)
    return DeadLetterPage(
        dead_letters=[DeadLetterAnswer.model_validate(letter) for letter in found],
        next=found[-1].id if len(found) == limit else None,
    )


def _review(
    services: Services,
    by: Operator,
    device: str,
    kind: CommandKind,
    item: str,
    reason: str,
    evidence: EvidenceMode | None = None,
) -> CommandAnswer:
    with services.store.write() as session:
        found = review.held(session, now_ms(services), device=device, key=item)
        if not found:
            raise Problem(404, "not_found", f"{device} holds no item {item}: see fleet review list")
        if found[0].command in ("queued", "sent"):
            text = f"{device} was asked about {item} already and has not answered yet"
            raise Problem(409, "already_asked", text)
        return _command(session, services, by, device, kind, item=item, reason=reason, evidence=evidence)


def _command(
    session: Session,
    services: Services,
    by: Operator,
    device: str,
    kind: CommandKind,
    *,
    item: str | None = None,
    reason: str | None = None,
    evidence: EvidenceMode | None = None,
) -> CommandAnswer:
    row = session.get(DeviceRow, device)
    if row is None:
        raise not_found("device", device)
    if row.state != "active":
        raise Problem(409, "not_active", f"{device} is {row.state}: it is not connected")
    try:
        sent = review.send(
            session, services.clock, device, kind, by.name, item=item, note=reason, evidence=evidence
        )
    except review.TooManyCommands:
        text = f"{review.MAX_WAITING} commands wait for {device}: it takes no more until it connects"
        raise Problem(409, "too_many_commands", text) from None
    detail = {"command": sent.id} | ({"item": item, "reason": reason} if item is not None else {})
    if evidence is not None:
        detail["evidence"] = evidence.value
    services.audit.record(session, by.name, f"command.{kind.value}", device, detail)
    return CommandAnswer.model_validate(sent)
