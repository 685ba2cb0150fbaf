"""The embedded broker: nats-server as a supervised child that is told at once who may connect.

It is started again with a doubling pause when it ends by itself, keeps its store through kill -9, and ends with
the server however that ends.
"""

import logging
import socket
import ssl
import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.errors import EdgeRuntimeError
from fleet_server.authority import CertificateFiles, RevokedCertificate
from fleet_server.authority.files import write_whole
from fleet_server.broker.broker import BrokerError, BrokerState, BrokerStatus
from fleet_server.broker.nats_config import NatsListen, nats_config
from fleet_server.broker.nats_process import NatsProcess
from fleet_server.broker.ready import answers, client_context
from fleet_server.broker.users import BrokerUser

RELOAD_S_PER_USER = 0.001
"""Four times what a reload took here for each user; see docs/decisions/0111."""

MOST_SILENT = 3

_log = logging.getLogger("fleet_server.broker")


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """Where the broker listens and what it shows.

    Attributes:
        directory: for its configuration, log and store.
        host: address to listen on.
        port: MQTT over TLS; 0 chooses a free one, once.
        websocket_port: MQTT over WebSocket and TLS; None for none, 0 chooses.
        server: certificate that it shows to devices.
        ingest: certificate with which the server asks whether it is ready.
        authority: whose certificates it accepts.
        max_store_bytes: bound of its store.
        ready_s: how long a start may take; recovery of a large store counts.
        reload_s: how long a reload may take, beside `RELOAD_S_PER_USER`, before the child is started anew instead.
        probe_s: between two looks whether it still answers; three in a row without an answer and it is killed.
        stop_s: between SIGTERM and SIGKILL.
        first_pause_s, longest_pause_s: between starts.
        served_pause_s: between starts at most, when the last one had come to serve: a broker that was killed is
            missed at once, one that cannot start is not tried more often for it.
        settled_s: after running so long the pause is the first one again.
    """

    directory: Path
    server: CertificateFiles
    ingest: CertificateFiles
    authority: Path
    host: str = "0.0.0.0"  # noqa: S104 - devices reach it from outside; TLS with client certificates is always on
    port: int = 8883
    websocket_port: int | None = None
    max_store_bytes: int = 4 << 30
    ready_s: float = 60.0
    reload_s: float = 5.0
    probe_s: float = 15.0
    stop_s: float = 10.0
    first_pause_s: float = 0.2
    longest_pause_s: float = 10.0
    served_pause_s: float = 3.0
    settled_s: float = 30.0


class EmbeddedBroker:
    """nats-server, kept running by a thread. All methods may be called from any thread.

    Args:
        settings: where it listens and what it shows.
        clock: measures pauses and deadlines.
    """

    def __init__(self, settings: EmbeddedSettings, clock: Clock) -> None:
        self._settings = replace(
            settings,
            port=settings.port or _free_port(settings.host),
            websocket_port=_free_port(settings.host)
            if settings.websocket_port == 0
            else settings.websocket_port,
        )
        self._clock = clock
        self._configuration = settings.directory / "nats.conf"
        self._log_file = settings.directory / "nats.log"
        self._listen = self._listening()
        self._applying = threading.Lock()
        self._lock = threading.Condition()
        self._wake = threading.Event()  # cuts a pause short
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._process: NatsProcess | None = None
        self._wanted = ""
        self._loaded = ""
        self._status = BrokerStatus(BrokerState.STOPPED)

    @property
    def port(self) -> int:
        """MQTT over TLS."""
        return self._settings.port

    @property
    def websocket_port(self) -> int | None:
        """MQTT over WebSocket and TLS."""
        return self._settings.websocket_port

    # NATS knows users, not revocation lists: `revoked` is for other brokers
    def start(self, users: Collection[BrokerUser], revoked: Collection[RevokedCertificate] = ()) -> None:  # noqa: ARG002
        """Start it with these users and wait until it serves.

        Raises:
            BrokerError: it did not serve in time; it is stopped then.
            EdgeRuntimeError: nats-server is not installed, or a file cannot be written.
        """
        if self._thread is not None:
            raise BrokerError("the broker was started already")
        self._listen.store.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write(users)
        self._stopping.clear()
        self._status = BrokerStatus(BrokerState.STARTING)
        self._thread = threading.Thread(target=self._supervise, name="broker", daemon=True)
        self._thread.start()
        with self._lock:
            self._lock.wait_for(self._came_up_or_cannot, self._settings.ready_s + 5)
            status = self._status
        if status.state is not BrokerState.RUNNING:
            self.stop()
            raise BrokerError(f"the broker did not start: {status.trouble or 'it gave no reason'}")

    def apply(self, users: Collection[BrokerUser], revoked: Collection[RevokedCertificate] = ()) -> None:  # noqa: ARG002
        """Let exactly these in. NATS closes the connections of users that are gone when it reloads.

        When the reload is not confirmed, the child is killed and starts with the new users: a revocation is obeyed
        in any case.

        Raises:
            BrokerError: the broker does not run now; it will start with these users.
            EdgeRuntimeError: the configuration cannot be written.
        """
        with self._applying:
            self._write(users)
            with self._lock:
                self._lock.wait_for(
                    lambda: self._status.state is not BrokerState.STARTING, self._settings.ready_s
                )
                process, status, wanted = self._process, self._status, self._wanted
            if process is None or status.state is not BrokerState.RUNNING:
                raise BrokerError("the broker does not run at this moment; it is told when it starts")
            if wanted == self._loaded:
                return
            self._reload(process, wanted, self._settings.reload_s + len(users) * RELOAD_S_PER_USER)

    def status(self) -> BrokerStatus:
        """How it is now."""
        with self._lock:
            return self._status

    def restart(self) -> None:
        """End the child and have it start at once: for a new server certificate, which NATS does not reload."""
        with self._lock:
            process = self._process
        if process is not None:
            process.terminate()
            if process.wait(self._settings.stop_s) is None:
                process.kill()
        self._wake.set()

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL where that takes too long."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._lock:
            self._stopping.set()
            process = self._process
        self._wake.set()
        if process is not None:
            process.terminate()
            if process.wait(self._settings.stop_s) is None:
                _log.warning("broker killed: it did not end within %.0f s", self._settings.stop_s)
                process.kill()
        thread.join(self._settings.stop_s)
        self._wake.clear()

    def _came_up_or_cannot(self) -> bool:
        """A first failure may be the port of a predecessor that is just ending; four are not."""
        state = self._status.state
        return state is BrokerState.RUNNING or (state is BrokerState.WAITING and self._status.restarts > 3)

    def _supervise(self) -> None:
        """The thread: one child after the other. It lives as long as they do, for they end with it."""
        pause_s = self._settings.first_pause_s
        while not self._stopping.is_set():
            began_ns = self._clock.monotonic_ns()
            trouble = self._run_once()
            if self._stopping.is_set():
                break
            if self._clock.monotonic_ns() - began_ns > self._settings.settled_s * NS_PER_S:
                pause_s = self._settings.first_pause_s
            if self._status.state is BrokerState.RUNNING:
                pause_s = min(pause_s, self._settings.served_pause_s)
            _log.warning("broker ended, next start in %.1f s: %s", pause_s, trouble)
            self._set(BrokerState.WAITING, trouble=trouble, more_restarts=1)
            self._wake.wait(pause_s)
            self._wake.clear()
            pause_s = min(pause_s * 2, self._settings.longest_pause_s)
        self._set(BrokerState.STOPPED)

    def _run_once(self) -> str:
        """One child from its start to its end; what was wrong."""
        with self._lock:
            self._loaded = self._wanted
        self._set(BrokerState.STARTING)
        try:
            context = client_context(self._settings.authority, self._settings.ingest)
            process = NatsProcess(self._configuration, self._log_file, self._settings.directory, self._clock)
        except (OSError, EdgeRuntimeError) as error:
            return str(error)
        with self._lock:
            self._process = process
            if self._stopping.is_set():  # `stop` did not see this one
                process.terminate()
        try:
            return self._watch(process, context)
        finally:
            process.kill()
            process.wait()
            with self._lock:
                self._process = None

    def _watch(self, process: NatsProcess, context: ssl.SSLContext) -> str:
        host = _reached_at(self._settings.host)
        is_ready = process.until_ready(
            lambda: answers(host, self._settings.port, context), self._settings.ready_s, _pause
        )
        if not is_ready:
            if process.exit_code is None:
                return f"not ready within {self._settings.ready_s:.0f} s"
            return process.last_words() or f"ended with code {process.exit_code} before it was ready"
        self._set(BrokerState.RUNNING, pid=process.pid)
        code = self._wait_while_it_answers(process, host, context)
        if code is None:
            return f"it did not answer {MOST_SILENT} times in a row"
        return f"ended by signal {-code}" if code < 0 else f"ended with code {code}"

    def _wait_while_it_answers(self, process: NatsProcess, host: str, context: ssl.SSLContext) -> int | None:
        """Its exit code, or None when it runs and does not serve."""
        silent = 0
        while silent < MOST_SILENT:
            code = process.wait(self._settings.probe_s)
            if code is not None:
                return code
            silent = 0 if answers(host, self._settings.port, context) else silent + 1
        return process.exit_code

    def _reload(self, process: NatsProcess, wanted: str, timeout_s: float) -> None:
        if process.reload(timeout_s, _pause):
            with self._lock:
                self._loaded = wanted
            return
        _log.warning("broker did not confirm its reload, so it is started anew: %s", process.last_words())
        process.kill()
        self._wake.set()
        with self._lock:
            is_back = self._lock.wait_for(
                lambda: self._status.state is BrokerState.RUNNING and self._process is not process,
                self._settings.ready_s,
            )
        if not is_back:
            raise BrokerError("the broker was started anew for a change and does not serve yet")

    def _write(self, users: Collection[BrokerUser]) -> None:
        wanted = nats_config(self._listen, users)
        with self._lock:
            if wanted != self._wanted:
                write_whole(self._configuration, wanted.encode(), 0o600)
                self._wanted = wanted

    def _set(
        self, state: BrokerState, *, pid: int | None = None, trouble: str = "", more_restarts: int = 0
    ) -> None:
        with self._lock:
            self._status = BrokerStatus(state, pid, self._status.restarts + more_restarts, trouble)
            self._lock.notify_all()

    def _listening(self) -> NatsListen:
        settings = self._settings
        return NatsListen(
            host=settings.host,
            port=settings.port,
            websocket_port=settings.websocket_port,
            store=settings.directory / "store",
            log=self._log_file,
            certificate=settings.server.certificate,
            key=settings.server.key,
            authority=settings.authority,
            max_store_bytes=settings.max_store_bytes,
        )


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _reached_at(host: str) -> str:
    """Where the machine itself reaches a listener."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not listened on


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
