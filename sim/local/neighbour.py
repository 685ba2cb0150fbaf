"""Another program that takes the processor: perception runs for a share of the time, as under the kernel's quota.

A crowd of busy loops does the same only where nobody else is on the machine, and how much is left is luck. So the
process is stopped for most of each short period, and goes on for the rest: it finishes its work, late.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable

PERIOD_S = 0.2


class Neighbour:
    """One that comes and leaves.

    Args:
        pid: gives the process whose time is taken.
    """

    def __init__(self, pid: Callable[[], int]) -> None:
        self._pid = pid
        self._gone = threading.Event()
        self._thread: threading.Thread | None = None

    def come(self, times: float) -> None:
        """From now on the process has one part in `times` of the time.

        Raises:
            RoadError: it does not run.
        """
        self._gone.clear()
        self._thread = threading.Thread(target=self._work, args=(self._pid(), times), daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """All of the time again; nothing where nobody came."""
        self._gone.set()
        if self._thread is not None:
            self._thread.join(5)
        self._thread = None

    def _work(self, pid: int, times: float) -> None:
        left_s = PERIOD_S / times
        with contextlib.suppress(ProcessLookupError):
            while not self._gone.is_set():
                os.kill(pid, signal.SIGSTOP)
                self._gone.wait(PERIOD_S - left_s)
                os.kill(pid, signal.SIGCONT)
                self._gone.wait(left_s)
