"""The one thread that touches the device, and the hand-over of runs to it.

CUDA's context belongs to a thread and TensorRT's calls must follow one another, while cameras and lanes have
threads of their own: an engine made in one thread and used in another ends in an illegal access
(inducer/pycuda #242, NVIDIA/TensorRT #1819). So callers hand a job over and wait.

While a run is on the device the thread waits for the next job during most of the time that a run takes (`pace`),
and only then for the device: a job that comes early is copied in and prepared while the run before it goes on.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.base import InferenceTimeout, Tensor
from edge_runtime.perception.backends.tensorrt._cuda import DeviceLost
from edge_runtime.perception.backends.tensorrt.jobs import Call, Job
from edge_runtime.perception.backends.tensorrt.pace import Pace

_CLOSE_PATIENCE_S: Final = 10.0

_CALL_PATIENCE_S: Final = 4.0
"""Less than a lane's preparing thread may take (pipeline.lane), which must outlive a device that hangs."""

T = TypeVar("T")


class Session(Protocol):
    """What the thread does with the device; made, used and closed on it.

    Attributes:
        places: runs that can be on the device at once.
    """

    places: int

    def begin(self, feeds: Mapping[str, Tensor]) -> Any:
        """Put a run on the device; a token for `finish`."""
        ...

    def finish(self, run: Any) -> list[Tensor]:
        """Wait for a run, in the order in which they began."""
        ...

    def settle(self) -> None:
        """Wait until nothing of a run that failed is under way."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Worker:
    """Runs a `Session` on a thread of its own.

    Args:
        open_session: called on the thread.
        model: name for messages.

    Raises:
        BackendError: whatever `open_session` raised.
    """

    def __init__(self, open_session: Callable[[], Session], model: str) -> None:
        self._model = model
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._calls: deque[Call[Any]] = deque()
        self._overdue: dict[Job, float] = {}
        self._closing = False
        self._broken: str | None = None
        self._pace = Pace()
        self._opened = threading.Event()
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._main, args=(open_session,), name=f"{model}-tensorrt", daemon=True
        )
        self._thread.start()
        self._opened.wait()
        if self._failures:
            self._thread.join()
            raise self._failures.pop()

    def run(self, feeds: Mapping[str, Tensor], timeout_s: float | None) -> list[Tensor]:
        """Hand a job over and wait for its outputs.

        Raises:
            InferenceTimeout: it did not end in time; if it had begun, no other is taken until it ends.
            BackendError: it failed, or none is taken.
        """
        job = Job(feeds)
        with self._changed:
            self._refuse()
            self._jobs.append(job)
            self._changed.notify_all()
        if not job.finished.wait(timeout_s):
            self._give_up(job, timeout_s or 0.0)
        if job.error is not None:
            raise job.error
        assert job.outputs is not None
        return job.outputs

    def call(self, action: Callable[[Any], T]) -> T:
        """Do something with the session on the thread, between two runs, and wait for it.

        Raises:
            BackendError: the device is not to be had, or no run ended for seconds.
        """
        call: Call[T] = Call(action)
        with self._changed:
            self._refuse()
            self._calls.append(call)
            self._changed.notify_all()
        if not call.finished.wait(_CALL_PATIENCE_S):
            self._withdraw(call)
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]  # what the action returned

    def _withdraw(self, call: Call[Any]) -> None:
        with self._changed:
            if call in self._calls:
                self._calls.remove(call)
                raise BackendError(f"{self._model}: no run has ended for {_CALL_PATIENCE_S:g} s")
        call.finished.wait()  # it has begun

    def close(self, patience_s: float = _CLOSE_PATIENCE_S) -> bool:
        """End the thread once what is on the device has ended; False where the device does not let go.

        Jobs that have not begun fail. A device that hangs keeps its memory until it lets go, and this thread then
        still gives all of it back. Calling it twice is allowed.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def _refuse(self) -> None:
        if self._closing:
            raise BackendError(f"{self._model}: the model is closed: load it again")
        if self._broken is not None:
            raise DeviceLost(self._broken)
        if self._overdue:
            since = min(self._overdue.values())
            raise BackendError(
                f"{self._model}: a run has not ended {time.monotonic() - since:.0f} s after it was given up: no "
                f"other is taken until it ends; restart the process if it never does"
            )

    def _give_up(self, job: Job, timeout_s: float) -> None:
        with self._changed:
            if job.finished.is_set():
                return
            text = f"{self._model}: the model did not answer within {timeout_s:g} s"
            if job in self._jobs:
                self._jobs.remove(job)
                job.fail(InferenceTimeout(f"{text}: runs before it took that long"))
            else:
                self._overdue[job] = time.monotonic()
                job.error = InferenceTimeout(text)

    # ---- on the thread

    def _main(self, open_session: Callable[[], Session]) -> None:
        try:
            session = open_session()
        except BaseException as error:  # noqa: BLE001 (raised where the worker is made)
            self._failures.append(error)
            self._opened.set()
            return
        self._opened.set()
        del open_session
        try:
            self._serve(session)
        finally:
            with self._changed:
                self._closing = True
                left = [*self._jobs]
                self._jobs.clear()
                calls, self._calls = [*self._calls], deque()
            for job in left:
                job.fail(BackendError(f"{self._model}: the model was closed before the run began"))
            session.close()
            for call in calls:
                call.error = BackendError(f"{self._model}: the model is closed: load it again")
                call.finished.set()

    def _serve(self, session: Session) -> None:
        under_way: deque[tuple[Job, Any, float]] = deque()
        while True:
            until = self._pace.look_out_until(under_way[0][2]) if under_way else float("inf")
            job, call = self._next(len(under_way), session.places, until)
            if call is not None:
                self._answer(call, session)
            elif job is not None:
                self._begin(session, job, under_way)
            elif under_way:
                self._finish(session, under_way)
            else:
                return

    def _next(self, under_way: int, places: int, until: float) -> tuple[Job | None, Call[Any] | None]:
        """The next thing to begin; neither where the oldest run should be waited for, or all is over."""
        with self._changed:
            while True:
                if self._calls and not self._closing:
                    return None, self._calls.popleft()
                if self._jobs and under_way < places and not self._closing:
                    return self._jobs.popleft(), None
                if self._closing or (under_way and under_way == places):
                    return None, None
                left = until - time.monotonic()
                if under_way and left <= 0:
                    return None, None
                self._changed.wait(left if under_way else None)

    def _answer(self, call: Call[Any], session: Session) -> None:
        try:
            call.result = call.action(session)
        except BaseException as error:  # noqa: BLE001 (raised where it was asked for)
            call.error = error
        call.finished.set()

    def _begin(self, session: Session, job: Job, under_way: deque[tuple[Job, Any, float]]) -> None:
        try:
            run = session.begin(job.feeds)
        except Exception as error:  # noqa: BLE001 (raised where the run was asked for)
            self._fail(session, job, error, under_way)
            return
        under_way.append((job, run, time.monotonic()))

    def _finish(self, session: Session, under_way: deque[tuple[Job, Any, float]]) -> None:
        job, run, begun = under_way.popleft()
        try:
            outputs = session.finish(run)
        except Exception as error:  # noqa: BLE001 (raised where the run was asked for)
            self._fail(session, job, error, under_way)
            return
        self._pace.ended(begun, time.monotonic())
        with self._changed:
            if self._overdue.pop(job, None) is None:
                job.succeed(outputs)

    def _fail(
        self, session: Session, job: Job, error: Exception, under_way: deque[tuple[Job, Any, float]]
    ) -> None:
        """One run failed: the device is brought to rest, or given up with all runs on it."""
        typed = error if isinstance(error, BackendError) else BackendError(f"{self._model}: {error!r}")
        if not isinstance(error, DeviceLost):
            try:
                session.settle()
            except BackendError as worse:
                typed = worse if isinstance(worse, DeviceLost) else DeviceLost(str(worse))
        if isinstance(typed, DeviceLost):
            text = f"{self._model}: the device is lost, restart the process: {typed}"
            typed = DeviceLost(text)
            with self._changed:
                self._broken = text
                abandoned = [*self._jobs]
                self._jobs.clear()
            abandoned += [run[0] for run in under_way]
            under_way.clear()
            for other in abandoned:
                self._end(other, DeviceLost(text))
        self._end(job, typed)

    def _end(self, job: Job, error: BackendError) -> None:
        with self._changed:
            if self._overdue.pop(job, None) is None:
                job.fail(error)
