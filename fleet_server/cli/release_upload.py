"""Handing the files of a release to the server, as far as it has not got them."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_runtime.errors import ConfigError
from fleet_server.cli.client import FleetClient
from fleet_server.cli.release_signing import content_for

if TYPE_CHECKING:
    from fleet_server.releases.proposal import Proposal

_PIECE_BYTES = 4 * 1024 * 1024


def upload(client: FleetClient, proposal: "Proposal", path: Path, release: Path | None, body: Any) -> None:
    """Announce a proposal and send what the server lacks; an upload that was cut goes on where it stands.

    Raises:
        EdgeRuntimeError: the server will not have it, or there are no files where some are needed.
    """
    awaited = client.post("/v1/releases/announce", body)["awaited"]
    if not awaited:
        return
    if release is None:
        raise ConfigError(f"the server has not the files of {path}: give them with --release FILE")
    with tempfile.TemporaryDirectory(prefix="fleet-release.") as scratch:
        content = content_for(proposal, release, Path(scratch))
        places = {file.sha256: content.files[file.path] for file in content.bundle.files}
        for one in awaited:
            _send(client, one, places[one["sha256"]])


def _send(client: FleetClient, awaited: Any, place: Path) -> None:
    offset = awaited["offset"]
    with place.open("rb") as stream:
        stream.seek(offset)
        while True:
            piece = stream.read(_PIECE_BYTES)
            headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
            client.send(f"/v1/releases/blobs/{awaited['sha256']}", piece, headers)
            offset += len(piece)
            if offset >= awaited["bytes"] or not piece:
                return
