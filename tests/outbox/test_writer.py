"""Who writes when: one at a time, nobody forgotten, whatever ends in the middle."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.outbox import OutboxError, OutboxUnavailable
from edge_runtime.outbox.writer import Job, Writer


class Log:
    """Runs batches as the engine does, and remembers them."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.upkeeps = 0
        self.before: Callable[[], None] = lambda: None
        self._running = threading.Lock()

    def run(self, jobs: list[Job[Any]]) -> None:
        with self._alone():
            self.before()
            self.batches.append(len(jobs))
            for job in jobs:
                job.value = job.function(None)

    def look_after(self) -> None:
        with self._alone():
            self.upkeeps += 1

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._running.acquire(blocking=False), "two at once"
        try:
            yield
        finally:
            self._running.release()


@contextmanager
def writing(log: Log, period_s: float = 60.0) -> Iterator[Writer]:
    writer = Writer(log.run, log.look_after, period_s=period_s, clock=SystemClock())
    writer.start()
    yield writer
    writer.stop()


def in_threads(*functions: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    return threads


def same(number: int, _: None) -> int:
    return number


def test_many_callers_are_each_answered_once_and_never_at_once() -> None:
    log = Log()
    answers: list[list[int]] = [[] for _ in range(8)]

    def caller(answered: list[int]) -> None:
        for number in range(200):
            answered += [writer.call(Job(partial(same, number)))]

    with writing(log, period_s=0.05) as writer:
        threads = in_threads(*(partial(caller, answered) for answered in answers))
        writer.upkeep_now()
        for thread in threads:
            thread.join()
    assert answers == [list(range(200))] * 8
    assert sum(log.batches) == 1600
    assert log.upkeeps >= 1


def test_callers_that_come_while_somebody_writes_share_the_next_batch() -> None:
    log, go, inside = Log(), threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        go.wait(10)

    log.before = hold
    with writing(log) as writer:
        threads = in_threads(lambda: writer.call(Job(lambda _: None)))
        inside.wait(10)
        threads += in_threads(*[lambda: writer.call(Job(lambda _: None)) for _ in range(5)])
        while len(writer._jobs) < 5:  # they stand in the queue
            go.wait(0.001)
        log.before = lambda: None
        go.set()
        for thread in threads:
            thread.join()
    assert log.batches == [1, 5]


def test_a_run_that_fails_is_everybodys_error_and_the_next_one_works() -> None:
    log = Log()

    def fail() -> None:
        raise RuntimeError("a defect")

    with writing(log) as writer:
        log.before = fail
        with pytest.raises(OutboxError, match="RuntimeError"):
            writer.call(Job(lambda _: 1))
        log.before = lambda: None
        assert writer.call(Job(lambda _: 2)) == 2


def test_a_writer_that_is_interrupted_leaves_the_turn_to_others() -> None:
    log = Log()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with writing(log) as writer:
        log.before = interrupt
        with pytest.raises(KeyboardInterrupt):
            writer.call(Job(lambda _: 1))
        log.before = lambda: None
        assert writer.call(Job(lambda _: 2)) == 2


def wait_for_the_alarm(writer: Writer) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    writer.call(Job(lambda _: 1))


def test_a_caller_that_is_interrupted_while_it_waits_is_waited_for_by_nobody() -> None:
    log, go, inside = Log(), threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        go.wait(10)

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    log.before = hold
    with writing(log) as writer:
        threads = in_threads(lambda: writer.call(Job(lambda _: None)))
        inside.wait(10)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                wait_for_the_alarm(writer)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        log.before = lambda: None
        go.set()
        assert writer.call(Job(lambda _: 2)) == 2
        threads[0].join()
    assert sum(log.batches) == 2


def test_the_end_comes_behind_what_was_handed_over() -> None:
    log = Log()
    with writing(log) as writer:
        done = [writer.call(Job(lambda _: 1))]
    assert done == [1]
    for call in (lambda: writer.call(Job(lambda _: 1)), writer.upkeep_now):
        with pytest.raises(OutboxUnavailable):
            call()
