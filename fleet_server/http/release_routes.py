"""Releases for operators: list and show them, take the repository away, bring proposals and their files."""

import re
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from edge_runtime.protocol.release import ReleaseKind
from fleet_server.http.access import Admin, AsOperator, Given, Viewer
from fleet_server.http.problems import Problem, not_found
from fleet_server.http.release_records import (
    AnnouncedAnswer,
    AwaitedAnswer,
    PublishedAnswer,
    RecoveredAnswer,
    ReleaseAnswer,
    ReleaseDetail,
    ReleasePage,
)
from fleet_server.operators import Role
from fleet_server.releases import catalog
from fleet_server.releases.proposal import ProposalKind, Submission
from fleet_server.releases.repository import RepositoryFile
from fleet_server.releases.roles import ONLINE_ROLES
from fleet_server.releases.uploads import Awaited

CHUNK_TYPE = "application/offset+octet-stream"
_PIECE_BYTES = 1 << 20
_TARGET = re.compile(r"^(model|configuration)s/([a-z0-9][a-z0-9._-]{0,62})/([1-9][0-9]{0,15})/bundle\.json$")

LineInPath = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
CounterInPath = Annotated[int, Path(ge=1, lt=1 << 53)]
DigestInPath = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
Offset = Annotated[str, Header(alias="Upload-Offset", pattern=r"^[0-9]{1,15}$", max_length=15)]

router = APIRouter(prefix="/v1/releases", tags=["releases"])
_DESCRIBED = {
    "requestBody": {
        "required": True,
        "content": {CHUNK_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}


class OnlineKeysRequest(BaseModel):
    """Roles of which the server makes new keys."""

    model_config = ConfigDict(extra="forbid")

    roles: Annotated[list[str], Field(min_length=1, max_length=len(ONLINE_ROLES))]


class RecoverRequest(BaseModel):
    """The highest versions that a device has seen."""

    model_config = ConfigDict(extra="forbid")

    snapshot: Annotated[int, Field(ge=0, lt=1 << 31)]
    timestamp: Annotated[int, Field(ge=0, lt=1 << 31)]


@router.get("", operation_id="listReleases")
def list_releases(
    services: Given,
    _viewer: Viewer,
    kind: ReleaseKind | None = None,
    name: Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")] = None,
    after: Annotated[str | None, Query(pattern=_TARGET.pattern, max_length=120)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ReleasePage:
    """Releases, those that were revoked among them."""
    with services.store.read() as session:
        found = catalog.releases(session, kind=kind, name=name, after=_place(after), limit=limit)
    return ReleasePage(
        releases=[ReleaseAnswer.model_validate(one) for one in found],
        next=found[-1].target if len(found) == limit else None,
    )


@router.get("/repository", operation_id="exportRepository")
def export_repository(services: Given, _viewer: Viewer) -> RepositoryFile:
    """What people need to sign the next: public keys and signed metadata; no secret."""
    return services.releases.repository()


@router.get("/{kind}/{name}/{counter}", operation_id="showRelease")
def show_release(
    kind: ReleaseKind, name: LineInPath, counter: CounterInPath, services: Given, _viewer: Viewer
) -> ReleaseDetail:
    """One release with its terms and files."""
    with services.store.read() as session:
        found = catalog.release(session, name, counter, kind)
    if found is None:
        raise not_found(f"release of the {kind.value}", f"{name} {counter}")
    return ReleaseDetail.model_validate(found)


@router.post("/announce", operation_id="announceProposal")
def announce(submission: Submission, services: Given, by: AsOperator) -> AnnouncedAnswer:
    """Have a proposal's signatures looked at, and learn which of its files to upload."""
    found = services.releases.announce(submission, by.name)
    return AnnouncedAnswer(awaited=[AwaitedAnswer.model_validate(one) for one in found])


@router.post("/publish", operation_id="publishProposal")
def publish(submission: Submission, services: Given, by: AsOperator) -> PublishedAnswer:
    """Publish a proposal whose files are here. The keys of the fleet are changed by admins alone."""
    if submission.kind is ProposalKind.KEYS and not by.role.includes(Role.ADMIN):
        raise Problem(
            403, "not_permitted", f"keys need the role admin; the token {by.name} has {by.role.value}"
        )
    return PublishedAnswer.model_validate(services.releases.publish(submission, by.name))


@router.post("/online-keys", operation_id="renewOnlineKeys")
def renew_online_keys(request: OnlineKeysRequest, services: Given, by: Admin) -> RepositoryFile:
    """New keys of the server's own; a rotation that people sign puts them in force."""
    return services.releases.renew_keys(request.roles, by.name)


@router.post("/recover", operation_id="recoverRepository")
def recover(request: RecoverRequest, services: Given, by: Admin) -> RecoveredAnswer:
    """Go on above the versions that devices were shown by a thief of the online keys."""
    return RecoveredAnswer(
        **services.releases.freshness.recover(request.snapshot, request.timestamp, by.name)
    )


@router.head("/blobs/{sha256}", operation_id="headReleaseBlob", response_class=Response)
def head_blob(sha256: DigestInPath, services: Given, _by: AsOperator) -> Response:
    """How far an upload is, in `Upload-Offset` and `Upload-Length`."""
    return Response(headers=_headers(services.releases.uploads.standing(sha256)))


@router.patch(
    "/blobs/{sha256}",
    operation_id="patchReleaseBlob",
    status_code=204,
    response_class=Response,
    openapi_extra=_DESCRIBED,
)
async def patch_blob(
    sha256: DigestInPath,
    request: Request,
    services: Given,
    _by: AsOperator,
    upload_offset: Offset,
    content_type: Annotated[str, Header(max_length=80)] = "",
) -> Response:
    """Go on with the upload of a file that an announced proposal names."""
    if content_type.partition(";")[0].strip().lower() != CHUNK_TYPE:
        raise Problem(415, "unsupported_media_type", f"files of releases come as {CHUNK_TYPE}")
    uploads, offset = services.releases.uploads, int(upload_offset)
    standing = await run_in_threadpool(uploads.standing, sha256)
    waiting = bytearray()
    async for part in request.stream():
        waiting += part
        if len(waiting) >= _PIECE_BYTES:
            standing = await run_in_threadpool(uploads.append, sha256, offset, bytes(waiting))
            offset += len(waiting)
            waiting.clear()
    if waiting or not standing.bytes:  # an empty file is whole with no byte
        standing = await run_in_threadpool(uploads.append, sha256, offset, bytes(waiting))
    return Response(status_code=204, headers=_headers(standing))


def _place(target: str | None) -> tuple[ReleaseKind, str, int] | None:
    """Kind, name and counter in the path of a target."""
    found = None if target is None else _TARGET.fullmatch(target)
    return None if found is None else (ReleaseKind(found[1]), found[2], int(found[3]))


def _headers(upload: Awaited) -> dict[str, str]:
    return {"Upload-Offset": str(upload.offset), "Upload-Length": str(upload.bytes)}
