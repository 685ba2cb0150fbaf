"""Threads beside the engine, for what may block: waiting for the outbox, commands, renewal.

Each has a bounded queue or none, tells the engine through its inbox, and is a daemon: a call that hangs keeps
neither the engine nor the end of the process waiting.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.outbox import OutboxError
from edge_runtime.protocol.operation import Command, CommandKind
from edge_runtime.telemetry import get_logger
from edge_runtime.uplink.commands import SeenCommands
from edge_runtime.uplink.ports import CommandAnswer, Hands, LinkIdentity, Queue

_WAIT_S = 5.0
_PAUSE_S = 1.0
_RENEWAL_PAUSE_NS = 600 * NS_PER_S
MAX_COMMANDS = 16


@dataclass(frozen=True, slots=True)
class Leasable:
    """The outbox has something to lease."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A command was carried out or refused."""

    command: Command
    answer: CommandAnswer


@dataclass(frozen=True, slots=True)
class Renewed:
    """The certificate was renewed, or not.

    Attributes:
        identity: the new one; None where it failed.
        text: what happened.
    """

    identity: LinkIdentity | None
    text: str


class OutboxWatcher:
    """Waits, when asked to, until the outbox has something to lease.

    Args:
        outbox: a connection of its own, because waiting would block other calls.
        tell: called with `Leasable`.
    """

    def __init__(self, outbox: Queue, tell: Callable[[Leasable], None]) -> None:
        self._outbox, self._tell = outbox, tell
        self._armed = threading.Event()
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="uplink-outbox-watch", daemon=True).start()

    def arm(self) -> None:
        """Tell once when there is something."""
        self._armed.set()

    def disarm(self) -> None:
        """Nothing is to be told."""
        self._armed.clear()

    def stop(self) -> None:
        """End at the next occasion."""
        self._stop.set()
        self._armed.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._armed.wait()
            try:
                found = self._outbox.wait(_WAIT_S)
            except OutboxError:
                self._stop.wait(_PAUSE_S)
                continue
            if found and self._armed.is_set() and not self._stop.is_set():
                self._armed.clear()
                self._tell(Leasable())


class CommandWorker:
    """Carries out commands one after the other, each id once.

    Args:
        seen: ids and answers of before.
        hands: whose `review` releases and drops held items.
        tell: called with `Answered`.
    """

    def __init__(self, seen: SeenCommands, hands: Hands, tell: Callable[[Answered], None]) -> None:
        self._seen, self._hands, self._tell = seen, hands, tell
        self._queue: queue.Queue[Command] = queue.Queue(MAX_COMMANDS)
        self._thread: threading.Thread | None = None

    def submit(self, command: Command) -> bool:
        """Queue a command; False when too many wait. Most devices never get one, so the first starts the thread."""
        try:
            self._queue.put_nowait(command)
        except queue.Full:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="uplink-commands", daemon=True)
            self._thread.start()
        return True

    def _run(self) -> None:
        while True:
            command = self._queue.get()
            answer = self._seen.begin(command.id)
            if answer is None:
                answer = self._carry_out(command)
                self._seen.finish(command.id, answer)
            self._tell(Answered(command, answer))

    def _carry_out(self, command: Command) -> CommandAnswer:
        if command.kind not in (CommandKind.RELEASE_HELD, CommandKind.DROP_HELD):
            return CommandAnswer(done=True, text="")  # the engine does these
        if command.item is None or command.note is None:
            return CommandAnswer(done=False, text="a release or a drop needs an item and a note")
        try:
            answer = self._hands.review(command)
        except EdgeRuntimeError as error:
            return CommandAnswer(done=False, text=str(error)[:200])
        except Exception as error:  # noqa: BLE001 - whatever a hand does wrong ends here, told and logged
            get_logger().error("a command failed", kind=command.kind.value, exc_info=error)
            return CommandAnswer(done=False, text=f"failed on the device: {type(error).__name__}")
        return CommandAnswer(answer.done, answer.text[:200])


class Renewal:
    """Renews the certificate in the background when it is due or asked for, one attempt at a time.

    Args:
        hands: whose `renew` does it; None of it, and nothing is ever renewed.
        tell: called with `Renewed`.

    Attributes:
        trouble: a sentence where the last attempt failed, else None.
    """

    def __init__(self, hands: Hands, tell: Callable[[Renewed], None]) -> None:
        self._renew, self._tell = hands.renew, tell
        self._thread: threading.Thread | None = None
        self._next_ns = 0
        self.trouble: str | None = None

    def begin_if_due(self, identity: LinkIdentity, now_ns: int, *, asked: bool) -> bool:
        """Begin, if the certificate is due or somebody asked, and the last attempt was ten minutes ago."""
        if (
            self._renew is None
            or now_ns < self._next_ns
            or (self._thread is not None and self._thread.is_alive())
        ):
            return False
        left_s = identity.renew_in_s()
        if not asked and (left_s is None or left_s > 0):
            return False
        self._next_ns = now_ns + _RENEWAL_PAUSE_NS
        self._thread = threading.Thread(
            target=self._run, args=(self._renew,), name="uplink-renewal", daemon=True
        )
        self._thread.start()
        return True

    def finished(self, event: Renewed) -> LinkIdentity | None:
        """Take in what became of an attempt; the new identity, or None where it failed."""
        if event.identity is None:
            self.trouble = f"the certificate could not be renewed: {event.text}"
            get_logger().warning("the certificate could not be renewed", why=event.text)
        else:
            self.trouble = None
            get_logger().info("the certificate was renewed")
        return event.identity

    def _run(self, renew: Callable[[], LinkIdentity]) -> None:
        try:
            identity = renew()
        except EdgeRuntimeError as error:
            self._tell(Renewed(None, str(error)))
        except Exception as error:  # noqa: BLE001 - whatever a hand does wrong ends here, told and logged
            get_logger().error("renewal failed", exc_info=error)
            self._tell(Renewed(None, type(error).__name__))
        else:
            self._tell(Renewed(identity, "renewed"))
