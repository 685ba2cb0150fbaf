"""`fleet serve`: starts the HTTP API, the broker and ingest in this order, watches them, and ends them in reverse.

The HTTP API comes first, so that `/healthz` and `/readyz` tell what is missing while the rest starts. A part that
ends is started again, by itself and without the others. Nothing survives this process, however it ends.
"""

import asyncio
import logging
import os
import signal
import ssl
import sys
from collections.abc import Awaitable, Coroutine
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard.notify import ServiceManager
from fleet_server.authority import (
    CertificateAuthority,
    CertificateFiles,
    ensure_ingest_certificate,
    ensure_server_certificate,
    subject_of,
)
from fleet_server.broker import BrokerFollower, BrokerUser, EmbeddedBroker
from fleet_server.devices.states import bump
from fleet_server.init import ALWAYS
from fleet_server.serve.children import Child
from fleet_server.serve.composition import Application, broker_address, build
from fleet_server.serve.keeping import keep_fresh, step_rollouts
from fleet_server.serve.logs import configure_logging
from fleet_server.serve.machine_numbers import machine_gauges
from fleet_server.serve.parts import ServerBroker, broker_of, broker_probe, ingest_children, ingest_probe
from fleet_server.serve.running import RunningServer, ServeLock
from fleet_server.serve.watched import keep_fed, service_manager
from fleet_server.serve.web import WebServer, bind, tls_context
from fleet_server.settings import BROKER_VARIABLE, DATABASE_VARIABLE, LISTEN_VARIABLE, ServerSettings
from fleet_server.storage import Store

READY_S = 60.0
"""Within this the ingest is ready, or the server gives up; the broker has its own, longer patience."""

CERTIFICATES_EVERY_S = 6 * 3600.0
STOP_S = 5.0
TOLD_S = 2.0
"""Within this the broker knows of a change in the database."""

EXIT_AT_ONCE = 130
_log = logging.getLogger("fleet_server.serve")


def serve(directory: Path, *, database: str | None, broker: str | None, listen: str | None) -> int:
    """Run the server until a signal asks for its end.

    Args:
        directory: its data directory.
        database: URL instead of the settings' own; None for that one.
        broker: URL of another broker; None for the settings' own.
        listen: HOST:PORT of the HTTP API; None for the settings' own.

    Returns:
        The exit code.

    Raises:
        EdgeRuntimeError: settings cannot be used, or a part does not start.
    """
    manager = service_manager(os.environ)
    given = {DATABASE_VARIABLE: database, BROKER_VARIABLE: broker, LISTEN_VARIABLE: listen}
    environment = {**os.environ, **{name: value for name, value in given.items() if value is not None}}
    settings = ServerSettings.load(directory, environment)
    os.environ.pop(DATABASE_VARIABLE, None)  # it may hold a password, and the broker inherits what is left
    clock = SystemClock()
    configure_logging(clock)
    with ServeLock(settings.paths) as lock:
        return asyncio.run(_Server(settings, environment, clock, lock, manager).run())


class _Server:
    def __init__(
        self,
        settings: ServerSettings,
        environment: dict[str, str],
        clock: Clock,
        lock: ServeLock,
        manager: ServiceManager,
    ) -> None:
        self._manager = manager
        self._settings, self._environment, self._clock, self._lock = settings, environment, clock, lock
        self._stopping = asyncio.Event()
        self._children: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        bound = bind(self._settings.http.host, self._settings.http.port)
        authority = self._authority()
        broker = broker_of(self._settings, authority, self._clock)
        address = broker_address(self._settings, getattr(broker, "port", 0))
        application = await asyncio.to_thread(
            build,
            self._settings,
            address,
            {
                "broker": broker_probe(broker),
                "ingest": lambda: ingest_probe(self._children, self._settings.paths.run, self._clock),
            },
            closing=self._stopping.is_set,
            clock=self._clock,
        )
        application.services.metrics.observe(bound.numbers)
        application.services.metrics.observe(lambda: machine_gauges(self._settings.paths))
        context = tls_context(self._settings)
        web = WebServer(application.app, context, bound)
        follower = self._follower(application, broker)
        try:
            serving = self._spawn(web.run())
            await self._unless_stopped(web.started(), 10.0, "the HTTP API")
            await self._unless_stopped(asyncio.to_thread(follower.start), 120.0, "the broker")
            if not self._stopping.is_set():
                self._children = ingest_children(self._settings, self._environment, broker, self._clock)
                for child in self._children:
                    self._spawn(child.run())
                await self._unless_stopped(self._ingest_ready(), READY_S, "ingest")
            if not self._stopping.is_set():
                self._announce(bound.getsockname()[1], f"{address.host}:{address.port}")
                renewing = self._spawn(self._renew(authority, context, broker, application.store))
                keeping = self._spawn(keep_fresh(application.services.releases))
                stepping = self._spawn(step_rollouts(application.services.rollouts))
                feeding = self._spawn(keep_fed(self._manager))
                await self._until_stopped(serving)
                renewing.cancel()
                keeping.cancel()
                stepping.cancel()
                feeding.cancel()
        finally:
            await self._end(web, follower, application)
        return 0

    def _follower(self, application: Application, broker: ServerBroker) -> BrokerFollower:
        certificate = self._settings.paths.ingest_certificate
        return BrokerFollower(
            application.store, broker, lambda: BrokerUser(*subject_of(certificate)), self._clock
        )

    def _authority(self) -> CertificateAuthority:
        paths = self._settings.paths
        authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, self._clock)
        self._ensure_certificates(authority)
        return authority

    def _ensure_certificates(self, authority: CertificateAuthority) -> tuple[bool, bool]:
        """Whether the server's certificate, and that of ingest, were made anew."""
        paths = self._settings.paths
        hosts = list(dict.fromkeys([*self._settings.hosts, *ALWAYS]))
        return (
            ensure_server_certificate(
                authority, CertificateFiles(paths.server_key, paths.server_certificate), hosts
            ),
            ensure_ingest_certificate(
                authority, CertificateFiles(paths.ingest_key, paths.ingest_certificate)
            ),
        )

    async def _ingest_ready(self) -> None:
        await asyncio.gather(*(child.ready.wait() for child in self._children))

    def _announce(self, port: int, broker: str) -> None:
        host = self._settings.hosts[0]
        shown = f"[{host}]" if ":" in host else host
        self._lock.announce(RunningServer(os.getpid(), port, broker, self._settings.database_url))
        sys.stdout.write(f"ready https://{shown}:{port} broker {broker}\n")
        sys.stdout.flush()
        _log.info("ready port=%d broker=%s pid=%d", port, broker, os.getpid())
        self._manager.ready(f"devices reach https://{shown}:{port}, broker {broker}")

    async def _until_stopped(self, serving: asyncio.Task[None]) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if not self._stopping.is_set():
            raise EdgeRuntimeError("the HTTP API ended by itself; its log says why")

    async def _renew(
        self,
        authority: CertificateAuthority,
        context: ssl.SSLContext,
        broker: ServerBroker,
        store: Store,
    ) -> None:
        """Have the server's own certificates outlive it."""
        while True:
            await asyncio.sleep(CERTIFICATES_EVERY_S)
            try:
                server, ingest = await asyncio.to_thread(self._ensure_certificates, authority)
                if server:
                    paths = self._settings.paths
                    context.load_cert_chain(paths.server_certificate, paths.server_key)
                    if isinstance(broker, EmbeddedBroker):
                        await asyncio.to_thread(broker.restart)
                if ingest:
                    await asyncio.to_thread(_have_broker_told, store)
                    await asyncio.sleep(TOLD_S)
                    for child in self._children:
                        child.restart()
            except (EdgeRuntimeError, OSError, SQLAlchemyError) as error:  # the next round tries again
                _log.error("certificates cannot be renewed: %s", error)

    async def _unless_stopped(self, work: Awaitable[None], within_s: float, what: str) -> None:
        """Wait for a part to start, or for a signal.

        Raises:
            EdgeRuntimeError: it did not start in time.
        """
        task = asyncio.ensure_future(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait(
                {task, stopping}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
        if task in done:
            task.result()
        elif not self._stopping.is_set():
            task.cancel()
            raise EdgeRuntimeError(f"{what} was not ready within {within_s:.0f} s; the log says why")

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(_log_failure)
        self._tasks.append(task)
        return task

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            _log.warning("second signal: ending at once")
            for child in self._children:
                child.kill()
            os._exit(EXIT_AT_ONCE)  # the broker and ingest end with this process
        _log.info("ending")
        self._stopping.set()

    async def _end(self, web: WebServer, follower: BrokerFollower, application: Application) -> None:
        """In reverse: no new requests, ingest finishes its batch and its receipts, then the broker goes."""
        self._manager.stopping()
        self._stopping.set()
        web.stop()
        await asyncio.gather(*(child.stop() for child in self._children))
        await asyncio.to_thread(follower.stop)
        pending = [task for task in self._tasks if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=STOP_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        application.close()


def _have_broker_told(store: Store) -> None:
    with store.write() as session:
        bump(session)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("part failed: %s", error, exc_info=error)
