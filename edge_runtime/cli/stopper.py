"""SIGINT and SIGTERM end a run cleanly, whenever they come."""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any


class Stopper(AbstractContextManager["Stopper"]):
    """Turns the first signal into a request to stop; a second one falls back to Python's own handling.

    A signal that arrives while models are still being loaded is remembered: the run then ends as soon as it could
    begin, with its summary, instead of dying without a word.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._request: Callable[[], None] | None = None
        self._asked = False

    def attach(self, request_stop: Callable[[], None]) -> None:
        """What to call; at once if a signal has come already."""
        self._request = request_stop
        if self._asked:
            request_stop()

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._asked

    def __enter__(self) -> "Stopper":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._restore()
        self._asked = True
        if self._request is not None:
            self._request()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
