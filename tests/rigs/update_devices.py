"""A device with a certificate of the server's authority, which fetches updates over real TLS.

with served(api) as url, device_client(api, url, tmp_path, "dock-1") as device:
    device.get("/v1/updates/metadata/timestamp.json")
"""

import contextlib
import hashlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.update import ASSIGNMENT_TYPE, Assignment
from edge_runtime.updates.trust import HttpFetch, Trust
from fleet_server.authority.authority import private_pem
from fleet_server.operators import Role
from tests.rigs.enrolments import Asker
from tests.rigs.fleet_api import FleetApi
from tests.rigs.release_parties import SignedFleet


@dataclass
class DeviceClient:
    """An enrolled device.

    Attributes:
        key_sha256: of its public key.
        root: the fleet's root as enrolment gave it; None where there was none.
    """

    name: str
    url: str
    context: ssl.SSLContext
    key_sha256: str
    root: str | None
    http: httpx.Client

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.http.get(path, **options)

    def head(self, path: str) -> httpx.Response:
        return self.http.head(path)

    def trust(self, directory: Path, fleet: SignedFleet) -> Trust:
        """The device's own trust, which begins with the root of its enrolment."""
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / "root.json").exists():
            assert self.root is not None
            (directory / "root.json").write_text(self.root)
        fetch = HttpFetch(self.url, lambda: self.context, clock=fleet.clock)
        return Trust(directory, device=self.name, key_sha256=self.key_sha256, fetch=fetch, clock=fleet.clock)

    def assignment(self, fleet: SignedFleet, **fields: Any) -> bytes:
        """An assignment for this device, sealed by the server's director."""
        values = {
            "device": self.name,
            "key_sha256": self.key_sha256,
            "issued_ms": fleet.now_ms,
            "expires_ms": fleet.now_ms + 86_400_000,
        }
        director = fleet.desk.keys.director(fleet.trusted().keyids("director"))
        return seal(Assignment(**(values | fields)), ASSIGNMENT_TYPE, director)


@contextlib.contextmanager
def device_client(api: FleetApi, url: str, folder: Path, name: str) -> Iterator[DeviceClient]:
    """Invite a device and enrol it over the network."""
    asker, authority = Asker(name), str(api.application.settings.paths.ca_certificate)
    operator = api.client(Role.OPERATOR)
    token = operator.post("/v1/invitations", json={"device": name}).json()["token"]
    context = ssl.create_default_context(cafile=authority)
    with httpx.Client(base_url=url, verify=context, trust_env=False) as nobody:
        answer = nobody.post("/v1/enrolment", json=asker.request(token).model_dump(mode="json"))
    assert answer.status_code == 200, answer.text
    file = folder / f"{name}.identity.pem"
    file.write_bytes(answer.json()["certificate"].encode() + private_pem(asker.key))
    own = ssl.create_default_context(cafile=authority)
    own.load_cert_chain(file)
    spki = asker.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    with httpx.Client(base_url=url, verify=own, trust_env=False, timeout=10) as http:
        digest = hashlib.sha256(spki).hexdigest()
        yield DeviceClient(name, url, own, digest, answer.json().get("release_root"), http)
