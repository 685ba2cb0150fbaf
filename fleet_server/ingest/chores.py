"""What an ingest process does beside events: what goes down, its numbers, and forgetting, on one thread."""

import threading
from collections.abc import Sequence

import structlog
from sqlalchemy.exc import SQLAlchemyError

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from fleet_server.commands import CommandPublisher
from fleet_server.commands.desired import AT_ONCE, DesiredPublisher
from fleet_server.director.signing import PublishedSigning
from fleet_server.evidence import EvidenceStore
from fleet_server.ingest.clock_doubt import ClockDoubt
from fleet_server.ingest.intake import Intake
from fleet_server.ingest.metrics import IngestMetrics, remove_snapshot, write_snapshot
from fleet_server.ingest.retention import forget_old, leapt
from fleet_server.ingest.session import Session
from fleet_server.releases.online_keys import OnlineKeys
from fleet_server.settings import ServerSettings
from fleet_server.storage.engine import Store
from fleet_server.storage.migrate import reason

_STOP_S = 5.0
_COMMANDS_S = 0.25
_NUMBERS_NS = 5 * NS_PER_S
_FORGET_NS = 600 * NS_PER_S
_PUBLISH_S = 5.0
_RETAIN_S = 10.0
_ROUNDS = 4
"""Full batches of desired states before commands have their turn again."""


class Chores:
    """Runs until it is stopped.

    Args:
        settings: of the server.
        store: the database.
        session: with the broker.
        intake: the queue, for its numbers.
        metrics: of this worker.
        clock: times everything.
        worker: number of this process; only the first one publishes and forgets.
    """

    def __init__(
        self,
        settings: ServerSettings,
        store: Store,
        session: Session,
        intake: Intake,
        *,
        metrics: IngestMetrics,
        clock: Clock,
        worker: int,
    ) -> None:
        self._settings, self._store, self._session, self._intake = settings, store, session, intake
        self._metrics, self._clock, self._worker = metrics, clock, worker
        self._commands = CommandPublisher(store, self._publish, clock)
        signing = PublishedSigning(OnlineKeys(settings.paths))
        self._desired = DesiredPublisher(store, self._retain, signing, clock)
        self._evidence = EvidenceStore(settings.paths.evidence, store, settings.evidence, clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chores", daemon=True)
        self._numbers_ns = self._forget_ns = 0
        self._doubt = ClockDoubt()
        self._log = structlog.get_logger()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and leave no numbers behind."""
        self._stopping.set()
        self._thread.join(_STOP_S)  # a transaction that goes on longer is rolled back by our end
        remove_snapshot(self._settings.paths.run, self._worker)

    def _run(self) -> None:
        while not self._stopping.wait(_COMMANDS_S):
            self._try_step()

    def _try_step(self) -> None:
        try:
            self._step(self._clock.monotonic_ns())
        except SQLAlchemyError as error:
            # the worker says aloud that the database is away; here it is only tried again
            self._log.debug("chores wait for the database", reason=reason(error))
        except OSError as error:
            self._log.warning("chores wait for the disk", reason=error.strerror)
        except Exception as error:  # noqa: BLE001 - else no command would go out any more, and nobody would know
            # its type alone: its text may hold what a device sent
            self._log.error("chores failed", error=type(error).__name__)

    def _step(self, now_ns: int) -> None:
        if now_ns - self._numbers_ns >= _NUMBERS_NS:
            self._numbers_ns = now_ns
            self._write_numbers()
        if self._worker != 1:
            return
        if self._session.is_up:
            self._commands.step()
            for _ in range(_ROUNDS):
                if self._desired.step() < AT_ONCE:
                    break
        wall = self._clock.wall()
        if wall.synced and now_ns - self._forget_ns >= _FORGET_NS:
            self._forget_ns = now_ns
            self._forget(wall.unix_ns // NS_PER_MS)

    def _forget(self, now_ms: int) -> None:
        if not self._believes(now_ms):
            return
        done = forget_old(
            self._store, self._evidence, self._settings.retention, now_ms, self._stopping.is_set
        )
        if done.events or done.epochs:
            self._log.info(
                "old events were forgotten", events=done.events, evidence=done.evidence, epochs=done.epochs
            )

    def _believes(self, now_ms: int) -> bool:
        doubt, before = self._doubt, self._doubt.doubted_ms
        seems_right = doubt.believed_ms is not None
        if not seems_right:
            with self._store.read() as session:
                seems_right = not leapt(session, now_ms)
        believed = doubt.believes(
            now_ms, self._clock.boottime_ns() // NS_PER_MS, first_seems_right=seems_right
        )
        self._metrics.clock_doubted.set(int(not believed))
        if doubt.doubted_ms not in (None, before):
            self._log.warning(
                "the wall clock leapt, or no event came for days: nothing is forgotten for hours"
            )
        return believed

    def _publish(self, topic: str, payload: bytes, expiry_s: int) -> bool:
        return self._session.publish_confirmed(topic, payload, expiry_s, _PUBLISH_S)

    def _retain(self, messages: Sequence[tuple[str, bytes]]) -> list[bool]:
        return self._session.retain_confirmed(messages, _RETAIN_S)

    def _write_numbers(self) -> None:
        metrics, intake = self._metrics, self._intake
        metrics.waiting.set(intake.waiting)
        metrics.waiting_bytes.set(intake.waiting_bytes)
        metrics.left_out.set(intake.left_out)
        metrics.broker_up.set(int(self._session.is_up))
        metrics.reconnects.set(self._session.counts.losses)
        write_snapshot(self._settings.paths.run, self._worker, metrics.text())
