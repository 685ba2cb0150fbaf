"""What devices fetch for an update: signed metadata, bundles and files of releases. All of it is verified there."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from starlette.responses import FileResponse

from fleet_server.http.access import AsDevice, Given
from fleet_server.http.problems import not_found
from fleet_server.releases import catalog

_VERSIONED = re.compile(r"([1-9][0-9]{0,9})\.(root|snapshot|targets|models|configurations)\.json")
_TIMESTAMP = "timestamp.json"

FileInPath = Annotated[str, Path(pattern=r"^[0-9A-Za-z.]{1,64}$")]
TargetInPath = Annotated[str, Path(pattern=r"^[0-9A-Za-z._/-]{1,300}$")]
DigestInPath = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]

router = APIRouter(prefix="/v1/updates", tags=["updates"])
_JSON: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}}
}
_BYTES = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_PIECES: dict[int | str, dict[str, Any]] = {
    200: _BYTES,
    206: {"description": "The part of the file that `Range` asks for.", **_BYTES},
}


@router.get("/metadata/{file}", operation_id="fetchUpdateMetadata", response_class=Response, responses=_JSON)
def fetch_metadata(file: FileInPath, services: Given, _device: AsDevice) -> Response:
    """Signed metadata, as TUF names it with consistent snapshots. Needs the device's certificate."""
    named = _VERSIONED.fullmatch(file)
    if file != _TIMESTAMP and named is None:
        raise not_found("metadata", file)
    with services.store.read() as session:
        if named is None:
            body = catalog.metadata(session, "timestamp")
        else:
            body = catalog.metadata(session, named[2], int(named[1]))
    if body is None:
        raise not_found("metadata", file)
    return Response(body, media_type="application/json")


@router.get(
    "/targets/{path:path}", operation_id="fetchUpdateTarget", response_class=Response, responses=_JSON
)
def fetch_target(path: TargetInPath, services: Given, _device: AsDevice) -> Response:
    """A release's `bundle.json`, its digest before its name. Needs the device's certificate."""
    folder, _, name = path.rpartition("/")
    sha256, _, plain = name.partition(".")
    with services.store.read() as session:
        body = catalog.bundle_bytes(session, f"{folder}/{plain}", sha256)
    if body is None:
        raise not_found("release", path)
    return Response(body, media_type="application/json")


@router.api_route(
    "/blobs/{sha256}",
    methods=["GET"],
    operation_id="fetchUpdateBlob",
    response_class=FileResponse,
    responses=_PIECES,
)
def fetch_blob(sha256: DigestInPath, services: Given, _device: AsDevice) -> Response:
    """A file of a release, its bundle among them, whole or by `Range`. Needs the device's certificate."""
    return _blob(sha256, services)


@router.head("/blobs/{sha256}", operation_id="headUpdateBlob", response_class=FileResponse)
def head_blob(sha256: DigestInPath, services: Given, _device: AsDevice) -> Response:
    """Length and tag of a file of a release. Needs the device's certificate."""
    return _blob(sha256, services)


def _blob(sha256: str, services: Given) -> Response:
    path = services.releases.blobs.whole(sha256)
    with services.store.read() as session:
        served = catalog.is_served(session, sha256)
        bundle = None if served else catalog.bundle_by_digest(session, sha256)
    if bundle is not None:
        return Response(bundle, media_type="application/octet-stream", headers={"ETag": f'"{sha256}"'})
    try:
        status = path.stat() if served else None
    except FileNotFoundError:
        status = None
    if status is None:
        raise not_found("file of a release", sha256)
    return FileResponse(
        path,
        media_type="application/octet-stream",
        headers={"ETag": f'"{sha256}"', "Accept-Ranges": "bytes"},
        stat_result=status,
    )
