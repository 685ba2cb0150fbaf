"""The application over a data directory: for the running server, and for commands on the same machine."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.enrolment import BrokerAddress
from fleet_server.audit import Audit
from fleet_server.authority import CertificateAuthority
from fleet_server.authority.files import read_pem
from fleet_server.devices import DeviceRegistry, EnrolmentService
from fleet_server.director.issuing import Director
from fleet_server.director.signing import PublishedSigning
from fleet_server.evidence import EvidenceStore
from fleet_server.http.app import FleetApp, create_app
from fleet_server.http.limits import Limits
from fleet_server.http.metrics import HttpMetrics
from fleet_server.http.services import Cached, RateBooks, Readiness, Services
from fleet_server.ingest.metrics import collected
from fleet_server.operators.admin import ensure_admin_token
from fleet_server.operators.tokens import TokenBook
from fleet_server.paths import ServerPaths
from fleet_server.releases.catalog import newest_root
from fleet_server.releases.desk import ReleaseDesk
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.rollouts.approving import Approvals
from fleet_server.rollouts.service import RolloutService
from fleet_server.serve.remote_readiness import RemoteReadiness
from fleet_server.serve.running import running_server
from fleet_server.settings import DATABASE_VARIABLE, ServerSettings
from fleet_server.storage import Store, open_store, upgrade

READINESS_LIFE_NS = 2 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Application:
    """The application and what it is made of."""

    settings: ServerSettings
    store: Store
    authority: CertificateAuthority
    services: Services
    app: FleetApp

    def close(self) -> None:
        """Give the database back."""
        self.store.close()


def open_application(directory: Path, environment: Mapping[str, str] | None = None) -> Application:
    """The application for a command on the server's machine, whether a server runs or not.

    Raises:
        EdgeRuntimeError: no data directory, or its database or authority cannot be used.
    """
    variables = dict(os.environ if environment is None else environment)
    running = running_server(ServerPaths(directory.expanduser().absolute()))
    if running is not None:
        variables[DATABASE_VARIABLE] = running.database  # what the server was started with
    settings = ServerSettings.load(directory, variables)
    remote = RemoteReadiness(settings.paths, SystemClock())
    return build(settings, broker_address(settings, settings.broker.port), remote.probes())


def build(
    settings: ServerSettings,
    broker: BrokerAddress,
    probes: Mapping[str, Callable[[], Readiness]],
    *,
    closing: Callable[[], bool] = lambda: False,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> Application:
    """Put the application together.

    Args:
        settings: of the server.
        broker: what devices are told.
        probes: parts that `/readyz` asks beside the database.
        closing: true once live streams must end.
        limits: of the HTTP API; the defaults when None.
        clock: the machine's own when None.

    Raises:
        EdgeRuntimeError: the database or the authority cannot be used.
    """
    paths, used, bounds = settings.paths, clock or SystemClock(), limits or Limits()
    authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, used)
    store = open_store(settings.database_url)
    try:
        upgrade(store)
        ensure_admin_token(store, paths.admin_token, used)
    except BaseException:
        store.close()
        raise
    audit = Audit(used)
    services = Services(
        store=store,
        clock=used,
        tokens=TokenBook(used),
        audit=audit,
        enrolment=EnrolmentService(
            store, authority, used, audit.record, broker, release_root=lambda: release_root(store)
        ),
        registry=DeviceRegistry(store, authority, used, audit.record),
        evidence=EvidenceStore(paths.evidence, store, settings.evidence, used),
        releases=ReleaseDesk(paths, store, settings.releases, audit=audit, clock=used),
        rollouts=RolloutService(
            store,
            used,
            audit.record,
            Director(store, PublishedSigning(OnlineKeys(paths))),
            approvals=Approvals(settings.rollouts.approvals),
        ),
        limits=bounds,
        buckets=RateBooks.of(bounds),
        metrics=HttpMetrics(),
        ready=Cached(READINESS_LIFE_NS),
        probes=dict(probes),
        closing=closing,
        certificates=lambda: certificate_ends(paths),
        server_url=lambda: server_url(settings),
        other_metrics=lambda: collected(paths.run, used.wall().unix_ns / NS_PER_S),
    )
    return Application(settings, store, authority, services, create_app(services))


def server_url(settings: ServerSettings) -> str | None:
    """Where devices reach the HTTP API: our first host and the running server's port, else that of the settings.

    Returns:
        None while the port is not known: the settings have it chosen at each start, and none runs.
    """
    running = running_server(settings.paths)
    port = settings.http.port if running is None else running.port
    host = f"[{settings.hosts[0]}]" if ":" in settings.hosts[0] else settings.hosts[0]
    return f"https://{host}:{port}" if port else None


def broker_address(settings: ServerSettings, port: int) -> BrokerAddress:
    """What devices are told: our first host for the embedded broker, its own address for another one."""
    if settings.broker.kind == "external":
        return settings.broker.address()
    return BrokerAddress(host=settings.hosts[0], port=port or 8883)


def release_root(store: Store) -> str | None:
    """The newest signed root of releases, for devices that enrol; None before the ceremony of the keys."""
    with store.read() as session:
        found = newest_root(session)
    return None if found is None else found.decode()


def certificate_ends(paths: ServerPaths) -> dict[str, int]:
    """When the server's own certificates end, milliseconds since 1970."""
    files = {
        "authority": paths.ca_certificate,
        "server": paths.server_certificate,
        "ingest": paths.ingest_certificate,
    }
    return {name: _end(path) for name, path in files.items()}


def _end(path: Path) -> int:
    """When a certificate ends; 0 for one that cannot be read, which is worth a warning too."""
    try:
        found = x509.load_pem_x509_certificate(read_pem(path))
    except (EdgeRuntimeError, ValueError):
        return 0
    return int(found.not_valid_after_utc.timestamp()) * 1000
