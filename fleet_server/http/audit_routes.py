"""The audit: what operators did, and whether the record of it is whole."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query

from fleet_server.audit import entries, verify
from fleet_server.http.access import AsOperator, Given
from fleet_server.http.records import AuditEntryAnswer, AuditPage, AuditReportAnswer

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get("", operation_id="listAudit")
def list_audit(
    services: Given,
    _operator: AsOperator,
    before_id: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> AuditPage:
    """Acts, the newest first."""
    with services.store.read() as session:
        found = entries(session, limit=limit, before=before_id)
    return AuditPage(
        entries=[
            AuditEntryAnswer(
                id=row.id,
                at_ms=row.at_ms,
                actor=row.actor,
                action=row.action,
                subject=row.subject,
                detail=_detail(row.detail),
                hash=row.hash.hex(),
            )
            for row in found
        ],
        next=found[-1].id if len(found) == limit else None,
    )


@router.post("/verify", operation_id="verifyAudit")
def verify_audit(services: Given, _operator: AsOperator) -> AuditReportAnswer:
    """Recompute the chain of hashes from its first entry to its last."""
    with services.store.read() as session:
        return AuditReportAnswer.model_validate(verify(session))


def _detail(text: str) -> dict[str, Any]:
    """A detail as it was written; one that somebody changed in the database is shown as it is."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"unreadable": text[:200]}
