"""A device's downloader and store, and a server of blobs, on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.blob_server import BlobServer
from tests.rigs.downloads import Device
from tests.rigs.pki import Credentials, Pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def party(pki: Pki) -> Credentials:
    return pki.device("dev-1")


@pytest.fixture
def server(pki: Pki) -> Iterator[BlobServer]:
    with BlobServer(pki.server()) as started:
        yield started


@pytest.fixture
def device(tmp_path: Path, server: BlobServer, party: Credentials) -> Device:
    return Device(tmp_path / "updates", server.url, party.client_context())
