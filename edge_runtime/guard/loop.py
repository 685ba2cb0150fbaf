"""The guard's loop: look, decide, act, and sleep until something may have to be done.

The order of acting is the promise: the permission ends first, then the latch is on disk, then all else. One thread,
no garbage collector, no log: what is worth telling goes to the status that people ask for, and to the service
manager.
"""

import secrets
import select
import time
from collections.abc import Mapping

from edge_runtime.guard import machine
from edge_runtime.guard.acknowledgement import Verification
from edge_runtime.guard.block import boot_id
from edge_runtime.guard.conditions import Condition, conditions_in
from edge_runtime.guard.configuration import Configuration
from edge_runtime.guard.control import ControlSocket, Request
from edge_runtime.guard.latch import LatchFile
from edge_runtime.guard.lease import RENEWAL_NS, LeaseWriter
from edge_runtime.guard.look import PROVING
from edge_runtime.guard.memory import Acknowledgement, Change, Inputs, Memory, Outputs, Record
from edge_runtime.guard.notify import HardwareWatchdog, ServiceManager
from edge_runtime.guard.page import Page
from edge_runtime.guard.realtime import Fact
from edge_runtime.guard.settings import Settings
from edge_runtime.guard.slot import Clock
from edge_runtime.guard.table import Looked, Table

LATCH_FILE = "latch.json"
MOST_CHANGES = 64
"""Changes of state that are remembered for the status."""

LONGEST_NS = 250_000_000
"""It looks at everything at least this often."""

ALERT_NS = 10_000_000
"""It looks this often while something is on its way to count, or to be clear."""

STANDSTILL_NS = 500_000_000
"""How long a word about standstill is good for."""

STOP_NS = 10_000_000_000
"""How long the workers may take to end when the guard is asked to."""

_NS_PER_S = 1_000_000_000


class Guard:
    """Everything that the guard has.

    Args:
        settings: what it was told.
        environment: of the workers, and of the service manager.
        facts: what came of asking for real time; part of the status.
        clock: CLOCK_MONOTONIC.

    Raises:
        ConfigError: shared memory or the control socket cannot be made.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        facts: tuple[Fact, ...] = (),
        clock: Clock = time.monotonic_ns,
    ) -> None:
        self._settings, self._clock, self._facts = settings, clock, facts
        self._control = ControlSocket(settings.control)
        self._page = Page([row.name for row in settings.rows], clock)
        self._lease = LeaseWriter(settings.profile.lease_ns)
        self._table = Table(settings.rows, self._page, self._lease.handover, environment)
        self._verification = Verification(settings.device, settings.keys)
        self._manager = ServiceManager(environment)
        self._hardware = None if settings.hardware is None else HardwareWatchdog(*settings.hardware)
        self._latch = LatchFile(settings.directory / LATCH_FILE)
        compiled = settings.configuration
        self._configuration = None if compiled is None else Configuration(*compiled)
        self._limits = tuple(sorted({mode.limits for mode in settings.profile.modes}))
        self._memory: Memory
        self._outputs: Outputs
        self._looked = Looked(0, 0, ())
        self._changes: tuple[Change, ...] = ()
        self._sentences: tuple[str, ...] = ()
        self._ack: Acknowledgement | None = None
        self._asker: str | bytes | None = None
        self._arm_ns: int | None = None
        self._reset_ns: int | None = None
        self._disarm = False
        self._moves: tuple[bool, int] | None = None
        self._wake_ns = 0
        self._worst_late_ns = 0
        self._renewed_ns = 0
        self._fed_ns = 0
        self._turns = 0
        self._latched_beyond_ns: int | None = None
        self._ending_ns: int | None = None

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Guard until `end`, and until the workers have ended."""
        try:
            self._begin()
            while self._ending_ns is None or not self._is_over():
                self._turn()
        finally:
            self._close()

    def end(self) -> None:
        """End in order: no permission, then the workers; safe to call from a signal's handler."""
        if self._ending_ns is None:
            self._ending_ns = self._clock() + STOP_NS

    def _begin(self) -> None:
        now_ns, profile = self._clock(), self._settings.profile
        found = self._latch.find()
        record = found.record
        if found.missing and not profile.stopping.travels:
            record = Record(None, (), boot_id().hex())  # nothing that moves was ever left in an unknown state
        self._memory, self._outputs = machine.start(
            now_ns, boot_id=boot_id().hex(), nonce=secrets.token_bytes(32), found=record, profile=profile
        )
        if found.why and record is None:
            self._sentences = (found.why,)
        self._act(now_ns, self._outputs)
        self._save(permitting=False)
        self._manager.ready(self._line())
        self._wake_ns = self._clock()

    def _turn(self) -> None:
        late_ns = self._sleep()
        now_ns = self._clock()
        self._listen(now_ns)
        looked = self._table.look(now_ns)
        if self._ending_ns is None:
            self._table.start_due(now_ns)
        self._looked, self._turns = looked, self._turns + 1
        self._worst_late_ns = max(self._worst_late_ns, late_ns)
        inputs = Inputs(
            evaluated=looked.evaluated,
            tripped=looked.tripped | self._changed_configuration(now_ns),
            late_ns=late_ns,
            standstill=self._standstill(now_ns),
            arm_ns=self._arm_ns,
            disarm=self._disarm or self._ending_ns is not None,
            ack=self._ack,
            reset_ns=self._reset_ns,
            suspects=looked.suspects,
        )
        self._memory, outputs = machine.step(now_ns, self._memory, inputs, self._settings.profile)
        self._disarm = False
        if outputs.record is not None:
            self._latched_beyond_ns = looked.beyond_ns
        self._act(now_ns, outputs)
        self._outputs = outputs
        self._wake_ns = self._next_ns(self._clock())

    def _sleep(self) -> int:
        """Wait for the next time or message; how much later than asked this woke."""
        fds = [self._control.fileno(), *self._table.pidfds(), *self._verification.filenos()]
        left_ns = self._wake_ns - self._clock()
        # select(2), not poll(2): poll rounds up to milliseconds
        ready, _, _ = select.select(fds, [], [], max(0, left_ns) / _NS_PER_S)
        return 0 if ready and left_ns > 0 else max(0, self._clock() - self._wake_ns)

    def _act(self, now_ns: int, outputs: Outputs) -> None:
        """The permission first; then what must be on disk; then all else."""
        memory = self._memory
        if not outputs.permit and (self._outputs.permit or outputs.changes):
            self._lease.revoke(memory.state.value)
        if outputs.record is not None:
            self._save(permitting=False)
        self._table.kill(outputs.kills, now_ns)
        if outputs.changes or outputs.sentences:
            self._changes = (*self._changes, *outputs.changes)[-MOST_CHANGES:]
            self._sentences = outputs.sentences or self._sentences
            self._manager.status(self._line())
        if outputs.permit and self._save(permitting=True):
            # after all that justifies it, with a time of its own: what took long shortens nothing that is promised
            renewed_ns = self._clock()
            if renewed_ns - now_ns <= self._settings.profile.late_ns:
                self._lease.renew(renewed_ns, memory.state.value, self._limits.index(outputs.limits))
                self._renewed_ns = renewed_ns
        elif not outputs.permit and memory.latch is None and outputs.changes:
            self._save(permitting=False)
        self._feed(now_ns, outputs)

    def _save(self, *, permitting: bool) -> bool:
        memory = self._memory
        return self._latch.save(
            Record(memory.latch, memory.latches_ns, memory.boot_id), permitting=permitting
        )

    def _feed(self, now_ns: int, outputs: Outputs) -> None:
        """Those who watch the guard are fed where the state machine says so, and by nobody else."""
        period_ns = min(self._manager.period_ns or LONGEST_NS, LONGEST_NS)
        if not outputs.feed or now_ns - self._fed_ns < period_ns // 2:
            return
        self._fed_ns = now_ns
        self._manager.feed()
        if self._hardware is not None:
            self._hardware.feed()

    def _next_ns(self, now_ns: int) -> int:
        """When something may have to be done."""
        memory = self._memory
        times = [now_ns + LONGEST_NS]
        if memory.timers or memory.state in PROVING or self._ending_ns is not None:
            times.append(now_ns + ALERT_NS)
        if self._outputs.permit:
            times.append(max(now_ns, self._renewed_ns + RENEWAL_NS))
        if self._manager.period_ns is not None:
            times.append(now_ns + self._manager.period_ns // 2)
        due = [at_ns for at_ns in (self._table.due_ns(), self._verification.due_ns) if at_ns is not None]
        # One past its time is known already, and seen again in the next turn.
        times += [at_ns + 1 if at_ns >= now_ns else now_ns + ALERT_NS for at_ns in due]
        return min(times)

    # -- requests ----------------------------------------------------------------------------------------------

    def _listen(self, now_ns: int) -> None:
        for request in self._control.take():
            self._answer(request, now_ns)
        answer = self._verification.poll(now_ns)
        if answer is not None:
            self._ack = answer.acknowledgement or self._ack
            self._control.tell(
                self._asker, {"verified": answer.acknowledgement is not None, "text": answer.text}
            )

    def _answer(self, request: Request, now_ns: int) -> None:
        if request.ask == "status":
            self._control.tell(request.sender, self.status(now_ns))
            return
        if request.ask == "acknowledge":
            refused = self._verification.present(request.value, now_ns)
            if refused is None:
                self._asker = request.sender
            else:
                self._control.tell(request.sender, {"verified": False, "text": refused})
            return
        if request.ask == "arm":
            self._arm_ns = now_ns
        elif request.ask == "disarm":
            self._disarm = True
        elif request.ask == "reset":
            self._reset_ns = now_ns
        else:
            self._moves = (bool(request.value), now_ns)
        self._control.tell(request.sender, {"heard": request.ask})

    def _changed_configuration(self, now_ns: int) -> int:
        changed = self._configuration is not None and self._configuration.changed(now_ns)
        return Condition.CONFIG_CHANGED.mask if changed else 0

    def _standstill(self, now_ns: int) -> bool | None:
        if self._moves is None or now_ns - self._moves[1] > STANDSTILL_NS:
            return None
        return not self._moves[0]

    # -- told --------------------------------------------------------------------------------------------------

    def status(self, now_ns: int) -> dict[str, object]:
        """How things stand, for `edge-runtime status`."""
        memory, latch = self._memory, self._memory.latch
        lease_left_ns = self._renewed_ns + self._settings.profile.lease_ns - now_ns
        return {
            "device": self._settings.device,
            "state": memory.state.value,
            "since_ms": (now_ns - memory.entered_ns) // 1_000_000,
            "mode": memory.mode.name,
            "latch": None
            if latch is None
            else {
                "id": latch.id,
                "causes": _words(latch.causes),
                "since_ms": (now_ns - latch.since_ns) // 1_000_000,
            },
            "permit": self._outputs.permit,
            "lease_ms": max(0, lease_left_ns) // 1_000_000 if self._outputs.permit else 0,
            "tripped": _words(self._looked.tripped),
            "not_evaluated": _words(self._settings.profile.counted & ~self._looked.evaluated),
            "workers": [
                {
                    "name": name,
                    "phase": worker.phase.value,
                    "pid": worker.pid,
                    "starts": worker.starts,
                    "last_exit": worker.last_exit,
                    "stage": None if worker.beat is None else worker.beat.stage,
                    "age_ms": None if worker.beat is None else (now_ns - worker.beat.beat_ns) // 1_000_000,
                    "fault": None if worker.fault is None else worker.fault.value,
                }
                for name, worker in self._table.workers.items()
            ],
            "latched_beyond_us": None
            if self._latched_beyond_ns is None
            else self._latched_beyond_ns // 1_000,
            "late_worst_us": self._worst_late_ns // 1_000,
            "turns": self._turns,
            "facts": {fact.name: fact.done for fact in self._facts},
            "sentences": list(self._sentences) + ([self._latch.trouble] if self._latch.trouble else []),
            "unreadable": self._control.unreadable,
        }

    def _line(self) -> str:
        return self._sentences[0] if self._sentences else self._memory.state.value

    # -- the end -----------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        """Asks the workers to end, and those that do not to be killed; whether none is left."""
        now_ns = self._clock()
        self._table.stop()
        if self._ending_ns is not None and now_ns >= self._ending_ns:
            self._table.kill(tuple(self._table.workers), now_ns)
        return self._table.ended or (self._ending_ns is not None and now_ns >= self._ending_ns + STOP_NS)

    def _close(self) -> None:
        self._lease.revoke("ENDED")
        self._manager.stopping()
        self._verification.close()
        self._control.close()
        if self._hardware is not None:
            # one that fails leaves it counting: a machine without its guard is to be reset
            self._hardware.close(disarm=self._ending_ns is not None)
        self._manager.close()
        self._lease.close()
        self._page.close()


def _words(mask: int) -> list[str]:
    return [condition.value for condition in conditions_in(mask)]
