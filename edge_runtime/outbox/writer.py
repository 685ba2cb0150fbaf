"""One writer at a time, so that many callers share one commit.

Whoever finds nobody writing does it for itself, and hands the turn to the first of those who came meanwhile, who
does it for all of them. So a lone caller pays for no change of threads, which on a busy machine costs more than the
sync. Callers who shared a commit come back one after the other, so that the first of them waits a moment for the
rest: otherwise half of them would always miss the next commit. A thread of its own does the upkeep, in turn with
the callers.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.outbox.records import OutboxError, OutboxUnavailable
from edge_runtime.telemetry import get_logger

T = TypeVar("T")

MAX_JOBS = 256
"""Callers that share one commit at most."""

GATHER_S = 0.0002
"""How long a commit waits for those who shared the last one; a caller who does not come again costs this once."""


class Job(Generic[T]):
    """One caller's part of a transaction, and where its answer is put.

    Args:
        function: run inside a transaction, perhaps more than once: a failed transaction is tried again.
        writes: whether it changes anything; a batch without changes writes nothing.
        puts: whether it only adds events and reads none, so that its rows can be written with those of others.
        alone: run by itself and outside a transaction; it gets None.
        on_full: its answer when not even giving things up made room on the disk, and what to count then.
    """

    __slots__ = ("alone", "done", "error", "function", "gate", "leads", "on_full", "puts", "value", "writes")

    def __init__(
        self,
        function: Callable[[Any], T],
        *,
        writes: bool = True,
        puts: bool = False,
        alone: bool = False,
        on_full: Callable[[], tuple[T, Counter[str]]] | None = None,
    ) -> None:
        self.function, self.writes, self.puts, self.on_full = function, writes, puts, on_full
        self.alone = alone
        self.value: T | None = None
        self.error: Exception | None = None
        self.done = False  # what was written is durable
        self.leads = False  # it is its caller's turn to write
        self.gate: threading.Lock | None = None  # its caller waits here, unless it led from the beginning

    def wake(self) -> None:
        """Its caller goes on."""
        if self.gate is not None:
            self.gate.release()


class Writer:
    """Collects what callers want and runs it in batches, with upkeep in between.

    Args:
        run: runs a batch; it gives every job a value or an error and raises nothing.
        upkeep: called every `period_s`.
        period_s: seconds.
        clock: tells when upkeep is due.
    """

    def __init__(
        self,
        run: Callable[[list[Job[Any]]], None],
        upkeep: Callable[[], None],
        *,
        period_s: float,
        clock: Clock,
    ) -> None:
        self._run, self._upkeep, self._period_s, self._clock = run, upkeep, period_s, clock
        self._due_ns = clock.monotonic_ns() + round(period_s * NS_PER_S)
        self._jobs: deque[Job[Any]] = deque()
        self._guard = threading.Lock()
        self._busy = False  # somebody has the turn, or was told that it has it
        self._shared = 1  # jobs of the last batch
        self._gathering: threading.Lock | None = None  # whoever leads waits here for as many to come again
        self._stopping = False
        self._wake = threading.Event()
        self._upkeep_wanted: list[threading.Event] = []
        self._thread = threading.Thread(target=self._loop, name="outbox-writer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def call(self, job: Job[T]) -> T:
        """Run a job with the next batch and return its answer after the commit.

        Raises:
            OutboxUnavailable: the outbox is closed.
            Exception: what the job's function raised.
        """
        self._call(job)
        if job.error is not None:
            raise job.error
        return job.value  # type: ignore[return-value]

    def upkeep_now(self) -> None:
        """Have the thread do its upkeep, and wait for it.

        Raises:
            OutboxUnavailable: the outbox is closed.
        """
        done = threading.Event()
        with self._guard:
            if self._stopping:
                raise OutboxUnavailable("the outbox is closed")
            self._upkeep_wanted.append(done)
        self._wake.set()
        done.wait()

    def stop(self) -> None:
        """Run what was handed over, and end."""
        with self._guard:
            self._stopping = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _call(self, job: Job[Any], *, last: bool = False) -> None:
        """Stand in the queue until the job is done, by this thread or by another."""
        with self._guard:
            if self._stopping and not last:
                raise OutboxUnavailable("the outbox is closed")
            if self._busy:
                job.gate = threading.Lock()
                job.gate.acquire()
            else:
                self._busy = job.leads = True
            self._jobs.append(job)
            if self._gathering is not None and (job.alone or len(self._jobs) >= self._shared):
                self._gathering.release()
                self._gathering = None
        try:
            if job.gate is not None:
                job.gate.acquire()
            if not job.done:
                self._lead()
        except BaseException:
            self._abandon(job)
            raise

    def _lead(self) -> None:
        """Write for all that wait, this thread first of them, and give the turn to the first of those behind."""
        jobs = self._jobs
        self._gather()
        with self._guard:
            batch = [jobs.popleft()]
            while jobs and len(batch) < MAX_JOBS and not (batch[0].alone or jobs[0].alone):
                batch.append(jobs.popleft())
            self._shared = len(batch)
        try:
            self._run_batch(batch)
        finally:
            with self._guard:
                self._pass_on()
            for job in batch:
                job.done = True
                if not job.leads:
                    job.wake()

    def _gather(self) -> None:
        """Wait until as many are here as shared the last commit, or a moment."""
        if len(self._jobs) >= self._shared or self._jobs[0].alone:
            return
        gathering = threading.Lock()
        gathering.acquire()
        with self._guard:
            if len(self._jobs) < self._shared:
                self._gathering = gathering
            else:
                gathering.release()
        gathering.acquire(timeout=GATHER_S)
        with self._guard:
            self._gathering = None

    def _run_batch(self, batch: list[Job[Any]]) -> None:
        try:
            if batch[0].alone:
                batch[0].function(None)
            else:
                self._run(batch)
        except BaseException as error:  # the callers wait: each must get an answer
            for job in batch:
                job.error = OutboxError(f"the outbox failed: {type(error).__name__}")
            if not isinstance(error, Exception):
                raise

    def _pass_on(self) -> None:
        """Under the guard: whose turn it is now."""
        if self._jobs:
            self._jobs[0].leads = True
            self._jobs[0].wake()
        else:
            self._busy = False

    def _abandon(self, job: Job[Any]) -> None:
        """A signal took the caller out of its wait: nobody may wait for it in turn."""
        with self._guard:
            if job in self._jobs:
                self._jobs.remove(job)
                if job.leads:
                    self._pass_on()

    def _loop(self) -> None:
        stopping = False
        while not stopping:
            left_s = (self._due_ns - self._clock.monotonic_ns()) / NS_PER_S
            self._wake.wait(min(max(0.0, left_s), self._period_s))
            self._wake.clear()
            with self._guard:
                wanted, self._upkeep_wanted = self._upkeep_wanted, []
                stopping = self._stopping
            if wanted or self._clock.monotonic_ns() >= self._due_ns:
                self._call(Job(self._look_after, alone=True), last=True)
                self._due_ns = self._clock.monotonic_ns() + round(self._period_s * NS_PER_S)
            for done in wanted:
                done.set()
        self._call(Job(_nothing, alone=True), last=True)  # behind all that were before the end

    def _look_after(self, _: None) -> None:
        try:
            self._upkeep()
        except Exception as error:  # noqa: BLE001 - without this thread nobody would be answered any more
            get_logger().error("upkeep of the outbox failed", why=type(error).__name__)


def _nothing(_: None) -> None:
    pass
