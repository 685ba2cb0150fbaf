"""Evidence: devices hand it in piece by piece, operators fetch what is whole.

The protocol is the core of tus 1.0: HEAD says how far an upload is, PATCH goes on from there. What arrived before a
connection broke is kept, and the last byte is followed by a check of the digest.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from fleet_server.evidence import NotExpected, Upload, WrongOffset
from fleet_server.http.access import AsDevice, AsOperator, Given
from fleet_server.http.events_routes import KeyInPath
from fleet_server.http.problems import Problem, not_found
from fleet_server.operators import events

CHUNK_TYPE = "application/offset+octet-stream"
_PIECE_BYTES = 256 * 1024

DigestInPath = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
Offset = Annotated[str, Header(alias="Upload-Offset", pattern=r"^[0-9]{1,15}$", max_length=15)]

router = APIRouter(prefix="/v1", tags=["evidence"])
_DESCRIBED = {
    "requestBody": {
        "required": True,
        "content": {CHUNK_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.head("/evidence/{sha256}", operation_id="headEvidence", response_class=Response)
def head_evidence(sha256: DigestInPath, services: Given, device: AsDevice) -> Response:
    """How far an upload is, in `Upload-Offset` and `Upload-Length`. Needs the device's certificate."""
    return Response(headers=_headers(services.evidence.status(device, sha256)))


@router.patch(
    "/evidence/{sha256}",
    operation_id="patchEvidence",
    status_code=204,
    response_class=Response,
    openapi_extra=_DESCRIBED,
)
async def patch_evidence(
    sha256: DigestInPath,
    request: Request,
    services: Given,
    device: AsDevice,
    upload_offset: Offset,
    content_type: Annotated[str, Header(max_length=80)] = "",
) -> Response:
    """Go on with an upload. Needs the device's certificate, and a committed decision that names the digest."""
    if content_type.partition(";")[0].strip().lower() != CHUNK_TYPE:
        raise Problem(415, "unsupported_media_type", f"evidence comes as {CHUNK_TYPE}")
    upload = await run_in_threadpool(services.evidence.status, device, sha256)
    offset = int(upload_offset)
    if offset != upload.offset and not upload.complete:
        raise WrongOffset(upload.offset)
    waiting = bytearray()
    async for part in request.stream():
        waiting += part
        if len(waiting) >= _PIECE_BYTES:
            upload = await run_in_threadpool(services.evidence.append, device, sha256, offset, bytes(waiting))
            offset += len(waiting)
            waiting.clear()
    if waiting:
        upload = await run_in_threadpool(services.evidence.append, device, sha256, offset, bytes(waiting))
    return Response(status_code=204, headers=_headers(upload))


@router.get(
    "/events/{key}/evidence",
    operation_id="fetchEvidence",
    tags=["events"],
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
    },
)
def fetch_evidence(key: KeyInPath, services: Given, by: AsOperator) -> Response:
    """The evidence of an event, once it is whole. Who fetched it stands in the audit."""
    with services.store.write() as session:
        found = events.one(session, events.reference(key))
        if found is None or found.evidence_sha256 is None:
            raise not_found("evidence of event", key)
        services.audit.record(
            session, by.name, "evidence.fetch", found.device, {"sha256": found.evidence_sha256}
        )
    opened = contextlib.ExitStack()
    try:
        descriptor = opened.enter_context(services.evidence.reading(found.device, found.evidence_sha256))
    except NotExpected:
        raise Problem(
            404, "not_here", f"the evidence of event {key} has not arrived, or is no longer kept"
        ) from None
    return _FileResponse(descriptor, opened, found.evidence_sha256)


class _FileResponse(StreamingResponse):
    """Closes its file also when the reader left before the first piece: a generator that never began cannot."""

    def __init__(self, descriptor: int, opened: contextlib.ExitStack, sha256: str) -> None:
        super().__init__(
            _pieces(descriptor),
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{sha256}"'},
        )
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._opened:
            await super().__call__(scope, receive, send)


def _pieces(descriptor: int) -> Iterator[bytes]:
    while piece := os.read(descriptor, _PIECE_BYTES):
        yield piece


def _headers(upload: Upload) -> dict[str, str]:
    return {"Upload-Offset": str(upload.offset), "Upload-Length": str(upload.length)}
