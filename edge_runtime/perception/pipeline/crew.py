"""The threads of a lane: started together, and none of them ends unnoticed."""

import threading
from collections.abc import Callable, Mapping

from edge_runtime.errors import EdgeRuntimeError


class Crew:
    """Threads that end together.

    Args:
        of: the lane's name, for people.
        loops: what each thread does, by its name.
        failed: told the defect that ended one of them, from that thread.
    """

    def __init__(
        self, of: str, loops: Mapping[str, Callable[[], None]], failed: Callable[[BaseException], None]
    ) -> None:
        self._of, self._failed = of, failed
        self._ran: set[str] = set()
        self._threads = [
            threading.Thread(target=self._guard, args=(loop,), name=name) for name, loop in loops.items()
        ]

    def start(self) -> None:
        """Start the threads.

        Raises:
            EdgeRuntimeError: the system gives no more threads; those that have started are left running.
        """
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            raise EdgeRuntimeError(
                f"a thread of {self._of} cannot be started ({error}): raise the limit of this process's tasks"
            ) from error

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the threads; False when one is still running after `timeout_s`."""
        for thread in self._threads:
            if thread.is_alive():  # one that was never started cannot be waited for
                thread.join(timeout_s)
        return not self.at_work

    @property
    def at_work(self) -> bool:
        """Whether one of them runs."""
        return any(thread.is_alive() for thread in self._threads)

    def stillborn(self) -> EdgeRuntimeError | None:
        """The failure where a thread died in the interpreter before it ran: all others wait for it."""
        for thread in self._threads:
            if thread.ident is not None and not thread.is_alive() and thread.name not in self._ran:
                return EdgeRuntimeError(
                    f"thread {thread.name} ended before it ran; what it said is on stderr: start the run again"
                )
        return None

    def _guard(self, loop: Callable[[], None]) -> None:
        self._ran.add(threading.current_thread().name)
        try:
            loop()
        except BaseException as error:  # noqa: BLE001 (a thread's defect must reach the owner, not stderr)
            self._failed(error)
