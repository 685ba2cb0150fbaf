"""Tells the broker who may connect: at its start, and within a quarter of a second of every change."""

import asyncio
import logging

from sqlalchemy.exc import SQLAlchemyError

from edge_runtime.clock import Clock
from edge_runtime.errors import EdgeRuntimeError
from fleet_server.authority import RevokedCertificate, subject_of
from fleet_server.authority.authority import now_ms
from fleet_server.broker.users import BrokerUser
from fleet_server.devices import generation, good_certificates, revoked_certificates
from fleet_server.serve.parts import ServerBroker
from fleet_server.settings import ServerPaths
from fleet_server.storage import Store

POLL_S = 0.2
_RETRY_S = 1.0
_AGAIN_S = 3600.0
_log = logging.getLogger("fleet_server.serve")


class Admission:
    """Watches the number that grows with every change of devices.

    Args:
        store: the database; every process that changes a device counts there.
        broker: who is told.
        paths: where the certificate of ingest lies, which is let in as well.
        clock: its wall clock says which certificates have run out.
    """

    def __init__(self, store: Store, broker: ServerBroker, paths: ServerPaths, clock: Clock) -> None:
        self._store, self._broker, self._paths, self._clock = store, broker, paths, clock
        self._told = -1

    def start(self) -> None:
        """Start the broker with those who may connect now.

        Raises:
            EdgeRuntimeError: it does not run.
        """
        number, users, revoked = self._read()
        self._broker.start(users, revoked)
        self._told = number

    def again(self) -> None:
        """Tell the broker at the next look, whether anything changed or not."""
        self._told = -1

    async def watch(self, stopping: asyncio.Event) -> None:
        """Look and tell until the server stops."""
        since_s = 0.0
        while not stopping.is_set():
            pause_s = POLL_S
            try:
                if since_s > _AGAIN_S or await asyncio.to_thread(self._generation) != self._told:
                    await asyncio.to_thread(self._tell)
                    since_s = 0.0
            except (EdgeRuntimeError, SQLAlchemyError) as error:
                text = error if isinstance(error, EdgeRuntimeError) else type(error).__name__
                _log.warning("broker was not told who may connect: %s", text)
                pause_s = _RETRY_S
            since_s += pause_s
            await asyncio.sleep(pause_s)

    def _tell(self) -> None:
        number, users, revoked = self._read()
        self._broker.apply(users, revoked)
        self._told = number
        _log.info("broker knows who may connect users=%d", len(users))

    def _generation(self) -> int:
        with self._store.read() as session:
            return generation(session)

    def _read(self) -> tuple[int, list[BrokerUser], list[RevokedCertificate]]:
        now = now_ms(self._clock)
        with self._store.read() as session:
            number = generation(session)
            good, revoked = good_certificates(session, now), revoked_certificates(session, now)
        users = [BrokerUser(certificate.device, certificate.serial) for certificate in good]
        return number, [*users, BrokerUser(*subject_of(self._paths.ingest_certificate))], revoked
