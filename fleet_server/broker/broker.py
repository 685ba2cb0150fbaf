"""What the server expects of a broker, whoever runs it."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from edge_runtime.errors import EdgeRuntimeError
from fleet_server.authority import RevokedCertificate
from fleet_server.broker.users import BrokerUser


class BrokerError(EdgeRuntimeError):
    """The broker does not run, or did not take what it was told."""


class BrokerState(str, Enum):
    """How a broker is, as far as the server can know."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A look at the broker.

    Attributes:
        state: `waiting` is between an end that nobody asked for and the next start.
        pid: None unless it is a child that runs.
        restarts: starts beyond the first one.
        trouble: a sentence on what is wrong; empty when nothing is.
    """

    state: BrokerState
    pid: int | None = None
    restarts: int = 0
    trouble: str = ""


class Broker(Protocol):
    """A broker that can be told who may connect."""

    def start(self, users: Collection[BrokerUser], revoked: Collection[RevokedCertificate]) -> None:
        """Let these in from the beginning.

        Raises:
            BrokerError: it does not run.
        """
        ...

    def apply(self, users: Collection[BrokerUser], revoked: Collection[RevokedCertificate]) -> None:
        """Let exactly these in from now on; whoever is out loses a live connection, where the broker can do that.

        Raises:
            BrokerError: it was not told, and must be told again.
        """
        ...

    def status(self) -> BrokerStatus:
        """How it is."""
        ...

    def stop(self) -> None:
        """End what `start` began."""
        ...
