"""The broker and the ingest of this server, made from its settings, and how each says that it works."""

import sys
from collections.abc import Callable, Mapping, Sequence

from edge_runtime.clock import Clock
from fleet_server.authority import CertificateAuthority, CertificateFiles
from fleet_server.broker import BrokerState, EmbeddedBroker, EmbeddedSettings, ExternalBroker, ExternalFiles
from fleet_server.http.services import Readiness
from fleet_server.serve.children import Child
from fleet_server.settings import BROKER_VARIABLE, ServerSettings

ServerBroker = EmbeddedBroker | ExternalBroker


def broker_of(settings: ServerSettings, authority: CertificateAuthority, clock: Clock) -> ServerBroker:
    """The broker that the settings name; nothing is started yet."""
    paths = settings.paths
    if settings.broker.kind == "external":
        files = ExternalFiles(revoked=paths.revocation_list, access=paths.root / "access.acl")
        return ExternalBroker(files, authority, clock, reload=settings.broker.reload)
    return EmbeddedBroker(
        EmbeddedSettings(
            directory=paths.broker,
            server=CertificateFiles(paths.server_key, paths.server_certificate),
            ingest=CertificateFiles(paths.ingest_key, paths.ingest_certificate),
            authority=paths.ca_certificate,
            host=settings.broker.host,
            port=settings.broker.port,
            websocket_port=settings.broker.websocket_port,
        ),
        clock,
    )


def broker_probe(broker: ServerBroker) -> Callable[[], Readiness]:
    """Whether the broker serves, as `/readyz` shows it."""

    def probe() -> Readiness:
        status = broker.status()
        if status.trouble:
            return Readiness(ready=False, detail=status.trouble[:200])
        restarts = f", restarted {status.restarts} times" if status.restarts else ""
        works = status.state in (BrokerState.RUNNING, BrokerState.EXTERNAL)
        return Readiness(ready=works, detail=f"{status.state.value}{restarts}")

    return probe


def ingest_children(
    settings: ServerSettings, environment: Mapping[str, str], broker: ServerBroker, clock: Clock
) -> list[Child]:
    """The processes that take events in. They get settings by environment: an argument would show a password."""
    variables = dict(environment)
    if isinstance(broker, EmbeddedBroker) and settings.broker.port == 0:
        variables[BROKER_VARIABLE] = f"mqtts://localhost:{broker.port}"  # the port that it chose
    count = settings.ingest.workers
    command = [sys.executable, "-m", "fleet_server.ingest", "--data", str(settings.paths.root)]
    return [
        Child(
            f"ingest-{number}" if count > 1 else "ingest",
            [*command, "--worker", str(number), "--with-parent"],
            variables,
            clock,
        )
        for number in range(1, count + 1)
    ]


def ingest_probe(children: Sequence[Child]) -> Readiness:
    """Whether events are taken in: one worker is enough, and a missing one is named."""
    ready = sum(1 for child in children if child.ready.is_set())
    restarts = sum(child.restarts for child in children)
    detail = f"{ready} of {len(children)} workers" + (f", restarted {restarts} times" if restarts else "")
    return Readiness(ready=ready > 0, detail=detail)
