"""The hand-over of runs: two are on the device at once, and answers find their callers."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.backends.tensorrt.pace import Pace
from edge_runtime.perception.backends.tensorrt.worker import Worker

PATIENCE_S = 60.0


class Recorded:
    """A session that notes what is done in which order; a run ends when `may_end` is set."""

    def __init__(self, places: int = 2) -> None:
        self.places = places
        self.order: list[str] = []
        self.noted = threading.Condition()
        self.may_end = threading.Event()
        self.may_end.set()
        self.under_way: deque[float] = deque()
        self.closed = False

    def note(self, text: str) -> None:
        with self.noted:
            self.order.append(text)
            self.noted.notify_all()

    def until(self, text: str) -> None:
        with self.noted:
            assert self.noted.wait_for(lambda: text in self.order, PATIENCE_S), (text, self.order)

    def begin(self, feeds: Mapping[str, Tensor]) -> Any:
        assert len(self.under_way) < self.places
        number = float(feeds["images"][0])
        self.under_way.append(number)
        self.note(f"begin {number:g}")
        return number

    def finish(self, run: Any) -> list[Tensor]:
        assert run == self.under_way[0], "runs are waited for in the order in which they began"
        self.note(f"wait {run:g}")
        assert self.may_end.wait(PATIENCE_S)
        self.under_way.popleft()
        return [np.array([run])]

    def settle(self) -> None:
        self.note("settle")

    def close(self) -> None:
        assert not self.under_way
        self.closed = True


class Asking:
    """A thread that asks for one run."""

    def __init__(self, worker: Worker, number: float) -> None:
        self.answer: float | None = None
        self._worker, self._number = worker, number
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        self.answer = float(self._worker.run({"images": np.array([self._number])}, PATIENCE_S)[0][0])

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert self.answer == self._number


@pytest.fixture
def session() -> Recorded:
    return Recorded()


@pytest.fixture
def worker(session: Recorded) -> Iterator[Worker]:
    made = Worker(lambda: session, "cars")
    yield made
    session.may_end.set()
    assert made.close(PATIENCE_S)
    assert session.closed


def test_a_job_that_waits_begins_before_the_run_before_it_ends(session: Recorded, worker: Worker) -> None:
    held, entered = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        entered.set()
        assert held.wait(PATIENCE_S)

    holding = threading.Thread(target=worker.call, args=(hold,))
    holding.start()
    assert entered.wait(PATIENCE_S)
    asking = [Asking(worker, number) for number in (1, 2)]
    while len(worker._jobs) < 2:
        threading.Event().wait(0.002)
    held.set()
    for each in asking:
        each.join()
    holding.join()
    assert [text.split()[0] for text in session.order] == ["begin", "begin", "wait", "wait"]


def unhurried() -> Pace:
    """As if each run had taken twice the patience of these tests."""
    pace = Pace()
    for run in range(20):
        pace.ended(0.0 if run else -2 * PATIENCE_S, 2 * PATIENCE_S * run)
    return pace


def test_it_looks_out_for_jobs_for_most_of_a_runs_usual_time(session: Recorded, worker: Worker) -> None:
    worker._pace = unhurried()
    session.may_end.clear()
    first = Asking(worker, 1)
    session.until("begin 1")
    second = Asking(worker, 2)
    session.until("begin 2")  # while the first goes on, and would be waited for only much later
    worker._pace = Pace()
    session.may_end.set()
    first.join()
    second.join()
    assert session.order[:2] == ["begin 1", "begin 2"]


def test_the_first_runs_are_waited_for_at_once(session: Recorded, worker: Worker) -> None:
    session.may_end.clear()
    first = Asking(worker, 1)
    session.until("wait 1")
    session.may_end.set()
    first.join()


def test_the_pace_never_waits_longer_than_the_shortest_recent_run() -> None:
    pace = Pace()
    now = 0.0
    for took in (9.0, 0.3, *[0.2] * 6):
        assert pace.look_out_until(now) == now
        pace.ended(now, now + took)
        now += took
    assert pace.look_out_until(now) == pytest.approx(now + 0.16)
    pace.ended(now, now + 0.05)  # it became shorter
    assert pace.look_out_until(now + 0.05) == pytest.approx(now + 0.05 + 0.04)


def test_the_pace_takes_up_what_became_longer() -> None:
    pace = Pace()
    for run in range(40):
        took = 0.1 if run < 20 else 0.4
        pace.ended(float(run), run + took)
    assert pace.look_out_until(50.0) == pytest.approx(50.0 + 0.32)


def test_a_run_that_began_behind_another_is_counted_from_its_end() -> None:
    pace = Pace()
    for run in range(20):  # each began as the one before it did
        pace.ended(max(0.0, run - 1.0), run + 1.0)
    assert pace.look_out_until(19.5) == pytest.approx(20.0 + 0.8)


def lazily(pace: Pace, runs: int, took: float, now: float) -> tuple[float, float]:
    """Runs of one caller on a device that computes once it is waited for: the longest look-out, and the end."""
    longest = 0.0
    for _ in range(runs):
        until = pace.look_out_until(now)
        longest = max(longest, until - now)
        end = until + took
        pace.ended(now, end)
        now = end
    return longest, now


def test_the_pace_does_not_grow_by_its_own_waiting() -> None:
    pace = Pace()
    assert lazily(pace, 500, 1.0, 0.0)[0] == pytest.approx(0.8)


def test_the_pace_of_short_runs_does_not_grow_by_a_thread_that_wakes_late() -> None:
    pace, now, longest = Pace(), 0.0, 0.0
    for _ in range(500):
        until = pace.look_out_until(now)
        longest = max(longest, until - now)
        end = max(until, now + 1.0) + 2.0  # the run ends in the look-out, and is noticed after it
        pace.ended(now, end)
        now = end
    assert longest == pytest.approx(0.8 * 3.0)


def test_the_pace_forgets_a_slow_time_of_a_device_that_computes_once_it_is_waited_for() -> None:
    pace = Pace()
    longest, now = lazily(pace, 100, 5.0, 0.0)
    assert longest == pytest.approx(4.0)
    _, now = lazily(pace, 8, 1.0, now)
    assert lazily(pace, 100, 1.0, now)[0] == pytest.approx(0.8)


def test_each_eighth_run_is_waited_for_at_once() -> None:
    pace, now, at_once = Pace(), 0.0, []
    for run in range(32):
        if pace.look_out_until(now) == now:
            at_once.append(run)
        pace.ended(now, now + 1.0)
        now += 1.0
    assert at_once == [0, 1, 2, 3, 4, 5, 6, 7, 15, 23, 31]


def test_no_more_runs_are_begun_than_there_are_places(session: Recorded, worker: Worker) -> None:
    worker._pace = unhurried()
    session.may_end.clear()
    asking = [Asking(worker, number) for number in range(5)]
    with session.noted:
        assert session.noted.wait_for(lambda: any("wait" in text for text in session.order), PATIENCE_S)
        assert sum("begin" in text for text in session.order) == 2
    worker._pace = Pace()
    session.may_end.set()
    for each in asking:
        each.join()


def test_an_error_reaches_its_caller_alone(session: Recorded, worker: Worker) -> None:
    def broken(feeds: Mapping[str, Tensor]) -> Any:
        raise BackendError("the engine does not take it")

    right, session.begin = session.begin, broken  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="does not take it"):
        worker.run({"images": np.array([1.0])}, PATIENCE_S)
    assert session.order == ["settle"]
    session.begin = right  # type: ignore[method-assign]
    Asking(worker, 2).join()


def test_a_defect_becomes_an_error_of_the_backend(session: Recorded, worker: Worker) -> None:
    def broken(run: Any) -> list[Tensor]:
        session.under_way.popleft()
        raise ZeroDivisionError("division by zero")

    right, session.finish = session.finish, broken  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="cars: ZeroDivisionError"):
        worker.run({"images": np.array([1.0])}, PATIENCE_S)
    session.finish = right  # type: ignore[method-assign]
    Asking(worker, 2).join()


def test_what_fails_to_open_is_raised_where_it_was_made() -> None:
    def refuse() -> Recorded:
        raise BackendError("no room")

    before = threading.active_count()
    with pytest.raises(BackendError, match="no room"):
        Worker(refuse, "cars")
    assert threading.active_count() == before
