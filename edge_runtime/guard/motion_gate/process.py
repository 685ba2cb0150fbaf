"""The motion gate's loop: look at the stop and the lease, take what was proposed, pass what may pass, beat.

Closed at its start and whenever it does not know better. It does not end with the guard: it stays, closed, so that
nothing that was still on its way reaches the actuator. It ends when it is told to, when a successor listens
in its place, or when the guard and its own socket are both gone.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from edge_runtime.errors import ConfigError
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.intent import CLOSED, OPEN
from edge_runtime.guard.lease import Lease, LeaseReader
from edge_runtime.guard.motion_gate.approvals import NotAnApproval, Record
from edge_runtime.guard.motion_gate.estop import EmergencyStop, readable
from edge_runtime.guard.motion_gate.judge import EVALUATED, Judge, Proposal, Stop
from edge_runtime.guard.motion_gate.outputs import command_frame, safe_frame
from edge_runtime.guard.motion_gate.proposals import LARGEST_DATAGRAM, Malformed, parse
from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.motion_gate.settings import Settings
from edge_runtime.guard.motion_gate.verification import Verification
from edge_runtime.guard.motion_gate.wiring import is_replaced, listen, output_to, stop_input
from edge_runtime.guard.page import SlotWriter
from edge_runtime.guard.realtime import Fact
from edge_runtime.guard.slot import Clock

ROUND_NS = 1_000_000
"""Rounds are at least this far apart: 1 kHz."""

MOST_PER_ROUND = 8
"""Datagrams taken in one round; more wait in the kernel's queue, and their senders behind it."""

OPEN_NS, CLOSED_NS = 10_000_000, 100_000_000
"""How long it waits at most, open and closed."""

DEADLINE_NS = 300_000_000
"""What it promises the guard for its next beat."""

SAFE_TRIES_NS = 1_000_000_000
"""For so long it tries to send a safe value that the output does not take."""

SAFE_ATTEMPTS = 5
"""So often it sends a safe value again that the output took and that failed, such as a program's."""

_OF_THE_STOP = Condition.ESTOP.mask | Condition.ESTOP_DISAGREES.mask
_SUCCESSOR_NS = 1_000_000_000
_STATUS = b'{"status":true}'
_NS_PER_S = 1_000_000_000


class MotionGate:
    """The process's one object.

    Args:
        settings: what it was told.
        lease: the guard's permission.
        slot: where it beats; None without a guard's page.
        clock: CLOCK_MONOTONIC.
        facts: what came of asking for real time; part of the status.

    Raises:
        ConfigError: a socket cannot be made.
    """

    def __init__(
        self,
        settings: Settings,
        lease: LeaseReader,
        slot: SlotWriter | None,
        clock: Clock = time.monotonic_ns,
        facts: Sequence[Fact] = (),
    ) -> None:
        self._settings, self._reader, self._slot, self._clock = settings, lease, slot, clock
        self._facts = tuple(facts)
        now_ns = clock()
        self._judge = Judge(settings.profile, settings.device, now_ns)
        try:
            self._stop_input = EmergencyStop([stop_input(stop) for stop in settings.stops])
            self._output = output_to(settings.output)
            self._socket, self._inode = listen(settings.listen)
        except OSError as error:
            raise ConfigError(f"the motion gate cannot listen or send: {error}") from None
        self._verification: Verification | None = None
        if settings.approvers is not None:
            self._verification = Verification(settings.approvers, settings.profile, settings.device)
        self._stop = Stop(pressed=True)
        self._lease: Lease | None = None
        self._safe_frame = safe_frame(settings.profile.axes)
        self._safe_until_ns: int | None = now_ns + SAFE_TRIES_NS  # what the actuator does now is not known
        self._safe_left = SAFE_ATTEMPTS
        self._newest_ns: int | None = None
        self._looked_ns = now_ns
        self._parent = os.getppid()
        self._ends = ""

    def run(self) -> str:
        """Goes round until it is told to end, or a successor listens; says which."""
        try:
            while not self._ends:
                started_ns = self._clock()
                self._round(started_ns)
                self._wait(started_ns)
            self._leave()
        finally:
            self._close()
        return self._ends

    def end(self, why: str) -> None:
        """End after this round; safe to call from a signal's handler."""
        self._ends = why

    def _round(self, now_ns: int) -> None:
        self._look(now_ns)
        self._take()
        self._hear(self._clock())
        now_ns = self._clock()
        if self._output.tick(now_ns):
            self._safe_failed(now_ns)
        self._send_safe(now_ns)
        if now_ns - self._looked_ns >= _SUCCESSOR_NS:
            self._looked_ns = now_ns
            if is_replaced(self._settings.listen, self._inode):
                self._ends = "another motion gate listens in its place"
            elif os.getppid() != self._parent and not self._settings.listen.exists():
                self._ends = "the guard is gone, and so is the socket: nothing can reach it any more"
        if self._slot is not None:
            self._slot.finished(
                CLOSED if self._judge.closed else OPEN,
                self._newest_ns,
                now_ns + DEADLINE_NS,
                EVALUATED if self._stop_input.known else EVALUATED & ~_OF_THE_STOP,
                self._judge.tripped(self._stop),
            )

    def _look(self, now_ns: int) -> None:
        """At the stop and the lease; the safe value goes out where the permission is lost."""
        self._stop, self._lease = self._stop_input.look(now_ns), self._reader.read()
        if self._judge.look(now_ns, self._lease, self._stop):
            self._lost(now_ns)

    def _lost(self, now_ns: int) -> None:
        self._safe_until_ns, self._safe_left = now_ns + SAFE_TRIES_NS, SAFE_ATTEMPTS
        self._send_safe(now_ns)

    def _safe_failed(self, now_ns: int) -> None:
        """The output took the safe value, and it came to nothing: again, while there is no permission."""
        self._judge.refused(now_ns, Reason.OUTPUT)
        if self._judge.closed is not None and self._safe_left > 0:
            self._safe_left -= 1
            self._safe_until_ns = now_ns + SAFE_TRIES_NS

    def _send_safe(self, now_ns: int) -> None:
        if self._safe_until_ns is None:
            return
        if self._output.safe(self._safe_frame, now_ns):
            self._safe_until_ns = None
        else:
            self._judge.refused(now_ns, Reason.OUTPUT)
            if now_ns >= self._safe_until_ns:
                self._safe_until_ns = None

    def _take(self) -> None:
        for _ in range(MOST_PER_ROUND):
            try:
                datagram, sender = self._socket.recvfrom(LARGEST_DATAGRAM + 1)
            except OSError:
                return
            if datagram == _STATUS:
                self._tell(sender)
                continue
            now_ns = self._clock()
            reason = self._handle(datagram)
            if reason is not None and self._judge.refused(now_ns, reason):
                self._lost(now_ns)

    def _handle(self, datagram: bytes) -> Reason | None:
        """Why a datagram is refused; None if it was sent, or is an approval being verified."""
        try:
            found = parse(datagram)
        except Malformed:
            return Reason.MALFORMED
        except NotAnApproval:
            return Reason.APPROVAL_MALFORMED
        if isinstance(found, Record):
            return self._present(found)
        return self._propose(found)

    def _propose(self, proposal: Proposal) -> Reason | None:
        now_ns = self._clock()
        self._look(now_ns)
        reason = self._judge.judge(now_ns, self._lease, proposal)
        if reason is not None:
            return reason
        self._judge.spend(proposal)
        frame = command_frame(proposal, now_ns)
        # The last look, right before the send. What happens between the two is what the time to live is for.
        now_ns = self._clock()
        self._look(now_ns)
        if self._judge.closed is not None:
            return self._judge.closed
        reason = self._output.command(frame, now_ns)
        if reason is None:
            self._judge.sent(now_ns, proposal)
            self._newest_ns = proposal.proposed_ns
            self._safe_until_ns = None  # an older safe value must not follow a newer command
        return reason

    def _present(self, record: Record) -> Reason | None:
        if self._verification is None:
            return Reason.APPROVAL_ACTION
        if self._judge.closed is not None:
            return self._judge.closed  # not even verified, so that it is not used up
        return self._verification.present(record, self._clock())

    def _hear(self, now_ns: int) -> None:
        verdict = None if self._verification is None else self._verification.poll(now_ns)
        if verdict is None:
            return
        reason = verdict.refused or self._judge.closed
        if reason is None and verdict.presented_ns <= self._judge.epoch_ns:
            reason = Reason.BEFORE_EPOCH
        if reason is None:
            reason = self._judge.approvals.add(verdict.digest, verdict.until_ns, now_ns)
        if reason is not None and self._judge.refused(now_ns, reason):
            self._lost(now_ns)

    def _tell(self, sender: str | bytes | None) -> None:
        """Answer a question about the state, if whoever asked can be reached at once."""
        if not sender:
            return
        lease, closed = self._lease, self._judge.closed
        status = {
            "open": closed is None,
            "why": None if closed is None else closed.value,
            "passed": self._judge.passed,
            "refused": {reason.value: count for reason, count in sorted(self._judge.counts.items())},
            "estop": {"pressed": self._stop.pressed, "disagrees": self._stop.disagree},
            "lease": None if lease is None else {"state": lease.state, "limits": lease.limits},
            "approvals": len(self._judge.approvals),
            "facts": {fact.name: fact.done for fact in self._facts},
        }
        with contextlib.suppress(OSError):
            self._socket.sendto(json.dumps(status).encode(), sender)

    def _wait(self, started_ns: int) -> None:
        now_ns = self._clock()
        if self._judge.closed is None and self._lease is not None:
            due_ns = min(now_ns + OPEN_NS, self._lease.expires_ns)
        else:
            due_ns = now_ns + CLOSED_NS
        if self._safe_until_ns is not None:
            due_ns = min(due_ns, now_ns + OPEN_NS)
        watched = [self._socket.fileno(), *self._stop_input.filenos()]
        if self._verification is not None:
            watched += self._verification.filenos()
        readable(watched, (due_ns - now_ns) / _NS_PER_S)
        early_ns = started_ns + ROUND_NS - self._clock()
        if early_ns > 0:  # after the wait, so that at rest it wakes once a round
            time.sleep(early_ns / _NS_PER_S)

    def _leave(self) -> None:
        if self._judge.closed is None:
            self._output.safe(self._safe_frame, self._clock())

    def _close(self) -> None:
        if not is_replaced(self._settings.listen, self._inode):
            self._settings.listen.unlink(missing_ok=True)
        self._socket.close()
        self._stop_input.close()
        if self._verification is not None:
            self._verification.close()
        self._output.close()


def serve(gate: MotionGate, facts: Sequence[Fact]) -> int:
    """Say that it is ready, and run until SIGTERM, SIGINT or a successor; the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: gate.end("told to end"))
    ready = {"ready": True, "pid": os.getpid(), "facts": {fact.name: fact.text for fact in facts}}
    _say(sys.stdout, json.dumps(ready))
    why = gate.run()
    _say(sys.stderr, f"the motion gate ends: {why}")
    return 0


def _say(stream: object, line: str) -> None:
    # Whoever listened may be gone; that is no reason to end.
    with contextlib.suppress(OSError, ValueError):
        print(line, file=stream, flush=True)  # type: ignore[call-overload]
