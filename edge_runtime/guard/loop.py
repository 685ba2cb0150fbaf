"""The guard's loop: look, decide, act, and sleep until something may have to be done.

The order of acting is the promise: the permission ends first, then the latch is on disk, then all else. One thread,
no garbage collector, no log: what is worth telling goes to the status that people ask for, and to the service
manager.
"""

import contextlib
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from edge_runtime.guard import explain, machine
from edge_runtime.guard.block import boot_id
from edge_runtime.guard.conditions import FROM_LATENESS, Condition
from edge_runtime.guard.configuration import Configuration
from edge_runtime.guard.desk import Desk
from edge_runtime.guard.flight import Flight
from edge_runtime.guard.intent import judge_intent
from edge_runtime.guard.look import PROVING
from edge_runtime.guard.memory import PERMITTING, Change, Inputs, Memory, Outputs, State
from edge_runtime.guard.notify import HardwareWatchdog, ServiceManager
from edge_runtime.guard.ownership import Ownership
from edge_runtime.guard.page import Page
from edge_runtime.guard.permission import Permission
from edge_runtime.guard.profile import EVERYTHING
from edge_runtime.guard.realtime import Fact
from edge_runtime.guard.ring import RingWriter
from edge_runtime.guard.settings import Row, Settings
from edge_runtime.guard.slot import Clock
from edge_runtime.guard.standing import of_change, of_latch, of_worker, words
from edge_runtime.guard.table import OWN, Looked, Table
from edge_runtime.guard.timers import is_under_way

LATE = ("hashlib", "subprocess")
"""What functions of this room import that run in the guard's process: not needed for its first evaluation."""

MOST_CHANGES = 16
"""Changes of state that are remembered for the status."""

LONGEST_NS = 400_000_000
"""It looks at everything at least this often; leases, deadlines and messages wake it far sooner."""

ALERT_NS = 10_000_000
"""It looks this often while something is on its way to count, or to be clear, on a body that may move."""

_NS_PER_S = 1_000_000_000


class _Woken(NamedTuple):
    """How the guard woke.

    Attributes:
        late_ns: how much later than asked, whatever woke it.
        ready: descriptors with something to read.
    """

    late_ns: int
    ready: Sequence[int]


def _no_facts() -> tuple[Fact, ...]:
    """Nothing is left to be asked for."""
    return ()


class Guard:
    """Everything that the guard has.

    Args:
        settings: what it was told.
        environment: of the workers, and of the service manager.
        facts: what came of asking for real time; part of the status.
        rest: asks for what is left of it, after the first evaluation.
        clock: CLOCK_MONOTONIC.

    Raises:
        ConfigError: shared memory or the control socket cannot be made.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        facts: tuple[Fact, ...] = (),
        rest: Callable[[], tuple[Fact, ...]] = _no_facts,
        clock: Clock = time.monotonic_ns,
    ) -> None:
        self._settings, self._clock, self._facts, self._rest = settings, clock, facts, rest
        self._ownership = Ownership(settings.directory)
        self._desk = Desk(settings)
        self._page = Page([row.name for row in settings.rows], clock)
        self._permission = Permission(settings, clock)
        self._ring = RingWriter()
        self._flight = Flight(self._ring)
        self._table = Table(settings.rows, self._page, self._shared, environment)
        self._manager = ServiceManager(environment)
        self._hardware = None if settings.hardware is None else HardwareWatchdog(*settings.hardware)
        self._alert_ns = LONGEST_NS if settings.arms_itself else ALERT_NS
        self._configuration = tuple(Configuration(*file) for file in settings.configuration)
        # A signal that comes before the guard sleeps has to wake it too: select(2) goes on after a handler.
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._memory: Memory
        self._outputs: Outputs
        self._looked = Looked(0, 0, ())
        self._changes: tuple[Change, ...] = ()
        self._sentences: tuple[str, ...] = ()
        self._began_ns = clock()
        self._wake_ns = 0
        self._worst_late_ns = 0
        self._held_up_ns = 0
        self._fed_ns = 0
        self._turns = 0
        self._latched_beyond_ns: int | None = None
        self._ending = False
        self._exit_code = 0
        self._orderly = False

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Guard until `end`, or until a worker ends whose end is that of the run, and until all others have ended.

        Returns:
            The exit code: 0, or that worker's.
        """
        try:
            self._begin()
            self._turn()
            self._load()
            while not self._is_over():
                self._turn()
        finally:
            self._close()
        return self._exit_code

    def end(self) -> None:
        """End in order: no permission, then the workers; safe to call from a signal's handler."""
        self._end(0, orderly=True)

    def _end(self, code: int, *, orderly: bool) -> None:
        if not self._ending:
            self._ending, self._exit_code, self._orderly = True, code, orderly
            with contextlib.suppress(OSError):  # it is closed already
                os.eventfd_write(self._bell, 1)

    def _is_over(self) -> bool:
        """Once the permission has ended, has the workers end; whether all have."""
        stops = self._ending and self._memory.state not in PERMITTING
        return stops and self._table.stop(self._clock())

    def _begin(self) -> None:
        now_ns, profile = self._clock(), self._settings.profile
        found = self._permission.find()
        self._memory, self._outputs = machine.start(
            now_ns,
            boot_id=boot_id().hex(),
            nonce=os.urandom(32),
            found=found.record,
            profile=profile,
        )
        self._act(now_ns, self._outputs)
        if found.why:
            self._sentences = (found.why, *self._sentences)
        self._permission.save(self._memory, permitting=False)
        self._manager.ready(self._line())
        self._wake_ns = self._clock()

    def _load(self) -> None:
        """Make ready what the first evaluation could do without, before the first worker is started.

        Nothing can be armed by now: a step changes the state once at most, and from INIT to a permission there are
        two. All that is imported while the guard runs is imported here, so that nothing is loaded while something
        moves; the rest, which locks the memory, comes after it.
        """
        for name in LATE:
            __import__(name)
        self._facts += self._rest()
        self._wake_ns = self._clock()  # nobody was late: it was at work

    def _turn(self) -> None:
        woken = self._sleep()
        late_ns = max(woken.late_ns, self._held_up_ns)
        now_ns, written_ns = self._clock(), self._permission.written_ns
        self._desk.listen(now_ns, lambda: self.status(now_ns), woken.ready)
        looked = self._look(now_ns, late_ns)
        self._worst_late_ns, self._turns = max(self._worst_late_ns, late_ns), self._turns + 1
        inputs = Inputs(
            evaluated=looked.evaluated,
            tripped=looked.tripped,
            late_ns=late_ns,
            standstill=self._desk.standstill(now_ns),
            arm_ns=self._desk.arm_ns,
            disarm=self._desk.disarms() or self._ending,
            ack=self._desk.ack,
            reset_ns=self._desk.reset_ns,
            suspects=looked.suspects,
        )
        self._memory, outputs = machine.step(now_ns, self._memory, inputs, self._settings.profile)
        if outputs.record is not None:
            self._latched_beyond_ns = looked.beyond_ns
        self._act(now_ns, outputs)
        self._outputs = outputs
        self._record(now_ns, late_ns)
        if looked.over is not None:
            self._end(looked.over.code, orderly=looked.over.clean)
        ended_ns = self._clock()
        self._wake_ns = self._next_ns(ended_ns)
        # Whoever pauses the guard in the middle of a turn is seen in the next one. A disk may take its time.
        turn_ns = ended_ns - now_ns - (self._permission.written_ns - written_ns)
        self._held_up_ns = turn_ns if turn_ns > self._settings.profile.paused_ns else 0

    def _look(self, now_ns: int, late_ns: int) -> Looked:
        """See how the workers stand, start those that are due, and ask for what this body asks for itself."""
        looked = self._table.look(now_ns)
        if looked.over is not None and looked.over.clean:
            self._end(looked.over.code, orderly=True)
        if self._ending:
            # What a worker that was stopped no longer evaluates, and its end, are no reason to latch.
            looked = looked._replace(evaluated=EVERYTHING, tripped=looked.tripped & ~OWN, suspects=())
        elif not self._turns:
            # Nothing was started yet, and the configuration is not compared before what that takes is loaded.
            looked = looked._replace(evaluated=looked.evaluated & ~Condition.CONFIG_CHANGED.mask)
        else:
            if late_ns <= self._settings.profile.late_ns:  # an age says nothing else
                self._table.kill(looked.expendable, now_ns)
            self._table.start_due(now_ns)
            evaluated, tripped = judge_intent(self._table.gate_beats(), self._permission.until_ns)
            looked = looked.with_more(evaluated, tripped | self._changed_configuration(now_ns))
            if self._memory.state is State.STANDBY:
                self._desk.arm_by_itself(now_ns)
        self._looked = looked
        return looked

    def _record(self, now_ns: int, late_ns: int) -> None:
        """Write the turn into the flight ring."""
        memory = self._memory
        if self._turns > 1:  # before that none was to be started
            self._flight.workers(self._table.workers, now_ns)
        self._flight.turn(
            now_ns,
            late_ns,
            {
                "state": memory.state.value,
                "mode": memory.mode.name,
                "permit": self._outputs.permit,
                "tripped": f"{self._looked.tripped:x}",
                "not_evaluated": f"{self._unknown:x}",
                "turns": self._turns,
            },
        )

    @property
    def _unknown(self) -> int:
        """Mask of the conditions that count and that nobody evaluated."""
        return self._settings.profile.counted & ~(self._looked.evaluated | FROM_LATENESS)

    def _shared(self, row: Row) -> tuple[tuple[int, ...], dict[str, str]]:
        """What a worker is handed besides its slot."""
        fds, variables = self._permission.handover()
        if row.ring:
            more, others = self._ring.handover()
            return (*fds, *more), {**variables, **others}
        return fds, variables

    def _sleep(self) -> "_Woken":
        """Wait for the next time or message."""
        fds = [self._bell, *self._desk.filenos(), *self._table.pidfds()]
        left_ns = self._wake_ns - self._clock()
        # select(2), not poll(2): poll rounds up to milliseconds
        ready, _, _ = select.select(fds, [], [], max(0, left_ns) / _NS_PER_S)
        if self._bell in ready:
            os.eventfd_read(self._bell)
        return _Woken(max(0, self._clock() - self._wake_ns), ready)

    def _act(self, now_ns: int, outputs: Outputs) -> None:
        """The permission first; then what must be on disk; then all else."""
        self._permission.withdraw(self._memory, outputs)
        self._table.kill(outputs.kills, now_ns)
        refused = () if self._settings.arms_itself else outputs.sentences[len(outputs.changes) :]
        self._flight.acts([*self._desk.acts(), *({"refused": why} for why in refused)], now_ns)
        self._flight.changed(outputs.changes)
        if outputs.changes or outputs.sentences:
            self._changes = (*self._changes, *outputs.changes)[-MOST_CHANGES:]
            self._sentences = outputs.sentences or self._sentences
            self._manager.status(self._line())
        self._permission.grant(now_ns, self._memory, outputs)
        self._feed(now_ns, outputs)

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
        under_way = is_under_way(memory.timers, now_ns, self._settings.profile)
        if under_way or memory.state in PROVING or self._ending:
            times.append(now_ns + self._alert_ns)
        if self._manager.period_ns is not None:
            times.append(now_ns + self._manager.period_ns // 2)
        dues = (self._permission.due_ns, self._table.due_ns(), self._desk.due_ns)
        due = [at_ns for at_ns in dues if at_ns is not None]
        # One past its time is known already, and seen again in the next turn.
        times += [at_ns + 1 if at_ns >= now_ns else now_ns + ALERT_NS for at_ns in due]
        return min(times)

    def _changed_configuration(self, now_ns: int) -> int:
        changed = [file.changed(now_ns) for file in self._configuration]
        return Condition.CONFIG_CHANGED.mask if any(changed) else 0

    # -- told --------------------------------------------------------------------------------------------------

    def status(self, now_ns: int) -> dict[str, object]:
        """How things stand, for `edge-runtime status`; less than `control.LARGEST_ANSWER` bytes of JSON."""
        memory, outputs, profile = self._memory, self._outputs, self._settings.profile
        return {
            "device": self._settings.device,
            "boot_id": memory.boot_id,
            "up_ms": (now_ns - self._began_ns) // 1_000_000,
            "state": memory.state.value,
            "since_ms": (now_ns - memory.entered_ns) // 1_000_000,
            "mode": memory.mode.name,
            "limits": outputs.limits,
            "profile": profile.name,
            "arms_itself": self._settings.arms_itself,
            "ending": self._ending,
            "waits": explain.waits_for(memory, profile),
            "latch": of_latch(memory.latch, now_ns),
            "permit": outputs.permit,
            "lease_ms": self._permission.left_ms(now_ns),
            "lease": {
                "length_ms": profile.lease_ns // 1_000_000,
                "renewal_ms": self._permission.renewal_ns // 1_000_000,
                "late_ms": profile.late_ns // 1_000_000,
            },
            "tripped": words(self._looked.tripped),
            "not_evaluated": words(self._unknown),
            "workers": [of_worker(worker, now_ns) for worker in self._table.workers.values()],
            "changes": [of_change(change, now_ns) for change in self._changes],
            "latched_beyond_us": None
            if self._latched_beyond_ns is None
            else self._latched_beyond_ns // 1_000,
            "late_worst_us": self._worst_late_ns // 1_000,
            "turns": self._turns,
            "facts": {fact.name: fact.done for fact in self._facts},
            "sentences": [
                *self._sentences,
                *([self._permission.trouble] if self._permission.trouble else []),
            ],
            "standstill": self._desk.standstill(now_ns),
            "unreadable": self._desk.unreadable,
        }

    def _line(self) -> str:
        return self._sentences[0] if self._sentences else self._memory.state.value

    # -- the end -----------------------------------------------------------------------------------------------

    def _close(self) -> None:
        self._permission.revoke()
        self._manager.stopping()
        self._desk.close()
        if self._hardware is not None:
            # one that fails leaves it counting: a machine without its guard is to be reset
            self._hardware.close(disarm=self._orderly)
        self._manager.close()
        self._permission.close()
        self._page.close()
        self._ring.close()
        os.close(self._bell)
        self._ownership.close()
