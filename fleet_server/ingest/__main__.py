"""The ingest process: `python -m fleet_server.ingest --data DIR [--worker N]`.

Prints `ready` on stdout once it takes messages. SIGTERM and SIGINT end it cleanly: what it took is committed,
receipted and acknowledged first. SIGKILL loses nothing that was receipted.
Exit codes: 0 ended cleanly, 1 the database or a certificate cannot be used, 2 its settings cannot be used.
"""

import argparse
import contextlib
import secrets
import signal
import ssl
import sys
from pathlib import Path

import structlog

from edge_runtime.clock import SystemClock
from edge_runtime.collector import collect_rarely
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.lifeline import die_with_parent, leave_no_core
from fleet_server.ingest.chores import Chores
from fleet_server.ingest.commit import Committer
from fleet_server.ingest.intake import Intake
from fleet_server.ingest.judgement import Rules
from fleet_server.ingest.metrics import IngestMetrics
from fleet_server.ingest.session import Session, SessionSettings
from fleet_server.ingest.settlement import Limits
from fleet_server.ingest.worker import Worker
from fleet_server.settings import ServerSettings
from fleet_server.storage import open_store, upgrade


class CannotStart(EdgeRuntimeError):
    """Something that ingest needs is missing."""


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal asks for the end; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fleet_server.ingest", description="Takes events in.")
    parser.add_argument("--data", type=Path, required=True, help="data directory of the server")
    parser.add_argument("--worker", type=int, default=1, help="number of this process, from 1")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent process ends")
    options = parser.parse_args(arguments)
    leave_no_core()
    if options.with_parent:
        die_with_parent()
    configure_logs()
    try:
        return _serve(ServerSettings.load(options.data), options.worker)
    except EdgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


def configure_logs() -> None:
    """One line of key=value on stderr; stdout belongs to the ready line."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),  # info
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def session_settings(settings: ServerSettings, number: int) -> SessionSettings:
    """How this process reaches the broker.

    Raises:
        CannotStart: a certificate is missing or cannot be read.
    """
    broker, paths = settings.broker, settings.paths
    context = None
    if broker.uses_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # our own child on loopback is known by its certificate, whatever its public names are
        context.check_hostname = broker.kind == "external"
        try:
            context.load_verify_locations(cafile=str(paths.ca_certificate))
            context.load_cert_chain(paths.ingest_certificate, paths.ingest_key)
        except OSError as error:  # ssl.SSLError is one
            where = f"{paths.tls} and {paths.authority}"
            raise CannotStart(
                f"the certificate of ingest cannot be read ({error.strerror}): see {where}"
            ) from None
    embedded_nats = broker.kind == "embedded" and broker.protocol == "auto"
    return SessionSettings(
        address=broker.address(),
        tls=context,
        # random, so that a worker of the same number on another machine does not throw this one out
        client_id=f"fleet-ingest-{number}-{secrets.token_hex(4)}",
        protocol="3.1.1" if embedded_nats else broker.protocol,
        receive_maximum=settings.ingest.receive_maximum,
        alone=settings.ingest.workers == 1,
    )


def _serve(settings: ServerSettings, number: int) -> int:
    clock, ingest, metrics = SystemClock(), settings.ingest, IngestMetrics(number)
    store = open_store(settings.database_url)
    upgrade(store)
    intake = Intake(ingest.queue_messages, ingest.queue_bytes)
    session = Session(
        session_settings(settings, number),
        clock,
        intake.put,
        came_up=_ReadyLine(),
        gave_up=lambda: worker.stop(),  # noqa: PLW0108 - the worker is made below
    )
    worker = Worker(
        intake,
        Committer(store, Limits.of(ingest)),
        session,
        rules=Rules.of(settings),
        settings=ingest,
        clock=clock,
        metrics=metrics,
    )
    chores = Chores(settings, store, session, intake, metrics=metrics, clock=clock, worker=number)
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda _number, _frame: worker.stop())
    collect_rarely()
    session.start()
    chores.start()
    try:
        worker.run()
    finally:
        chores.stop()
        session.stop()
        store.close()
    if session.fatal is not None:
        raise session.fatal
    return 0


class _ReadyLine:
    """Says `ready` after the first subscription and never again: nobody may be reading by then."""

    def __init__(self) -> None:
        self._is_said = False

    def __call__(self) -> None:
        if not self._is_said:
            self._is_said = True
            with contextlib.suppress(OSError):
                sys.stdout.write("ready\n")
                sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
