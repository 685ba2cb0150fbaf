"""Keeping a broker told: the database says who is good, and a thread passes every change on within 250 ms."""

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.errors import EdgeRuntimeError
from fleet_server.authority import RevokedCertificate
from fleet_server.broker.broker import Broker
from fleet_server.broker.users import BrokerUser
from fleet_server.devices import generation, good_certificates, revoked_certificates
from fleet_server.storage import Store

POLL_S = 0.2
EXPIRY_S = 30.0
"""Certificates that ran out are noticed after this long: no row changes when one does."""

RETRY_S = 1.0

_log = logging.getLogger("fleet_server.broker")


class BrokerFollower:
    """Starts a broker with who is good now, and tells it every change.

    Args:
        store: the database.
        broker: whom to tell.
        ingest: the server's own user; asked each time, because its certificate is made anew now and then.
        clock: dates certificates and measures.
    """

    def __init__(self, store: Store, broker: Broker, ingest: Callable[[], BrokerUser], clock: Clock) -> None:
        self._store, self._broker, self._ingest, self._clock = store, broker, ingest, clock
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: int | None = None
        self._told_ns = 0
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Why the broker could not be told the newest change; empty when it was."""
        return self._trouble

    def start(self) -> None:
        """Start the broker and follow.

        Raises:
            EdgeRuntimeError: the broker does not start.
        """
        number, users, revoked = self._good()
        self._broker.start(users, revoked)
        self._told, self._told_ns = number, self._clock.monotonic_ns()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._follow, name="broker-follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Follow no longer, and stop the broker."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._broker.stop()

    def _follow(self) -> None:
        wait_s = POLL_S
        while not self._stopping.wait(wait_s):
            trouble = self._tell_changes()
            if trouble and trouble != self._trouble:
                _log.warning("broker not told of a change, tried again every %.0f s: %s", RETRY_S, trouble)
            self._trouble = trouble
            wait_s = RETRY_S if trouble else POLL_S

    def _tell_changes(self) -> str:
        """Look, tell; what was wrong, or nothing."""
        try:
            with self._store.read() as session:
                number = generation(session)
            is_old = self._clock.monotonic_ns() - self._told_ns > EXPIRY_S * NS_PER_S
            if number == self._told and not is_old:
                return ""
            number, users, revoked = self._good()
            self._broker.apply(users, revoked)
        except EdgeRuntimeError as error:
            return str(error)
        except SQLAlchemyError as error:
            return f"the database did not answer: {type(error).__name__}"
        except Exception as error:  # noqa: BLE001 - without this thread no later revocation would reach the broker
            _log.exception("telling the broker failed")
            return f"a defect of the server: {type(error).__name__}"
        self._told, self._told_ns = number, self._clock.monotonic_ns()
        return ""

    def _good(self) -> tuple[int, list[BrokerUser], list[RevokedCertificate]]:
        now_ms = self._clock.wall().unix_ns // NS_PER_MS
        with self._store.read() as session:  # one state of the database: the number belongs to the rest
            number = generation(session)
            good = good_certificates(session, now_ms)
            revoked = revoked_certificates(session, now_ms)
        return number, [self._ingest(), *(BrokerUser(found.device, found.serial) for found in good)], revoked
