"""A fleet server's application over a new data directory, and clients with each role, without a network.

@pytest.fixture(params=DATABASES)
def api(request, tmp_path) -> Iterator[FleetApi]:
    yield from fleet_api(tmp_path, migrated_database(request, tmp_path))
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy.orm import Session

from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.operation import HeldItem, HeldList
from edge_runtime.protocol.topics import Channel
from fleet_server.cli.in_process import AsgiTransport
from fleet_server.http.limits import Limits
from fleet_server.http.services import Readiness
from fleet_server.ingest import Arrival, Committer, Now, Rules, inspect
from fleet_server.ingest import Limits as IngestLimits
from fleet_server.init import initialise
from fleet_server.operators import Role
from fleet_server.serve.composition import Application, broker_address, build
from fleet_server.serve.web import WebServer, bind, tls_context
from fleet_server.settings import ServerSettings
from fleet_server.storage.device_tables import CertificateRow, DeviceRow
from tests.rigs.databases import put_schema
from tests.rigs.deliveries import WALL_MS, DeviceRig, FakeClock, decision_for, event_record, new_key


@dataclass
class FleetApi:
    """One application.

    Attributes:
        application: what it is made of.
        clock: moves when told.
        parts: what the probes of broker and ingest say; a test may change it.
    """

    directory: Path
    application: Application
    clock: FakeClock
    parts: dict[str, Readiness]

    def __post_init__(self) -> None:
        self._transport = AsgiTransport(self.application.app, lambda: None)
        self._clients: list[httpx.Client] = []

    def client(self, role: Role | None = None, *, token: str | None = None) -> httpx.Client:
        """A client with a new token of a role, with a given token, or with none."""
        if role is not None:
            with self.application.store.write() as session:
                name = f"{role.value}-{len(self._clients)}"
                token = self.application.services.tokens.create(session, name, role)[1]
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        made = httpx.Client(base_url="https://in-process", headers=headers, transport=self._transport)
        self._clients.append(made)
        return made

    def write(self) -> Any:
        """A writing session."""
        return self.application.store.write()

    def take(self, *messages: tuple[str, bytes]) -> None:
        """Messages of devices, through the real core of ingest."""
        now = Now(self.clock.monotonic_ns(), self.clock.wall_ms, self.clock.synced)
        parcels = [inspect(Arrival(topic, body, now.monotonic_ns), Rules(), now) for topic, body in messages]
        Committer(self.application.store, IngestLimits()).commit(parcels, now.wall_ms)

    def deliver(self, device: DeviceRig, *events: Mapping[str, Any]) -> None:
        """Events of a device, committed."""
        self.take(device.bundle(*(device.item(event=dict(event)) for event in events)))

    def hold(self, device: str, count: int = 1) -> list[str]:
        """Have a device say that it holds items; their keys."""
        keys = [new_key() for _ in range(count)]
        items = tuple(held_item(key) for key in keys)
        record = HeldList(device=device, total=count, items=items)
        self.take((DeviceRig(device).topic(Channel.HELD), record.encode()))
        return [key.hex() for key in keys]

    def add_device(self, name: str, state: str = "active", *, serial: str | None = None) -> None:
        """A device with one certificate, without its enrolment."""
        with self.write() as session:
            add_device(session, name, state, serial=serial)

    def close(self) -> None:
        """End it."""
        self._transport.close()
        self.application.close()


def add_device(session: Session, name: str, state: str = "active", *, serial: str | None = None) -> None:
    """Rows of a device and its certificate."""
    session.add(DeviceRow(id=name, state=state, labels={}, created_ms=WALL_MS, changed_ms=WALL_MS))
    session.flush()
    session.add(
        CertificateRow(
            device=name,
            serial=serial or f"{abs(hash(name)):x}",
            state=state,
            key_sha256="a" * 64,
            csr="csr",
            pem="pem",
            not_after_ms=WALL_MS + 30 * 86_400_000,
            created_ms=WALL_MS,
            changed_ms=WALL_MS,
        )
    )


@contextlib.contextmanager
def served(api: FleetApi) -> Iterator[str]:
    """The application on a real socket with TLS; its URL."""
    bound = bind("127.0.0.1", 0)
    web = WebServer(api.application.app, tls_context(api.application.settings), bound)
    thread = threading.Thread(target=lambda: asyncio.run(web.run()), name="web")
    thread.start()
    try:
        asyncio.run(asyncio.wait_for(web.started(), 10))
        yield f"https://localhost:{bound.getsockname()[1]}"
    finally:
        web.stop()
        thread.join(10)
        assert not thread.is_alive()


def fleet_api(
    directory: Path, database: str, limits: Limits | None = None, clock: FakeClock | None = None
) -> Iterator[FleetApi]:
    """One application for a test."""
    clock = clock or FakeClock()
    data = directory / "data"
    put_schema(database)
    initialise(data, database=database, clock=clock)
    settings = ServerSettings.load(data, {})
    parts = {name: Readiness(ready=True, detail="runs") for name in ("broker", "ingest")}
    probes = {name: lambda name=name: parts[name] for name in parts}
    application = build(settings, broker_address(settings, 8883), probes, limits=limits, clock=clock)
    api = FleetApi(data, application, clock, parts)
    yield api
    api.close()


def held_item(key: bytes) -> HeldItem:
    """One held item as a device lists it."""
    return HeldItem(key=key.hex(), receipt=_held(key), left_ms=3_600_000, bytes=1234)


def _held(key: bytes) -> DecisionReceipt:
    return decision_for(
        event_record(), key, decision="hold", reasons=("no_permit",), recipients=(), permit=None
    )
