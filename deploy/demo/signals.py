"""Ctrl-C, a hang-up and SIGTERM end the demo in order: the device's run first, then everything else."""

import contextlib
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals(AbstractContextManager["Signals"]):
    """A signal raises KeyboardInterrupt, except inside `collected` and `ignored`.

    Attributes:
        asked: a signal came inside `collected`.
    """

    def __init__(self) -> None:
        self.asked = False
        self._collects = self._ignores = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Signals":
        self._before = {number: signal.signal(number, self._come) for number in _NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """The first signal only sets `asked`; a second one interrupts."""
        self._collects = True
        try:
            yield
        finally:
            self._collects = False

    def ignore(self) -> None:
        """From now on nothing interrupts: what is left is to clean up, which takes seconds."""
        self._ignores = True

    def _come(self, _number: int, _frame: FrameType | None) -> None:
        if self._ignores:
            return
        if self._collects and not self.asked:
            self.asked = True
            return
        raise KeyboardInterrupt
