"""The process table: starts the workers in their order, watches them, and says what holds of them.

Starved and hung are two things. A worker that waits for a processor while its deadline passes is starved, which the
kernel's count of waiting time shows; it counts as hung when twice the time has passed.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from edge_runtime.guard.conditions import Condition, mask_of
from edge_runtime.guard.page import Handover, Page
from edge_runtime.guard.settings import Row
from edge_runtime.guard.slot import Beat
from edge_runtime.guard.starving import Task, waited_ns
from edge_runtime.guard.worker import Phase, RunOver, Worker

OWN = mask_of(
    (
        Condition.WORKER_DEAD,
        Condition.WORKER_HUNG,
        Condition.WORKER_START_TIMEOUT,
        Condition.WORKER_STARVED,
        Condition.WORKER_UNKILLABLE,
        Condition.CRASH_LOOP,
        Condition.SLOT_DAMAGED,
        Condition.CONFIG_CHANGED,
    )
)
"""What the guard itself evaluates, in every turn; what a worker says of these is not heard."""

_HEARD = Condition.WORKER_STARVED.mask | Condition.CRASH_LOOP.mask
"""What may hold of a worker whose word is taken all the same: it speaks, though late, or again."""

_LOST = Condition.WORKER_HUNG.mask | Condition.WORKER_DEAD.mask
_GUILTY = Condition.WORKER_HUNG.mask | Condition.WORKER_START_TIMEOUT.mask | Condition.SLOT_DAMAGED.mask
"""What the present process of a worker is killed for; one that died is started anew, and is not to be killed."""

CHALLENGE_NS = 1_000_000_000
"""How often workers are asked for a new answer."""


class Looked(NamedTuple):
    """What holds of all workers.

    Attributes:
        evaluated: mask of the conditions that the table or a worker with a fresh beat looked at.
        tripped: mask of those that hold.
        suspects: workers whose present process is to be killed, if what holds is to have consequences.
        expendable: workers that hang and are not critical, to be killed without being a condition.
        over: a worker ended in a way that ends the whole run; None where none did.
        beyond_ns: how long after the deadline of its last beat the first of the workers that died or hung was
            looked at now; less than 0 for one that died before. None where none did.
    """

    evaluated: int
    tripped: int
    suspects: tuple[str, ...]
    beyond_ns: int | None = None
    expendable: tuple[str, ...] = ()
    over: RunOver | None = None

    def with_more(self, evaluated: int, tripped: int) -> "Looked":
        """The same with more conditions looked at, and more of them that hold."""
        return Looked(
            self.evaluated | evaluated,
            self.tripped | tripped,
            self.suspects,
            self.beyond_ns,
            self.expendable,
            self.over,
        )


class _Waited(NamedTuple):
    """How the threads of a worker stood when half of its time was over."""

    sequence: int
    at_ns: int
    tasks: dict[int, Task] | None


class Table:
    """All workers of a guard.

    Args:
        rows: in the order of starting.
        page: with a slot for each.
        shared: what a worker is handed besides its slot, so that it may read the lease and the flight ring.
        environment: of the workers.
    """

    def __init__(
        self,
        rows: tuple[Row, ...],
        page: Page,
        shared: Callable[[Row], tuple[tuple[int, ...], dict[str, str]]],
        environment: Mapping[str, str],
    ) -> None:
        self.workers = {row.name: Worker(row, page.slot(row.name)) for row in rows}
        self._page, self._shared, self._environment = page, shared, environment
        self._challenge_ns = 0
        self._waited: dict[str, _Waited] = {}

    def start_due(self, now_ns: int) -> None:
        """Start at most one worker that may be: starting takes milliseconds."""
        for worker in self.workers.values():
            waits = worker.phase in (Phase.WAITING, Phase.ENDED) and now_ns >= worker.retry_ns
            if waits and all(self.workers[name].phase is Phase.WORKING for name in worker.row.after):
                fds, variables = self._shared(worker.row)
                slot = self._page.handover(worker.row.name)
                handed = Handover((*slot.pass_fds, *fds), {**slot.environment, **variables})
                worker.start(now_ns, handed, self._environment)
                return

    def look(self, now_ns: int) -> Looked:
        """Look at every worker."""
        evaluated, tripped = OWN, 0
        guilty: list[Worker] = []
        beyond_ns: int | None = None
        if now_ns - self._challenge_ns >= CHALLENGE_NS:
            self._challenge_ns = now_ns
            for worker in self.workers.values():
                worker.challenge()
        for worker in self.workers.values():
            worker.look(now_ns)
            found = self._found(worker, now_ns)
            if worker.row.critical:
                tripped |= found
            if worker.row.critical and found & _LOST and worker.last_due_ns is not None:
                beyond_ns = max(now_ns - worker.last_due_ns, beyond_ns or now_ns - worker.last_due_ns)
            if found & _GUILTY:
                guilty.append(worker)
            # One that is starved said what it said a moment ago; one that is hung says nothing any more.
            if worker.phase is Phase.WORKING and worker.beat is not None and not found & ~_HEARD:
                evaluated |= worker.beat.evaluated & ~OWN
                tripped |= worker.beat.tripped & worker.beat.evaluated & ~OWN
        return Looked(
            evaluated,
            tripped,
            suspects=tuple(worker.row.name for worker in guilty if worker.row.critical),
            beyond_ns=beyond_ns,
            expendable=tuple(worker.row.name for worker in guilty if not worker.row.critical),
            over=next((worker.over for worker in self.workers.values() if worker.over is not None), None),
        )

    def due_ns(self) -> int | None:
        """When something has to have happened."""
        times = [at_ns for worker in self.workers.values() if (at_ns := self._due_ns(worker)) is not None]
        return min(times) if times else None

    def kill(self, names: tuple[str, ...], now_ns: int) -> None:
        """Kill these; the motion gate is not among those who are: it is closed, and must stay."""
        for name in names:
            worker = self.workers.get(name)
            if worker is not None and not worker.row.lives_on:
                worker.kill(now_ns)

    def gate_beats(self) -> list[Beat]:
        """The newest beats of the motion gates that work."""
        return [
            worker.beat
            for worker in self.workers.values()
            if worker.row.lives_on and worker.phase is Phase.WORKING and worker.beat is not None
        ]

    def pidfds(self) -> list[int]:
        """To wait on: one becomes readable when its process has ended."""
        return [worker.pidfd for worker in self.workers.values() if worker.pidfd is not None]

    def stop(self, now_ns: int) -> bool:
        """Have all end, the last of the table first and each after the one behind it; whether all have."""
        return all(worker.stop(now_ns) for worker in reversed(self.workers.values()))

    def _found(self, worker: Worker, now_ns: int) -> int:
        """What holds of one worker."""
        mask = Condition.SLOT_DAMAGED.mask if worker.fault is not None else 0
        if worker.looping:
            mask |= Condition.CRASH_LOOP.mask
        if worker.phase is Phase.UNKILLABLE:
            mask |= Condition.WORKER_UNKILLABLE.mask
        if worker.died or worker.phase in (Phase.KILLED, Phase.UNKILLABLE):
            mask |= Condition.WORKER_DEAD.mask
        if worker.phase is Phase.STARTING and now_ns > worker.start_due_ns:
            mask |= Condition.WORKER_START_TIMEOUT.mask
        if worker.phase is Phase.WORKING and worker.beat is not None:
            mask |= self._late(worker, now_ns)
        return mask

    def _late(self, worker: Worker, now_ns: int) -> int:
        """Whether a worker is hung, or starved."""
        beat = worker.beat
        if beat is None:
            return 0
        allowed_ns = max(1, min(beat.deadline_ns - beat.beat_ns, worker.row.longest_ns))
        age_ns = now_ns - beat.beat_ns
        name = worker.row.name
        if age_ns <= allowed_ns // 2:
            self._waited.pop(name, None)
            return 0
        waited = self._waited.get(name)
        if waited is None or waited.sequence != beat.sequence:
            self._waited[name] = waited = _Waited(beat.sequence, now_ns, worker.tasks())
        if age_ns <= allowed_ns:
            return 0
        tasks, gap_ns = worker.tasks(), now_ns - waited.at_ns
        starved = (
            waited.tasks is not None
            and tasks is not None
            and 2 * waited_ns(waited.tasks, tasks, gap_ns) >= gap_ns > 0
            and age_ns <= 2 * allowed_ns
        )
        return Condition.WORKER_STARVED.mask if starved else Condition.WORKER_HUNG.mask

    def _due_ns(self, worker: Worker) -> int | None:
        due_ns = worker.due_ns()
        beat = worker.beat
        if due_ns is None or worker.phase is not Phase.WORKING or beat is None:
            return due_ns
        if worker.row.name in self._waited:
            return due_ns
        # half of the time: how long it has waited is noted
        return beat.beat_ns + (due_ns - beat.beat_ns) // 2
