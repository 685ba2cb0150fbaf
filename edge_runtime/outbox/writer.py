"""One writer at a time, so that many callers share one commit.

Whoever finds nobody writing does it for itself and for all who came meanwhile: a lone caller pays for no change of
threads, which on a busy machine costs more than the sync. A thread of its own takes what was left behind, and does
the upkeep.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.outbox.records import OutboxError, OutboxUnavailable
from edge_runtime.outbox.transaction import Transaction
from edge_runtime.telemetry import get_logger

T = TypeVar("T")

MAX_JOBS = 256
"""Callers that share one commit at most."""


class Job(Generic[T]):
    """One caller's part of a transaction, and where its answer is put.

    Args:
        function: run inside a transaction, perhaps more than once: a failed transaction is tried again.
        writes: whether it changes anything; a batch without changes writes nothing.
        on_full: its answer when not even giving things up made room on the disk, and what to count then.
    """

    __slots__ = ("_done", "done", "error", "function", "on_full", "value", "writes")

    def __init__(
        self,
        function: Callable[[Transaction], T],
        *,
        writes: bool = True,
        on_full: Callable[[], tuple[T, Counter[str]]] | None = None,
    ) -> None:
        self.function, self.writes, self.on_full = function, writes, on_full
        self.value: T | None = None
        self.error: Exception | None = None
        self.done = False
        self._done = threading.Lock()
        self._done.acquire()

    def finish(self) -> None:
        """Wake the caller; what was written is durable."""
        self.done = True
        self._done.release()

    def wait(self) -> T:
        """The answer, once it is durable.

        Raises:
            Exception: what `function` raised.
        """
        self._done.acquire()
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


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
        self._wake = threading.Condition()
        self._turn = threading.Lock()
        self._claimed = False  # the thread wants the turn: callers leave it to it
        self._stopping = False
        self._upkeep_wanted: list[threading.Event] = []
        self._thread = threading.Thread(target=self._loop, name="outbox-writer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def call(self, job: Job[T]) -> T:
        """Run a job with the next batch and return its answer after the commit.

        Raises:
            OutboxUnavailable: the outbox is closed.
        """
        with self._wake:
            if self._stopping:
                raise OutboxUnavailable("the outbox is closed")
            self._jobs.append(job)
            mine = not self._claimed and self._turn.acquire(blocking=False)
        if mine:
            try:
                while not job.done:
                    self._run_next()
            finally:
                self._turn.release()
            with self._wake:
                if self._jobs:  # who came last saw the turn taken: the thread serves them
                    self._wake.notify()
        return job.wait()

    def upkeep_now(self) -> None:
        """Have the thread do its upkeep, and wait for it.

        Raises:
            OutboxUnavailable: the outbox is closed.
        """
        done = threading.Event()
        with self._wake:
            if self._stopping:
                raise OutboxUnavailable("the outbox is closed")
            self._upkeep_wanted.append(done)
            self._wake.notify()
        done.wait()

    def stop(self) -> None:
        """Run what was handed over, and end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        with self._turn:  # a caller may still be writing
            pass

    def _loop(self) -> None:
        while True:
            with self._wake:
                if not (self._jobs or self._stopping or self._upkeep_wanted):
                    self._wake.wait(self._period_s)
                wanted, self._upkeep_wanted = self._upkeep_wanted, []
                if self._stopping and not (self._jobs or wanted):
                    return
                self._claimed = True
            with self._turn:
                with self._wake:
                    self._claimed = False
                self._run_next()
                now_ns = self._clock.monotonic_ns()
                if wanted or now_ns >= self._due_ns:
                    self._due_ns = now_ns + round(self._period_s * NS_PER_S)
                    self._look_after()
            for done in wanted:
                done.set()

    def _run_next(self) -> None:
        with self._wake:
            batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), MAX_JOBS))]
        if batch:
            self._run_batch(batch)

    def _run_batch(self, batch: list[Job[Any]]) -> None:
        try:
            self._run(batch)
        except Exception as error:  # noqa: BLE001 - the callers wait: each must get an answer
            for job in batch:
                job.error = OutboxError(f"the outbox failed: {type(error).__name__}")
        for job in batch:
            job.finish()

    def _look_after(self) -> None:
        try:
            self._upkeep()
        except Exception as error:  # noqa: BLE001 - without this thread nobody would be answered any more
            get_logger().error("upkeep of the outbox failed", why=type(error).__name__)
