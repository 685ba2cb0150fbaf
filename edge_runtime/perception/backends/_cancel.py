"""Cancels runs that outlive their deadline, with one thread for all of them.

A timer thread per inference would cost more than the decoder does; here arming is a dictionary entry, and the
thread sleeps until the earliest deadline it knows.
"""

import itertools
import threading
import time
from typing import Any


class Canceller:
    """Sets `terminate` on an onnxruntime RunOptions when its deadline passes. Safe from several threads."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._armed: dict[int, tuple[float, Any]] = {}
        self._fired: set[int] = set()
        self._tickets = itertools.count(1)
        self._thread: threading.Thread | None = None
        self._sleeping_until = float("inf")
        self._closed = False

    def arm(self, options: Any, deadline: float) -> int:
        """Cancel `options` at `deadline` (time.monotonic seconds) unless disarmed before."""
        with self._condition:
            ticket = next(self._tickets)
            self._armed[ticket] = (deadline, options)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._watch, name="inference-canceller", daemon=True)
                self._thread.start()
            elif deadline < self._sleeping_until:
                self._condition.notify()
            return ticket

    def disarm(self, ticket: int) -> None:
        """The run of `ticket` is over."""
        with self._condition:
            self._armed.pop(ticket, None)
            self._fired.discard(ticket)

    def fired(self, ticket: int) -> bool:
        """Whether the run of `ticket` was cancelled."""
        with self._condition:
            return ticket in self._fired

    def close(self) -> None:
        """End the thread."""
        with self._condition:
            self._closed = True
            self._condition.notify()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=2.0)

    def _watch(self) -> None:
        with self._condition:
            while not self._closed:
                now = time.monotonic()
                for ticket, (deadline, options) in list(self._armed.items()):
                    if deadline <= now:
                        options.terminate = True
                        self._fired.add(ticket)
                        del self._armed[ticket]
                self._sleeping_until = min(
                    (deadline for deadline, _ in self._armed.values()), default=now + 1.0
                )
                self._condition.wait(max(0.0, self._sleeping_until - now))
