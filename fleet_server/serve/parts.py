"""The broker and the ingest of this server, made from its settings, and how each says that it works."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from fleet_server.authority import CertificateAuthority, CertificateFiles
from fleet_server.broker import BrokerState, EmbeddedBroker, EmbeddedSettings, ExternalBroker, ExternalFiles
from fleet_server.http.services import Readiness
from fleet_server.serve.children import Child
from fleet_server.settings import BROKER_VARIABLE, ServerSettings

SILENT_S = 60.0
"""Numbers are written every 5 s; forgetting what is old may keep them waiting for a while."""

_NUMBERS_BYTES = 1 << 20
ServerBroker = EmbeddedBroker | ExternalBroker


def broker_of(settings: ServerSettings, authority: CertificateAuthority, clock: Clock) -> ServerBroker:
    """The broker that the settings name; nothing is started yet."""
    paths = settings.paths
    server = CertificateFiles(paths.server_key, paths.server_certificate)
    if settings.broker.kind == "external":
        folder = paths.external if settings.broker.files is None else Path(settings.broker.files)
        return ExternalBroker(ExternalFiles(folder), server, authority, clock, reload=settings.broker.reload)
    return EmbeddedBroker(
        EmbeddedSettings(
            directory=paths.broker,
            server=server,
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
    for left in settings.paths.run.glob("ingest-*.prom"):  # of a server that was killed
        left.unlink(missing_ok=True)
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


def ingest_probe(children: Sequence[Child], run: Path, clock: Clock) -> Readiness:
    """Whether events are taken in: one worker is enough, and a missing one is counted.

    A worker that hangs stays a process; it is told by the numbers that it no longer writes, and one that has lost
    the broker by what it writes.
    """
    now_s = clock.wall().unix_ns / NS_PER_S
    states = [
        _worker_state(run / f"ingest-{number}.prom", now_s) if child.ready.is_set() else "not ready"
        for number, child in enumerate(children, start=1)
    ]
    works = states.count("")
    restarts = sum(child.restarts for child in children)
    notes = [*sorted({state for state in states if state})]
    if restarts:
        notes.append(f"restarted {restarts} times")
    return Readiness(ready=works > 0, detail=", ".join([f"{works} of {len(states)} workers", *notes]))


def _worker_state(numbers: Path, now_s: float) -> str:
    """What is wrong with a worker that said it was ready; nothing for one that has not written its numbers yet."""
    try:
        with numbers.open("rb") as file:
            age_s = now_s - os.fstat(file.fileno()).st_mtime
            text = file.read(_NUMBERS_BYTES)
    except OSError:
        return ""
    if age_s > SILENT_S:
        return f"silent for {age_s:.0f} s"
    lost = any(
        line.startswith(b"fleet_ingest_broker_up") and line.endswith(b" 0.0") for line in text.splitlines()
    )
    return "without a session at the broker" if lost else ""
