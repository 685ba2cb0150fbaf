"""What the uplink is given by others: the outbox, the device's identity, and hands for what it may not know.

The process that composes a device fills these; this room never imports the gate.
"""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from edge_runtime.outbox import EvidenceDue, OutboxStatus, QueuedItem, Settled, SyncPoint
from edge_runtime.protocol.delivery import OutcomeRange, Receipt
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.protocol.operation import CameraHealth, Command, HeldList


class Queue(Protocol):
    """The outbox as the uplink uses it. Every method may raise `OutboxError`."""

    def lease(self, max_items: int, max_bytes: int, min_severity: int = 0) -> list[QueuedItem]:
        """Take events, severest first; they stay ours until settled, given back, or our connection ends."""
        ...

    def unlease(self, seqs: Sequence[int] | None = None) -> object:
        """Give leased events back; None gives all back."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait until something can be leased; False when the time is over."""
        ...

    def settle(self, epoch: str, receipt: Receipt) -> Settled:
        """Take in a receipt."""
        ...

    def sync_point(self) -> SyncPoint:
        """Where the outbox stands."""
        ...

    def outcomes(self, limit: int) -> list[OutcomeRange]:
        """Fates that no receipt has passed yet."""
        ...

    def next_session(self) -> int:
        """A session number larger than all before."""
        ...

    def status(self) -> OutboxStatus:
        """Everything an operator asks."""
        ...


class Watcher(Protocol):
    """Tells the courier when the outbox has something again."""

    def arm(self) -> None:
        """Tell once when there is something."""
        ...

    def disarm(self) -> None:
        """Nothing is to be told."""
        ...


class Publisher(Protocol):
    """A session, as far as publishing goes."""

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, expiry_s: int | None = None
    ) -> int | None:
        """Publish at QoS 1; the id that the broker's word will carry, or None where it cannot go now."""
        ...


class EvidenceQueue(Protocol):
    """The outbox's list of crops that may go. Every method may raise `OutboxError`."""

    def evidence_due(self, limit: int) -> list[EvidenceDue]:
        """Crops whose event was receipted."""
        ...

    def evidence_done(self, sha256: str) -> object:
        """The server has it."""
        ...

    def evidence_failed(self, sha256: str, *, permanent: bool) -> object:
        """The server does not want it, or did not get it this time."""
        ...


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """Who this device is, and whom it talks to.

    Attributes:
        tls: makes a context with the device's certificate; asked anew for every connect.
        client_id: under which it speaks to the broker; None is the device's id.
        renew_in_s: seconds until the certificate should be renewed; None where that cannot be said.
    """

    device: str
    broker: BrokerAddress
    server_url: str | None
    tls: Callable[[], ssl.SSLContext | None]
    renew_in_s: Callable[[], float | None] = lambda: None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What became of a command, in a sentence without content of events."""

    done: bool
    text: str


def _refuse(command: Command) -> CommandAnswer:
    return CommandAnswer(done=False, text=f"this device does not take {command.kind.value}")


def _nothing(_online: bool) -> None:  # noqa: FBT001 - as the port
    pass


def _tell_nobody(_online: bool, _why: str | None, _renewal: str | None) -> None:  # noqa: FBT001 - as the port
    pass


@dataclass(frozen=True, slots=True)
class Hands:
    """What the composition root hands in. All are called from threads of the uplink.

    Attributes:
        review: releases or drops a held item; its answer goes to the server.
        held: the held items that policy lets the operator know of; None where they cannot be listed now.
        cameras: for health.
        renew: renews the certificate; raises an error of the project where that failed.
        degraded: further sentences for health.
        line: told on a change whether the server answers, why not, and why the certificate could not be renewed.
        turned: called after each turn of the uplink's loop, every 5 s at least, with whether the server answers.
    """

    review: Callable[[Command], CommandAnswer] = _refuse
    held: Callable[[], HeldList | None] = lambda: None
    cameras: Callable[[], tuple[CameraHealth, ...]] = tuple
    renew: Callable[[], LinkIdentity] | None = None
    degraded: Callable[[], tuple[str, ...]] = tuple
    line: Callable[[bool, str | None, str | None], object] = _tell_nobody
    turned: Callable[[bool], object] = _nothing
